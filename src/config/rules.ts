/** Checks between options: what does not go together, what has no effect, and what forces another option. */

import type { AnyOptionValue } from './option-spec.ts'
import { OPTION_KEYS, type OptionKey, type OptionValue, specOf } from './option-table.ts'
import { isOperators, type Setting } from './setting.ts'
import { formatDuration } from './values.ts'

/** What a check found. An error stops the job before it starts, a warning is logged once, a note only at level info. */
export interface Finding {
  readonly level: 'note' | 'warning' | 'error'
  /** The option that it is about, if it is about one. */
  readonly key?: OptionKey
  readonly message: string
  /** The value that the option has because of it. */
  readonly forced?: AnyOptionValue
}

/** Values as a rule sees them. */
export interface RuleView {
  get<K extends OptionKey>(key: K): OptionValue<K>
  /** The setting that made the value; undefined for a default. */
  setting(key: OptionKey): Setting | undefined
}

type Rule = (view: RuleView) => readonly Finding[]

const error = (key: OptionKey, message: string): readonly Finding[] => [{ level: 'error', key, message }]
const NOTHING: readonly Finding[] = []
/** Below this checkpoints would do nothing but begin; Flink draws the same line. */
const LEAST_INTERVAL_MS = 10

const MAX_CONCURRENT = 'execution.checkpointing.max-concurrent-checkpoints'

function interval(view: RuleView): readonly Finding[] {
  const key = 'execution.checkpointing.interval'
  const value = view.get(key)
  if (value === 0 || value >= LEAST_INTERVAL_MS) return NOTHING
  return error(
    key,
    `${key} is ${formatDuration(value)}: it must be 0 (off) or at least ${formatDuration(LEAST_INTERVAL_MS)}`,
  )
}

function checkpointingOff(view: RuleView): readonly Finding[] {
  if (view.get('execution.checkpointing.interval') !== 0) return NOTHING
  return OPTION_KEYS.filter((key) => {
    const setting = view.setting(key)
    return (
      key.startsWith('execution.checkpointing.') &&
      key !== 'execution.checkpointing.interval' &&
      setting !== undefined &&
      isOperators(setting)
    )
  }).map((key) => ({
    level: 'warning' as const,
    key,
    message: `${key} (${view.setting(key)!.source}) has no effect: checkpointing is off, set execution.checkpointing.interval`,
  }))
}

function unalignedMode(view: RuleView): readonly Finding[] {
  const key = 'execution.checkpointing.unaligned'
  if (!view.get(key) || view.get('execution.checkpointing.mode') === 'EXACTLY_ONCE') return NOTHING
  return [
    {
      level: 'warning',
      key,
      forced: false,
      message: `${key} has no effect with execution.checkpointing.mode AT_LEAST_ONCE, which never aligns`,
    },
  ]
}

function oneCheckpointAtATime(view: RuleView): readonly Finding[] {
  const pause = 'execution.checkpointing.min-pause'
  const unaligned = 'execution.checkpointing.unaligned'
  const aligned = !view.get(unaligned) || view.get('execution.checkpointing.mode') === 'AT_LEAST_ONCE'
  const reason = view.get(pause) > 0 ? `${pause} is above 0` : aligned ? undefined : `${unaligned} is on`
  if (reason === undefined || view.get(MAX_CONCURRENT) === 1) return NOTHING
  return [
    {
      level: 'note',
      key: MAX_CONCURRENT,
      forced: 1,
      message: `${MAX_CONCURRENT} is 1 instead of ${view.get(MAX_CONCURRENT)}, because ${reason}`,
    },
  ]
}

function checkpointFolder(view: RuleView): readonly Finding[] {
  const key = 'state.checkpoints.dir'
  const backend = view.get('state.backend')
  if ((backend !== 'filesystem' && backend !== 'rocksdb') || view.get(key) !== undefined) return NOTHING
  return error(
    key,
    `state.backend is ${backend}, but ${key} is not set: name a folder that every worker can reach`,
  )
}

function redisServer(view: RuleView): readonly Finding[] {
  const key = 'state.backend.redis.url'
  if (view.get('state.backend') !== 'redis' || view.get(key) !== undefined) return NOTHING
  return error(key, `state.backend is redis, but ${key} is not set, and neither is REDIS_URL`)
}

/** Redis only ever takes what changed. */
function alwaysIncremental(view: RuleView): readonly Finding[] {
  const key = 'state.backend.incremental'
  const setting = view.setting(key)
  if (
    view.get('state.backend') !== 'redis' ||
    setting === undefined ||
    !isOperators(setting) ||
    view.get(key)
  )
    return NOTHING
  return [
    {
      level: 'warning',
      key,
      forced: true,
      message: `${key} is true instead of false: with state.backend redis checkpoints are always incremental`,
    },
  ]
}

function parallelism(view: RuleView): readonly Finding[] {
  const value = view.get('parallelism.default')
  const most = view.get('pipeline.max-parallelism')
  if (value === 'auto' || value <= most) return NOTHING
  return error(
    'parallelism.default',
    `parallelism.default is ${value}, above pipeline.max-parallelism, which is ${most}`,
  )
}

function sasl(view: RuleView): readonly Finding[] {
  const parts = ['kafka.sasl.mechanism', 'kafka.sasl.username', 'kafka.sasl.password'] as const
  const missing = parts.filter((key) => view.get(key) === undefined)
  if (missing.length === 0 || missing.length === parts.length) return NOTHING
  return missing.flatMap((key) =>
    error(
      key,
      `${key} is not set, but SASL needs it together with ${parts.filter((part) => part !== key).join(' and ')}`,
    ),
  )
}

function tls(view: RuleView): readonly Finding[] {
  const files = ['kafka.ssl.ca', 'kafka.ssl.cert', 'kafka.ssl.key'] as const
  const given = files.filter((key) => view.get(key) !== undefined)
  if (given.length > 0 && !view.get('kafka.ssl'))
    return error(
      'kafka.ssl',
      `${given.join(' and ')} set, but kafka.ssl is false: the connection would not be encrypted; set kafka.ssl to true`,
    )
  const pair = ['kafka.ssl.cert', 'kafka.ssl.key'] as const
  const missing = pair.filter((key) => view.get(key) === undefined)
  return missing.length === 1
    ? error(missing[0]!, `${missing[0]} is not set: a client certificate needs both ${pair.join(' and ')}`)
    : NOTHING
}

function backoff(view: RuleView): readonly Finding[] {
  const first = 'restart-strategy.exponential-delay.initial-backoff'
  const most = 'restart-strategy.exponential-delay.max-backoff'
  if (view.get(first) <= view.get(most)) return NOTHING
  return error(
    first,
    `${first} is ${formatDuration(view.get(first))}, above ${most}, which is ${formatDuration(view.get(most))}`,
  )
}

function fetchWait(view: RuleView): readonly Finding[] {
  const wait = 'kafka.fetch.max-wait'
  const timeout = 'kafka.request-timeout'
  if (view.get(wait) < view.get(timeout)) return NOTHING
  return error(
    wait,
    `${wait} is ${formatDuration(view.get(wait))}: it must be below ${timeout}, which is ${formatDuration(view.get(timeout))}`,
  )
}

/** Options of something that is not chosen. A job's code may name them all the same, since an operator may choose something else. */
function withoutEffect(view: RuleView): readonly Finding[] {
  return OPTION_KEYS.flatMap((key) => {
    const setting = view.setting(key)
    const { appliesWhen } = specOf(key)
    if (appliesWhen === undefined || setting === undefined || !isOperators(setting)) return []
    const actual = String(view.get(appliesWhen.key as OptionKey))
    const wanted = typeof appliesWhen.is === 'string' ? [appliesWhen.is] : appliesWhen.is
    if (wanted.includes(actual)) return []
    const message = `${key} (${setting.source}) has no effect: ${appliesWhen.key} is ${actual}, not ${wanted.join(' or ')}`
    return [{ level: 'warning' as const, key, message }]
  })
}

const RULES: readonly Rule[] = [
  interval,
  checkpointingOff,
  unalignedMode,
  oneCheckpointAtATime,
  checkpointFolder,
  redisServer,
  alwaysIncremental,
  parallelism,
  sasl,
  tls,
  backoff,
  fetchWait,
  withoutEffect,
]

/** Everything that the rules find. Pure: the same values give the same findings. */
export function checkOptions(view: RuleView): readonly Finding[] {
  return RULES.flatMap((rule) => rule(view))
}
