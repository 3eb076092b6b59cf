/**
 * The life cycle of an operator in a subtask. The runtime calls one method at a time and awaits a returned promise before the next:
 * records, watermarks, timers and barriers never overlap inside a subtask.
 *
 *   setup → initializeState → open → (processVector | processVector2 | processWatermark | onProcessingTime | prepareSnapshot → freeze)* → endInput → close
 */
import type { SubtaskInfo } from '../connector.ts'
import type { RecordVector, WatermarkStatus } from '../element.ts'
import type { World } from '../ports.ts'
import type { Key, KeyedStateBackend, KeyGroupRange } from '../state.ts'

/** Where an operator's results go. A returned promise means "wait before sending more" (backpressure or asynchronous work below). */
export interface Output {
  emit(vector: RecordVector): void | Promise<void>
  /** To the side output `tagId`; dropped when nobody listens. */
  emitSide(tagId: string, vector: RecordVector): void | Promise<void>
  emitWatermark(timestamp: number): void | Promise<void>
  emitStatus(status: WatermarkStatus): void | Promise<void>
}

/** How operator state (not keyed) is given out again at another parallelism. */
export type Redistribution = 'split' | 'union' | 'broadcast'

/** Operator state by name. Items are structured values (see state/structured-value). */
export interface OperatorStateEntry {
  readonly redistribution: Redistribution
  readonly items: readonly unknown[]
}
export type OperatorStateSnapshot = Readonly<Record<string, OperatorStateEntry>>

/** What `setup` gets. */
export interface OperatorContext {
  readonly info: SubtaskInfo
  readonly world: World
  readonly output: Output
  /** Highest number of records per emitted vector. */
  readonly vectorSize: number
  /** Only for keyed operators. */
  readonly keyedState: KeyedStateBackend | undefined
  readonly keyGroups: KeyGroupRange | undefined
  readonly maxParallelism: number
  /** Asks the runtime to call `onProcessingTime` at `time` (epoch ms); the earliest wish wins, one at a time. */
  requestProcessingTime(time: number): void
  /** Runs `action` in the task's loop, between two calls: the way back in for whatever happened outside of a call. */
  post(action: () => void | Promise<void>): void
  /** What keeps the watermark where it is: source splits or upstream subtasks, for people. */
  watermarkHeldBackBy?(): readonly string[]
  /** True while records of the subtask's input wait that can't be taken now: no silence. Absent: never. */
  inputWaiting?(): boolean
  /** Fails the subtask from outside of a call, e.g. from a background promise. */
  fail(error: unknown): void
}

/** What a subtask stores of an operator besides its keyed state. */
export interface OperatorSnapshot {
  readonly operatorState?: OperatorStateSnapshot
  /** Sinks: prepared committables. */
  readonly committables?: readonly unknown[]
  /** Sources: positions of all splits. */
  readonly splits?: readonly unknown[]
}

/** What an operator gets back. */
export interface OperatorRestore {
  readonly checkpointId: number
  /** By name, already redistributed for this subtask. */
  readonly operatorState: Readonly<Record<string, readonly unknown[]>>
  /** How each was given out. Without it a state that nobody asks for is not in later snapshots. */
  readonly redistributions?: Readonly<Record<string, Redistribution>>
  readonly splits: readonly unknown[] | undefined
}

/** An operator of one subtask. */
export interface StreamOperator {
  setup(context: OperatorContext): void
  /** `restored` is undefined in a fresh start. Keyed state is restored by the runtime before this call. */
  initializeState?(restored: OperatorRestore | undefined): void | Promise<void>
  open?(): void | Promise<void>
  /**
   * Undefined: records may come. A promise: the runtime gives none before it resolves, but barriers, timers and posted actions come as ever.
   * For operators that work outside of calls: a checkpoint need not wait for them, as it would for a promise of `processVector`.
   */
  room?(): Promise<void> | undefined
  processVector(vector: RecordVector): void | Promise<void>
  /** Second input. */
  processVector2?(vector: RecordVector): void | Promise<void>
  /** The watermark of all inputs together rose. Default: pass it on. */
  processWatermark(timestamp: number): void | Promise<void>
  processStatus(status: WatermarkStatus): void | Promise<void>
  onProcessingTime?(time: number): void | Promise<void>
  /** No more records on input `input` (0 or 1). Runs once per job, also over restarts. */
  endInput?(input: number): void | Promise<void>
  /** At barrier n, in chain order: emit or flush whatever is pending, so that the freeze is exact. */
  prepareSnapshot?(checkpointId: number, endOfInput: boolean, savepoint?: boolean): void | Promise<void>
  /** Synchronous part of snapshot n, except for keyed state which the runtime freezes itself. Must copy what may change later. */
  snapshot?(checkpointId: number): OperatorSnapshot
  notifyCheckpointComplete?(checkpointId: number): void | Promise<void>
  notifyCheckpointAborted?(checkpointId: number): void
  notifyCheckpointConfirmed?(checkpointId: number): void
  close?(): void | Promise<void>
  /** What it does or waits for, for people; undefined = nothing to say. */
  describe?(): string | undefined
}

/** Makes an operator for one subtask. Must not keep anything shared between two calls. */
export type OperatorFactory = () => StreamOperator

/** Key of a record, for a keyed input. */
export type KeyOf = (value: unknown) => Key
