/** What all commands share that need Kafka access and no job module: options, configuration, a connected cluster, tables. */
import { hostname, userInfo } from 'node:os'
import { type Config, loadConfig } from '../config.ts'
import type { World } from '../core/ports.ts'
import type { KafkaCluster } from '../kafka/kafka-cluster.ts'
import { withCluster } from '../runtime/deployment.ts'
import { type ArgumentSpec, type ParsedArguments, usageError } from './arguments.ts'
import { CONFIG_FILE_OPTIONS } from './config-options.ts'
import { pairs, type RunContext } from './run.ts'

/** Options of every such command. */
export const KAFKA_OPTIONS = {
  D: {
    short: 'D',
    value: 'key=value',
    doc: 'Set an option; may be repeated. kafka.* says how to reach the brokers.',
  },
  ...CONFIG_FILE_OPTIONS,
  json: { doc: 'Print JSON.' },
  help: { short: 'h', doc: 'Show this text.' },
} as const satisfies Record<string, ArgumentSpec>

/** The one job that a command names. @throws ConfigError MILLRACE_USAGE */
export function onlyJobName(command: string, { positionals }: ParsedArguments): string {
  const [job, extra] = positionals
  if (job === undefined) throw usageError(`millrace ${command} needs the name of a job`)
  if (extra !== undefined) throw usageError(`millrace ${command} takes one job, but '${extra}' came too`)
  return job
}

/** The configuration by the settings that were typed. */
export function configOf(
  { options }: Pick<ParsedArguments, 'options'>,
  context: RunContext,
): Promise<Config> {
  return loadConfig({
    flags: pairs(options.get('D') ?? []),
    configFile: options.get('config')?.at(-1),
    flinkFile: options.get('conf')?.at(-1),
    folder: context.folder,
    environment: context.environment,
  })
}

/** Connects by the settings that were typed, does the work, and closes again whatever happens. */
export async function withKafka(
  purpose: string,
  parsed: ParsedArguments,
  context: RunContext,
  work: (cluster: KafkaCluster, world: World) => Promise<void>,
): Promise<void> {
  await withCluster(await configOf(parsed, context), purpose, work)
}

/** Who types, for the job's log. */
export function sender(): string {
  try {
    return `${userInfo().username}@${hostname()}`
  } catch {
    // A container may run under a user id that has no name.
    return `${process.getuid?.() ?? 'somebody'}@${hostname()}`
  }
}

/** Values that JSON has no form for become text. */
export function toJson(value: unknown): string {
  return `${JSON.stringify(value, (_key, part) => (typeof part === 'bigint' ? String(part) : part))}\n`
}

/** Rows under their titles, in columns. */
export function textTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column]!.length)),
  )
  return [head, ...rows]
    .map(
      (row) =>
        `${row
          .map((cell, column) => cell.padEnd(widths[column]!))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('')
}
