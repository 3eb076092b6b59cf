/**
 * The configuration of a job: defaults < code < Flink's file < millrace.yaml < environment < flags, read and checked before anything starts.
 * The options are in config/option-table.ts.
 */
import { absentOption } from './config/absent-options.ts'
import { settingsOfFile } from './config/config-file.ts'
import { settingsOfFlinkFile } from './config/flink-file.ts'
import { nearestName } from './config/nearest-name.ts'
import { expectationOf, readOption, showInput, showValue } from './config/option-reader.ts'
import type { AnyOptionValue } from './config/option-spec.ts'
import {
  isOptionKey,
  OPTION_KEYS,
  OPTIONS,
  type OptionKey,
  type OptionValue,
  specOf,
  variableOf,
} from './config/option-table.ts'
import { checkOptions, type Finding } from './config/rules.ts'
import {
  type ProgrammaticSettings,
  type Setting,
  settingsOfCode,
  settingsOfEnvironment,
  settingsOfFlags,
} from './config/setting.ts'
import { ConfigError, type ErrorCode, type ErrorDetails } from './errors.ts'

export { type Finding, OPTIONS, type OptionKey, type OptionValue, type ProgrammaticSettings }

/** Where the settings of a job come from. */
export interface ConfigRequest {
  /** What the job's code set. */
  readonly code?: ProgrammaticSettings
  /** `-D key=value`. */
  readonly flags?: Readonly<Record<string, string>>
  /** `--config FILE`; it must exist. Without it `millrace.yaml` is read if the folder has one. */
  readonly configFile?: string | undefined
  /** `--conf FILE`: a configuration file of Flink's, weaker than `millrace.yaml`. It must exist. */
  readonly flinkFile?: string | undefined
  /** The working directory. */
  readonly folder: string
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** One line of `Config.describe`. */
export interface DescribedOption {
  readonly key: OptionKey
  /** As a person would write it, secrets masked; undefined = not set. */
  readonly value: string | undefined
  /** `default`, `the job's code`, `millrace.yaml:3`, `variable KAFKA_BROKERS`, `-D key`. */
  readonly source: string
}

/** Options that were read, checked and never change. Safe to log through `describe` only. */
export class Config {
  /** Notes and warnings to log once. */
  readonly findings: readonly Finding[]
  readonly #values: ReadonlyMap<OptionKey, AnyOptionValue>
  readonly #settings: ReadonlyMap<OptionKey, Setting>

  constructor(
    values: ReadonlyMap<OptionKey, AnyOptionValue>,
    settings: ReadonlyMap<OptionKey, Setting>,
    findings: readonly Finding[],
  ) {
    this.#values = values
    this.#settings = settings
    this.findings = findings
  }

  /** The value: milliseconds, bytes, a number, a text, a list; undefined only for an option without default. */
  get<K extends OptionKey>(key: K): OptionValue<K> {
    return this.#values.get(key) as OptionValue<K>
  }

  /** True if somebody set the option, false for a default. */
  isSet(key: OptionKey): boolean {
    return this.#settings.has(key)
  }

  /** Every option with its value and where that came from, secrets masked. */
  describe(): DescribedOption[] {
    return OPTION_KEYS.map((key) => {
      const value = this.#values.get(key)
      return {
        key,
        value: value === undefined ? undefined : showValue(specOf(key), value),
        source: this.#settings.get(key)?.source ?? 'default',
      }
    })
  }
}

/**
 * Reads the file, the environment and the flags, and makes the configuration.
 * @throws ConfigError naming every unknown key, every value that does not fit, and every clash, with where each came from.
 */
export async function loadConfig(request: ConfigRequest): Promise<Config> {
  const { settings, findings } = await collectSettings(request)
  return resolveConfig(settings, findings)
}

/**
 * Checks each setting on its own, before the job's code has been heard: whether they go together is only known with it.
 * @throws ConfigError naming every unknown key and every value that does not fit.
 */
export async function validateSettings(request: ConfigRequest): Promise<void> {
  readSettings((await collectSettings(request)).settings)
}

/** All settings, the weakest first, and what is to be said about where they came from. */
interface CollectedSettings {
  readonly settings: readonly Setting[]
  readonly findings: readonly Finding[]
}

async function collectSettings(request: ConfigRequest): Promise<CollectedSettings> {
  const flink = await settingsOfFlinkFile(request.flinkFile, request.folder)
  const stronger = [
    ...(await settingsOfFile(request.configFile, request.folder)),
    ...settingsOfEnvironment(request.environment),
    ...settingsOfFlags(request.flags ?? {}),
  ]
  const overridden = new Set(stronger.map(({ key }) => key))
  return {
    settings: [
      ...settingsOfCode(request.code ?? {}),
      // It is written for Flink: what fits there and not here can be set otherwise, and is not looked at then.
      ...flink.settings.filter(({ key }) => !overridden.has(key)),
      ...stronger,
    ],
    findings: [
      ...flink.warnings.map((message): Finding => ({ level: 'warning', message })),
      ...flink.notes.map((message): Finding => ({ level: 'note', message })),
    ],
  }
}

/**
 * Makes the configuration of settings, the weakest first; `earlier` findings come before its own. Pure.
 * @throws ConfigError as `loadConfig`.
 */
export function resolveConfig(settings: readonly Setting[], earlier: readonly Finding[] = []): Config {
  const { values, winners } = readSettings(settings)
  const findings = checkOptions({
    get: <K extends OptionKey>(key: K) => values.get(key) as OptionValue<K>,
    setting: (key) => winners.get(key),
  })
  const clashes = findings.filter((finding) => finding.level === 'error')
  if (clashes.length > 0)
    throw refused(
      clashes.map(({ key, message }) => ({ code: 'MILLRACE_INVALID_OPTION', message, details: { key } })),
    )
  for (const { key, forced } of findings)
    if (key !== undefined && forced !== undefined) values.set(key, forced)
  return new Config(values, winners, [...earlier, ...findings])
}

/** The value of every option, and the setting that made it. */
interface ReadSettings {
  readonly values: Map<OptionKey, AnyOptionValue>
  readonly winners: Map<OptionKey, Setting>
}

function readSettings(settings: readonly Setting[]): ReadSettings {
  const problems: Problem[] = []
  const values = new Map<OptionKey, AnyOptionValue>()
  const winners = new Map<OptionKey, Setting>()
  for (const key of OPTION_KEYS) {
    const spec = specOf(key)
    if (spec.default !== undefined) values.set(key, readOption(spec, spec.default)!)
  }
  for (const setting of settings) {
    const { key } = setting
    if (!isOptionKey(key)) {
      problems.push(unknown(setting))
      continue
    }
    const value = readOption(specOf(key), setting.input)
    if (value === undefined) {
      problems.push(invalid(key, setting))
      continue
    }
    values.set(key, value)
    winners.set(key, setting)
  }
  if (problems.length > 0) throw refused(problems)
  return { values, winners }
}

interface Problem {
  readonly code: ErrorCode
  readonly message: string
  readonly details: ErrorDetails
}

function unknown({ key, source, writtenAs }: Setting): Problem {
  const instead = writtenAs === undefined ? absentOption(key) : undefined
  if (instead !== undefined)
    return {
      code: 'MILLRACE_UNKNOWN_OPTION',
      message: `${key} (${source}) is not in this version: ${instead}`,
      details: { key, source, nearest: undefined },
    }
  const nearest = writtenAs === undefined ? nearestKey(key) : nearestName(key, OPTION_KEYS.map(variableOf))
  const message =
    writtenAs === undefined
      ? `Unknown option '${key}' (${source})`
      : `The variable ${writtenAs} names no option`
  const question = nearest === undefined ? '' : `; did you mean '${nearest}'?`
  return { code: 'MILLRACE_UNKNOWN_OPTION', message: message + question, details: { key, source, nearest } }
}

/** The option that was meant: the one known elsewhere under this name, or the one spelled most alike. */
function nearestKey(key: string): string | undefined {
  const renamed = OPTION_KEYS.find((known) => specOf(known).knownAs?.includes(key.toLowerCase()))
  return renamed ?? nearestName(key, OPTION_KEYS)
}

function invalid(key: OptionKey, { input, source }: Setting): Problem {
  const spec = specOf(key)
  const value = showInput(spec, input)
  const expected = expectationOf(spec)
  return {
    code: 'MILLRACE_INVALID_OPTION',
    message: `${key} cannot be ${value} (${source}): expected ${expected}`,
    details: { key, value, source, expected },
  }
}

/** One error for all problems, so that they can be mended in one go. */
function refused(problems: readonly Problem[]): ConfigError {
  const [first, ...more] = problems
  if (more.length === 0) return new ConfigError(first!.code, first!.message, { details: first!.details })
  const list = problems.map((problem) => `\n  - ${problem.message}`).join('')
  return new ConfigError(first!.code, `The configuration has ${problems.length} problems:${list}`, {
    details: { problems },
  })
}
