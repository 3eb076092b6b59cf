/**
 * Reads Flink's own configuration file (`--conf FILE`): the flat `flink-conf.yaml` of older versions, or the YAML of `config.yaml`. Keys that
 * mean something here become settings under the name that they have here; what is left is told once, so that nothing is lost silently.
 *
 * The names are those of Flink 1.x and 2.x. Options that have the same name and the same values here need no row.
 */
import { basename } from 'node:path'
import { absentOption } from './absent-options.ts'
import { parseSettings, readNamedFile } from './config-file.ts'
import { isOptionKey, type OptionKey } from './option-table.ts'
import type { Setting } from './setting.ts'

/** What a file of Flink's says. */
export interface FlinkSettings {
  readonly settings: readonly Setting[]
  /** Said once, at level info: keys without a meaning here. */
  readonly notes: readonly string[]
  /** Said once: keys whose meaning is set in another way here. */
  readonly warnings: readonly string[]
}

/** Flink's present name → the name here. It beats the others, as in Flink. */
const NEWER_NAMES: Readonly<Record<string, string>> = {
  'execution.checkpointing.dir': 'state.checkpoints.dir',
  'execution.checkpointing.savepoint-dir': 'state.savepoints.dir',
  'execution.checkpointing.num-retained': 'state.checkpoints.num-retained',
  'state.storage.fs.memory-threshold': 'state.backend.fs.memory-threshold',
  'execution.checkpointing.data-inline-threshold': 'state.backend.fs.memory-threshold',
  'execution.checkpointing.incremental': 'state.backend.incremental',
  'execution.state-recovery.from-local': 'state.backend.local-recovery',
  'execution.checkpointing.local-backup.enabled': 'state.backend.local-recovery',
  'execution.checkpointing.local-backup.dirs': 'taskmanager.state.local.root-dirs',
  'execution.checkpointing.unaligned.enabled': 'execution.checkpointing.unaligned',
}

/** A name that Flink gave up → the name here, which both have now. */
const OLDER_NAMES: Readonly<Record<string, string>> = {
  'state.backend.fs.checkpointdir': 'state.checkpoints.dir',
  'savepoints.state.backend.fs.dir': 'state.savepoints.dir',
  'execution.checkpointing.alignment-timeout': 'execution.checkpointing.aligned-checkpoint-timeout',
  'restart-strategy': 'restart-strategy.type',
}

/** Names of the state backend and of the checkpoint storage; together they make `state.backend`. */
const BACKEND_KEYS: readonly string[] = ['state.backend', 'state.backend.type']
const STORAGE_KEYS: readonly string[] = ['state.checkpoint-storage', 'execution.checkpointing.storage']

/** What Flink reads from its file and people type here. */
const SAID_OTHERWISE: Readonly<Record<string, string>> = {
  'execution.state-recovery.path': 'pass --from-savepoint PATH to millrace run',
  'execution.savepoint.path': 'pass --from-savepoint PATH to millrace run',
  'execution.state-recovery.ignore-unclaimed-state': 'pass --allow-non-restored-state to millrace run',
  'execution.savepoint.ignore-unclaimed-state': 'pass --allow-non-restored-state to millrace run',
  'execution.state-recovery.claim-mode': 'a savepoint is never deleted or claimed',
  'execution.savepoint-restore-mode': 'a savepoint is never deleted or claimed',
}

/** Values with another word here. */
const VALUES: Readonly<Partial<Record<string, Readonly<Record<string, string>>>>> = {
  'restart-strategy.type': { off: 'none', disable: 'none', disabled: 'none' },
  'execution.checkpointing.externalized-checkpoint-retention': {
    no_externalized_checkpoints: 'DELETE_ON_CANCELLATION',
  },
}

/** In Flink -1 says "not set". */
const UNSET_BY_MINUS_ONE: readonly string[] = ['parallelism.default', 'pipeline.max-parallelism']

/**
 * Settings of the file that `--conf` names; nothing without one.
 * @throws ConfigError MILLRACE_CONFIG_FILE if it cannot be read, or is no map of keys
 */
export async function settingsOfFlinkFile(named: string | undefined, folder: string): Promise<FlinkSettings> {
  if (named === undefined) return { settings: [], notes: [], warnings: [] }
  const { text, shown } = await readNamedFile(named, folder)
  return translate(await parseFlinkFile(text, shown), shown)
}

/** What is written, under Flink's own names. The file's name tells which of the two forms it has. */
export async function parseFlinkFile(text: string, fileName: string): Promise<Setting[]> {
  if (basename(fileName) !== 'flink-conf.yaml') return parseSettings(text, fileName, { lenient: true })
  // Flink's own reader of this file knows no YAML: a line is `key: value`, and # begins a comment anywhere.
  const settings = new Map<string, Setting>()
  for (const [index, line] of text.split('\n').entries()) {
    const [, key, value] = /^\s*([^#\s][^#]*?)\s*: +([^#]*?)\s*(?:#.*)?$/.exec(line.trimEnd()) ?? []
    if (key === undefined || value === undefined || value === '') continue
    settings.set(key, { key, input: value, origin: 'flink', source: `${fileName}:${index + 1}` })
  }
  return [...settings.values()]
}

/** Flink's settings as those of Millrace. Pure. */
export function translate(written: readonly Setting[], fileName: string): FlinkSettings {
  const settings = new Map<string, Setting>()
  const ranks = new Map<string, number>()
  const ignored: string[] = []
  const absent: string[] = []
  const warnings: string[] = []
  for (const setting of written) {
    const { key } = setting
    if (BACKEND_KEYS.includes(key) || STORAGE_KEYS.includes(key)) continue
    const advice = SAID_OTHERWISE[key]
    if (advice !== undefined) {
      warnings.push(`${key} (${setting.source}) is not read from a file: ${advice}`)
      continue
    }
    const { known, rank } = nameHere(key)
    if (!isOptionKey(known)) {
      if (absentOption(key) === undefined) ignored.push(key)
      else absent.push(key)
      continue
    }
    if (UNSET_BY_MINUS_ONE.includes(known) && String(setting.input).trim() === '-1') continue
    if (rank < (ranks.get(known) ?? 0)) continue
    ranks.set(known, rank)
    settings.set(known, { ...setting, key: known, input: valueHere(known, setting, warnings) })
  }
  const backend = stateBackend(written, settings.get('state.checkpoints.dir'))
  if (backend !== undefined) settings.set('state.backend', backend)
  const notes = [
    ...(ignored.length === 0
      ? []
      : [`${fileName}: ${ignored.length} settings mean nothing here and are ignored: ${ignored.join(', ')}`]),
    ...absent.map((key) => `${fileName}: ${key} is not in this version and is ignored: ${absentOption(key)}`),
  ]
  return { settings: [...settings.values()], notes, warnings }
}

/** The name here, and which of several names for it counts: the highest rank. */
function nameHere(key: string): { readonly known: string; readonly rank: number } {
  const newer = NEWER_NAMES[key]
  if (newer !== undefined) return { known: newer, rank: 2 }
  const older = OLDER_NAMES[key]
  return older === undefined ? { known: key, rank: 1 } : { known: older, rank: 0 }
}

function valueHere(key: OptionKey, { input, source }: Setting, warnings: string[]): Setting['input'] {
  const replaced = VALUES[key]?.[String(input).trim().toLowerCase()]
  if (replaced === undefined) return input
  if (key === 'execution.checkpointing.externalized-checkpoint-retention')
    warnings.push(
      `${key} is ${String(input)} (${source}): here that is ${replaced}; a job that FAILED keeps its checkpoints, since its next start goes on from them`,
    )
  return replaced
}

/**
 * `state.backend` says here what the backend and the checkpoint storage say together in Flink: state on the heap goes where the storage says,
 * and a directory alone means the file system.
 */
function stateBackend(written: readonly Setting[], dir: Setting | undefined): Setting | undefined {
  const last = (keys: readonly string[]): Setting | undefined =>
    keys.flatMap((key) => written.filter((setting) => setting.key === key)).at(-1)
  const named = last(BACKEND_KEYS)
  const storage = last(STORAGE_KEYS)
  const backend = named === undefined ? undefined : String(named.input).trim().toLowerCase()
  const as = (setting: Setting, input: string): Setting => ({ ...setting, key: 'state.backend', input })
  if (named !== undefined && backend !== 'hashmap') {
    // The names of Flink before 1.13 hold both.
    if (backend === 'memory' || backend === 'jobmanager')
      return as(storage ?? named, word(storage) ?? 'jobmanager')
    return as(named, String(named.input))
  }
  if (storage !== undefined) return as(storage, String(storage.input))
  if (dir !== undefined) return as(dir, 'filesystem')
  return named === undefined ? undefined : as(named, 'jobmanager')
}

function word(setting: Setting | undefined): string | undefined {
  return setting === undefined ? undefined : String(setting.input)
}
