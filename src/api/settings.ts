/**
 * Settings that a job's code makes. They are the weakest layer of configuration: a file, the environment and flags each override them,
 * so they are kept under the same keys that those use.
 */

import type { RestartStrategyConfig } from '../core/restart-strategy-config.ts'
import { ConfigError } from '../errors.ts'

/** A value of an option; durations are milliseconds or texts such as '10 min'. */
export type ConfigValue = string | number | boolean

/** What `execute` hands over of a job's own settings. */
export interface ProgrammaticSettings {
  /** By key, e.g. 'execution.checkpointing.interval'; what nobody set is absent. */
  readonly config: Readonly<Record<string, ConfigValue>>
  /** Also in `config`, as `restart-strategy.*`. */
  readonly restartStrategy: RestartStrategyConfig | undefined
}

const UNITS: Readonly<Record<string, number>> = {
  '': 1,
  ms: 1,
  s: 1_000,
  sec: 1_000,
  min: 60_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}

/** The record that setters of one environment write to and getters read from. */
export class SettingsRecord {
  readonly #values: Map<string, ConfigValue>

  constructor(initial: Readonly<Record<string, ConfigValue>> = {}) {
    this.#values = new Map(Object.entries(initial))
  }

  set(key: string, value: ConfigValue): void {
    this.#values.set(key, value)
  }

  get(key: string): ConfigValue | undefined {
    return this.#values.get(key)
  }

  /** The number, or the milliseconds of a duration such as '10 min'; `otherwise` when nothing readable is set. */
  number(key: string, otherwise: number): number {
    const value = this.#values.get(key)
    if (value === undefined) return otherwise
    const [, digits, unit] = /^\s*(\d+)\s*([a-z]*)\s*$/i.exec(String(value)) ?? []
    const factor = UNITS[(unit ?? '').toLowerCase()]
    return digits === undefined || factor === undefined ? otherwise : Number(digits) * factor
  }

  /** Removes every key that starts with `prefix`. */
  deleteAll(prefix: string): void {
    for (const key of [...this.#values.keys()]) if (key.startsWith(prefix)) this.#values.delete(key)
  }

  /** A copy. */
  toRecord(): Record<string, ConfigValue> {
    return Object.fromEntries(this.#values)
  }
}

/** The `restart-strategy.*` options that say the same as a strategy made in code. */
export function restartStrategyOptions(strategy: RestartStrategyConfig): Record<string, ConfigValue> {
  const type = { 'restart-strategy.type': strategy.kind }
  const within = (values: Record<string, ConfigValue | undefined>): Record<string, ConfigValue> =>
    Object.fromEntries(
      Object.entries(values).flatMap(([key, value]) =>
        value === undefined ? [] : [[`restart-strategy.${strategy.kind}.${key}`, value]],
      ),
    )
  switch (strategy.kind) {
    case 'fixed-delay':
      return { ...type, ...within({ attempts: strategy.attempts, delay: strategy.delayMs }) }
    case 'exponential-delay':
      return {
        ...type,
        ...within({
          'initial-backoff': strategy.initialMs,
          'max-backoff': strategy.maxMs,
          'backoff-multiplier': strategy.multiplier,
          'reset-backoff-threshold': strategy.resetMs,
          'jitter-factor': strategy.jitter,
          'attempts-before-reset-backoff': strategy.attempts,
        }),
      }
    case 'failure-rate':
      return {
        ...type,
        ...within({
          'max-failures-per-interval': strategy.maxFailures,
          'failure-rate-interval': strategy.intervalMs,
          delay: strategy.delayMs,
        }),
      }
    case 'none':
      return type
  }
}

/** Refuses a number out of its range. @throws ConfigError naming the option. */
export function checkNumber(
  option: string,
  value: number,
  { whole = false, min, max = Number.MAX_SAFE_INTEGER }: { whole?: boolean; min: number; max?: number },
): void {
  if (
    typeof value === 'number' &&
    (whole ? Number.isInteger(value) : Number.isFinite(value)) &&
    value >= min &&
    value <= max
  )
    return
  const bounds = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`
  throw new ConfigError(
    'MILLRACE_INVALID_OPTION',
    `${option} must be a ${whole ? 'whole ' : ''}number ${bounds}, not ${value}`,
    {
      details: { option, value },
    },
  )
}

/** Refuses a value that is none of `allowed`. @throws ConfigError naming the option. */
export function checkOneOf<T extends string>(
  option: string,
  value: T,
  allowed: Readonly<Record<string, T>>,
): void {
  const values = Object.values(allowed)
  if (values.includes(value)) return
  throw new ConfigError(
    'MILLRACE_INVALID_OPTION',
    `${option} must be one of ${values.join(', ')}, not ${String(value)}`,
    {
      details: { option, value },
    },
  )
}
