/**
 * How people and tools reach a running job: commands with answers, and the events of its life. Contracts only; kafka/control-topic.ts
 * carries them over the job's control topic, so that whoever reaches Kafka reaches the job.
 *
 *   sent ──leader reads──▶ accepted (again and again, with how the job stands) ──▶ done | refused
 *     └──sender gives up──▶ withdrawn          (a leader that comes later leaves it alone)
 */

import type { JobStatus } from './constants.ts'
import type { PendingInfo } from './job-info.ts'

/** What can be asked of a running job. */
export type JobCommand =
  /** End without a last checkpoint. */
  | { readonly type: 'cancel' }
  | { readonly type: 'checkpoint' }
  /** `path`: the folder in which the savepoint is made; `state.savepoints.dir` without it. */
  | { readonly type: 'savepoint'; readonly path?: string }
  /** A savepoint, then the end. `drain`: as at the end of all input first. */
  | { readonly type: 'stop'; readonly path?: string; readonly drain: boolean }
  /** What it does, and what it waits for. */
  | { readonly type: 'info' }

/** Why a command was not done. */
export interface CommandFailure {
  readonly code: string
  readonly message: string
  readonly remedy?: string
}

/** What came of a command. */
export type CommandOutcome =
  | { readonly type: 'done'; readonly result: Readonly<Record<string, unknown>> }
  | { readonly type: 'refused'; readonly failure: CommandFailure }

/** How the job stands while a command is being done. JSON-safe. */
export interface CommandProgress {
  readonly status: JobStatus
  /** Checkpoints under way; of the subtasks that owe one the first few. */
  readonly pending: readonly PendingInfo[]
}

export interface CommandHandler {
  /** Does what a command says; resolves with what the sender wants to know. Rejects with the reason if it is not done. */
  (command: JobCommand): Promise<Readonly<Record<string, unknown>>>
  /** What a sender who waits is told. */
  progress?(): CommandProgress
}

export const JOB_EVENT_TYPES = [
  'status',
  'attempt-started',
  'checkpoint-completed',
  'checkpoint-aborted',
  'failure',
  'command',
] as const
export type JobEventType = (typeof JOB_EVENT_TYPES)[number]

/** Something that happened to a job. JSON-safe. */
export interface JobEvent {
  /** Epoch ms. */
  readonly at: number
  readonly type: JobEventType
  /** A sentence for people. */
  readonly message: string
  readonly details?: Readonly<Record<string, unknown>>
}

/** The worker's end. */
export interface JobControl {
  /** Commands are answered from now on. Those that were sent while nobody led, and not withdrawn since, come first. */
  serve(handle: CommandHandler): void
  /** This worker does not lead any more: leave commands to the next one. */
  pause(): void
  /** Tells whoever follows the job. Never throws; events are lost when Kafka cannot be reached. */
  publish(event: JobEvent): void
  /** Answers what is under way, writes what was published. Waits no longer than `graceMs`. */
  close(graceMs: number): Promise<void>
}
