/** One key set in one place; the settings of all places, the weakest first, make the configuration. */

import type { OptionInput, OptionSpec } from './option-spec.ts'
import { isOptionKey, OPTION_KEYS, OPTIONS, type OptionKey, variableOf } from './option-table.ts'

/** Settings that a job's code made, by key; durations in ms, sizes in bytes, or texts as in the file. */
export type ProgrammaticSettings = Readonly<Record<string, OptionInput | undefined>>

/** Where a setting was made; the order of strength is code < Flink's file < file < environment < flag. */
export type SettingOrigin = 'code' | 'flink' | 'file' | 'environment' | 'flag'

/** One key set in one place. */
export interface Setting {
  /** As written; it may be unknown. */
  readonly key: string
  readonly input: OptionInput
  readonly origin: SettingOrigin
  /** For messages: `millrace.yaml:3`, `flink-conf.yaml:3`, `-D`, `variable KAFKA_BROKERS`, `the job's code`. */
  readonly source: string
  /** The name that was written, if it is not the key: a variable. */
  readonly writtenAs?: string
}

/** Settings of the job's code; those that are undefined were not made. */
export function settingsOfCode(code: ProgrammaticSettings): Setting[] {
  return Object.entries(code).flatMap(([key, input]) =>
    input === undefined ? [] : [{ key, input, origin: 'code' as const, source: "the job's code" }],
  )
}

/** Settings of flags, `-D key=value`. */
export function settingsOfFlags(flags: Readonly<Record<string, string>>): Setting[] {
  return Object.entries(flags).map(([key, input]) => ({ key, input, origin: 'flag', source: `-D ${key}` }))
}

const KEY_OF_VARIABLE: ReadonlyMap<string, OptionKey> = new Map(
  OPTION_KEYS.map((key) => [variableOf(key), key]),
)

/** Variables that Kubernetes sets in every container when a service is named `millrace` or `millrace-…`. */
const SERVICE_LINK =
  /^MILLRACE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$/

/** Read by the runtime in fault tests (runtime/fault-points.ts); no option, so that no file can hold it. */
const FAULT_POINT_VARIABLE = 'MILLRACE_FAULT_POINT'

/**
 * Settings of the environment: the shared names such as KAFKA_BROKERS first, then `MILLRACE_…`, which beats them.
 * An empty variable counts as not set, since composed environments cannot leave one out.
 */
export function settingsOfEnvironment(environment: Readonly<Record<string, string | undefined>>): Setting[] {
  const shared: Setting[] = []
  for (const key of OPTION_KEYS)
    for (const name of (OPTIONS[key] as OptionSpec).env ?? []) {
      const input = environment[name]
      if (input)
        shared.push({ key, input, origin: 'environment', source: `variable ${name}`, writtenAs: name })
    }
  const own: Setting[] = []
  for (const [name, input] of Object.entries(environment)) {
    if (!name.startsWith('MILLRACE_') || !input) continue
    const key = KEY_OF_VARIABLE.get(name)
    if (key === undefined && (SERVICE_LINK.test(name) || name === FAULT_POINT_VARIABLE)) continue
    own.push({ key: key ?? name, input, origin: 'environment', source: `variable ${name}`, writtenAs: name })
  }
  return [...shared, ...own]
}

/** True if a setting came from the person who runs the job, not from the one who wrote it. */
export function isOperators(setting: Setting): boolean {
  return setting.origin !== 'code' && isOptionKey(setting.key)
}
