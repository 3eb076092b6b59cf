/**
 * What is written to a job's control topic. Keys are for people who look at the topic; the value says all. Format 1: fields are only added.
 *
 *   command/<id>    { format, kind: 'command', id, command, by, at }
 *   answer/<id>     { format, kind: 'answer', id, answer: accepted (status, pending) | done | refused, attempt }
 *   withdrawn/<id>  { format, kind: 'withdrawn', id }
 *   event           { format, kind: 'event', event }
 */
import type {
  CommandFailure,
  CommandOutcome,
  CommandProgress,
  JobCommand,
  JobEvent,
} from '../core/job-control.ts'
import { isMillraceError, type MillraceError } from '../errors.ts'
import type { KafkaCluster } from './kafka-cluster.ts'
import { appendPlain, type LogEntry } from './topic-log.ts'

/** Version of the form that this code writes. Records of a newer one are passed over. */
const FORMAT = 1

/** The leader's answer: that it heard the command, with how the job stands, then what came of it. A leader of an earlier version says less. */
export type CommandAnswer = ({ readonly type: 'accepted' } & Partial<CommandProgress>) | CommandOutcome

export type ControlRecord =
  | {
      readonly kind: 'command'
      readonly id: string
      readonly command: JobCommand
      /** Who sent it, for people: user@host. */
      readonly by: string
      /** Epoch ms by the sender's clock. */
      readonly at: number
    }
  | { readonly kind: 'answer'; readonly id: string; readonly answer: CommandAnswer }
  | { readonly kind: 'withdrawn'; readonly id: string }
  | { readonly kind: 'event'; readonly event: JobEvent }

function keyOf(record: ControlRecord): string {
  return record.kind === 'event' ? 'event' : `${record.kind}/${record.id}`
}

/** Largest record that is written; beyond it an answer is refused instead. */
export const MAX_RECORD_BYTES = 900_000

export function encodeControlRecord(record: ControlRecord): LogEntry {
  return { key: keyOf(record), value: JSON.stringify({ format: FORMAT, ...record }) }
}

/** Undefined for what is not ours, or of a newer version. */
export function decodeControlRecord(value: string): ControlRecord | undefined {
  let parsed: unknown
  try {
    parsed = JSON.parse(value)
  } catch {
    // Anybody may write to a topic; what is no JSON is not from Millrace.
    return undefined
  }
  if (typeof parsed !== 'object' || parsed === null) return undefined
  const { format, kind } = parsed as { format?: unknown; kind?: unknown }
  if (typeof format !== 'number' || format > FORMAT) return undefined
  switch (kind) {
    case 'command':
    case 'answer':
    case 'withdrawn':
    case 'event':
      return parsed as ControlRecord
    default:
      return undefined
  }
}

export async function writeControlRecords(
  cluster: KafkaCluster,
  topic: string,
  records: readonly ControlRecord[],
  now: number,
): Promise<void> {
  await appendPlain(cluster, topic, records.map(encodeControlRecord), now)
}

/** An error as the sender of a command reads it. */
export function commandFailure(error: unknown): CommandFailure {
  if (!isMillraceError(error))
    return { code: 'MILLRACE_INTERNAL', message: error instanceof Error ? error.message : String(error) }
  const { code, message, remedy } = error as MillraceError
  return remedy === undefined ? { code, message } : { code, message, remedy }
}
