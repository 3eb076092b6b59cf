/**
 * Contracts between the runtime and everything that reads from or writes to the world.
 * Users implement `Source`, `Sink` and `TwoPhaseCommittingSink` for their own connectors.
 */
import type { RecordVector } from './element.ts'
import type { Counter, Logger, MetricGroup, World } from './ports.ts'

/** What a serde may need of the job's configuration, which is known only when the job runs. */
export interface SerdeContext {
  /** `schema.registry.url`, with user and password if it has them. */
  readonly schemaRegistryUrl?: string | undefined
}

/** Turns values into bytes and back; null in, null out. */
export interface Serde<T> {
  /** Short name for messages, e.g. 'json'. */
  readonly name: string
  /** Bytes of a value; null stays null (a tombstone). @throws any error; the sink names the record in its own. */
  serialize(value: T, topic?: string): Uint8Array | null
  /** Value of bytes. @throws any error; the source names the record in its own. */
  deserialize(bytes: Uint8Array, topic?: string): T
  /** Fast path: value of `buffer[start, end)` without a view of its own. */
  readSlice?(buffer: Buffer, start: number, end: number): T
  /** Fast path: the value as text that is UTF-8 encoded straight into a batch. */
  toText?(value: T): string
  /** Called before use, by each subtask that uses it, e.g. to reach a schema registry; may be asynchronous. */
  open?(context: SerdeContext): void | Promise<void>
  /**
   * Loads what `deserialize` of these bytes needs (e.g. a schema by id); resolves before it is called. Undefined = nothing to wait for.
   * Rejects with a MillraceError for trouble with the outside, which is the job's; with any other error the record counts as undecodable.
   */
  prepareDeserialize?(bytes: Uint8Array): Promise<void> | undefined
  /** The same for serialize. */
  prepareSerialize?(value: T, topic: string): Promise<void> | undefined
}

/** What a subtask knows of itself. */
export interface SubtaskInfo {
  readonly jobName: string
  readonly operatorName: string
  readonly uid: string
  /** 0-based. */
  readonly subtaskIndex: number
  readonly parallelism: number
  readonly attempt: number
}

/** One part of a source that one subtask reads at a time, e.g. a topic partition. JSON-safe: it is stored in checkpoints as it is. */
export interface SourceSplit {
  /** Unique within the source, stable over restarts. */
  readonly id: string
}

/** A group offset that is committed in the transaction of the commit point, for people and lag tools. */
export interface GroupOffset {
  readonly groupId: string
  readonly topic: string
  readonly partition: number
  /** Next offset to read. */
  readonly offset: bigint
}

/** Reads from outside. */
export interface Source<T, S extends SourceSplit = SourceSplit> {
  /** 'kafka', 'collection', …; shown to people. */
  readonly kind: string
  readonly bounded: boolean
  /** Facts that are part of the job graph's fingerprint, e.g. topics and group id. */
  describe(): Readonly<Record<string, unknown>>
  /** Runs once at the job master. */
  createEnumerator(context: SourceContext): SplitEnumerator<S>
  /** Runs in each source subtask. */
  createReader(context: SourceReaderContext): SourceReader<T, S>
  /** A hidden sink that reads one of the source's side outputs; the API adds it to the graph. */
  readonly sideSink?:
    | { readonly tagId: string; readonly name: string; readonly uidSuffix: string; readonly sink: Sink<any> }
    | undefined
  /** Offsets to commit for these positions, if the source is Kafka and has a group. */
  groupOffsets?(splits: readonly S[]): GroupOffset[]
  /** Type check only. */
  readonly __type?: T
}

/** What an enumerator gets. */
export interface SourceContext {
  readonly jobName: string
  readonly uid: string
  readonly world: World
  readonly parallelism: number
}

/** Finds splits. */
export interface SplitEnumerator<S extends SourceSplit> {
  /**
   * All splits with resolved start (and stop) positions. `restored` are the splits of the checkpoint that the job resumes from:
   * they are kept as they are, never filtered by what can be seen now; new ones are added.
   * @throws MillraceError when a split cannot be resolved (topic missing, data loss).
   */
  start(restored: readonly S[] | undefined): Promise<readonly S[]>
  /** Splits that appeared since the last call; called every `discoveryIntervalMs`. */
  discover?(): Promise<readonly S[]>
  /** Milliseconds between two discoveries; undefined = never. */
  readonly discoveryIntervalMs?: number | undefined
  close(): Promise<void>
}

/** What a reader gets. */
export interface SourceReaderContext {
  readonly info: SubtaskInfo
  readonly world: World
  /** Records per poll at the most; to be looked at in each poll, since it is smaller while what follows the source is slow. */
  readonly vectorSize: number
  readonly recordsIn: Counter
}

/** Records of one split. */
export interface SplitRecords<T> {
  readonly splitId: string
  readonly vector: RecordVector<T>
  /** Records for a side output of the source, e.g. dead letters. Their positions are covered with those of `vector`. */
  readonly side?: { readonly tagId: string; readonly vector: RecordVector }
}

/** Reads the splits of one subtask. */
export interface SourceReader<T, S extends SourceSplit> {
  start(): void | Promise<void>
  addSplits(splits: readonly S[]): void
  /**
   * The next records, or undefined if none are at hand now. Never waits.
   * After it returns, the positions of `snapshot` lie just past the returned records.
   * @throws MillraceError for records that cannot be read.
   */
  poll(): SplitRecords<T> | undefined
  /** Resolves when `poll` may return records, or the source is finished, or has failed (`poll` then throws). */
  available(): Promise<void>
  /** True while `poll` answers undefined although records are at hand, e.g. one waits for its schema: that is no silence of the splits. */
  isPreparing?(): boolean
  /** True when every split was read to its stop position and no more will come. */
  isFinished(): boolean
  /** Positions of all splits, the finished ones included (they carry that they are). Exact between two polls. */
  snapshot(checkpointId: number): readonly S[]
  notifyCheckpointComplete?(checkpointId: number): void
  /**
   * Splits that `poll` must leave out, or may give records of again: their watermarks are ahead of others (watermark alignment). Without
   * this method the whole reader is not polled while its slowest split is ahead.
   */
  pauseOrResumeSplits?(pause: readonly string[], resume: readonly string[]): void
  /** Where the records lie that the latest `poll` gave of this split, for people: "topic-0, offsets 7 to 9". */
  describeLastRecords?(splitId: string): string | undefined
  /** Splits whose watermark cannot hold others back: finished ones. */
  finishedSplits?(): readonly string[]
  close(): Promise<void>
}

/** What a writer gets. */
export interface SinkWriterContext {
  readonly info: SubtaskInfo
  readonly world: World
  readonly recordsOut: Counter
  /** What `SinkCoordinator.lease` gave for this subtask. */
  readonly lease?: unknown
  /** Prepared but undecided committables of this subtask at the restored checkpoint are committed before this is called. */
  readonly restoredCheckpointId: number | undefined
  /** What the writers of *all* subtasks returned from `snapshotState` at the restored checkpoint; absent if there is nothing. */
  readonly restoredState?: readonly unknown[] | undefined
  readonly checkpointingEnabled: boolean
  readonly logger: Logger
  readonly metrics: MetricGroup
}

/** Writes to outside, without any promise beyond at-least-once (flushed at each barrier). */
export interface Sink<T> {
  /** 'kafka', 'print', …; shown to people. */
  readonly kind: string
  describe(): Readonly<Record<string, unknown>>
  createWriter(context: SinkWriterContext): SinkWriter<T>
  /** Type check only. */
  readonly __type?: (value: T) => void
}

/** Writes the records of one subtask. */
export interface SinkWriter<T> {
  open?(): void | Promise<void>
  /** Takes a vector; a promise means "no more until it resolves" (backpressure or asynchronous work). */
  write(vector: RecordVector<T>): void | Promise<void>
  /** All that was written so far is with the outside system when this resolves. */
  flush(endOfInput: boolean): void | Promise<void>
  /**
   * What a writer needs to go on from checkpoint n; synchronous, after `flush` and `prepareCommit`. Items are structured values that do not
   * change any more. At a restore every subtask gets those of all, because parallelism may be another: an item must say whose it is.
   */
  snapshotState?(checkpointId: number): readonly unknown[]
  close(): void | Promise<void>
  /** What it does or waits for, for people; undefined = nothing to say. */
  describe?(): string | undefined
}

/**
 * Two-phase commit (Flink's TwoPhaseCommittingSink). `C` is a committable: JSON-safe facts that are enough to commit from another process.
 */
export interface TwoPhaseCommittingSink<T, C = unknown> extends Sink<T> {
  readonly twoPhase: true
  /** True: it has an answer of its own to a job without checkpoints. Otherwise an unbounded one is refused: nothing would ever be committed. */
  readonly worksWithoutCheckpoints?: boolean | undefined
  createWriter(context: SinkWriterContext): TwoPhaseSinkWriter<T, C>
  createCommitter(context: CommitterContext): Committer<C>
}

/** What a committer gets. */
export interface CommitterContext {
  readonly jobName: string
  readonly uid: string
  readonly world: World
}

/** A writer whose output becomes visible only on commit. */
export interface TwoPhaseSinkWriter<T, C> extends SinkWriter<T> {
  /**
   * Called at barrier n after `flush`, before any record after the barrier. Returns every committable that is prepared and not yet
   * decided: that of n (none if nothing was written), and those of aborted checkpoints before it. A savepoint may be restored at any later
   * time: its state should not depend on what this writer will change or remove.
   */
  prepareCommit(checkpointId: number, savepoint?: boolean): readonly C[] | Promise<readonly C[]>
  /** Checkpoint n is complete: the committer has committed, or is about to commit, everything prepared up to n. */
  notifyCheckpointComplete?(checkpointId: number): void | Promise<void>
  /** Checkpoint n was aborted; what was prepared for it stays prepared and is part of the next `prepareCommit`. */
  notifyCheckpointAborted?(checkpointId: number): void
  /** Commits of all checkpoints up to n are durable. */
  notifyCheckpointConfirmed?(checkpointId: number): void
}

/** Proof that checkpoint n is complete. Only the coordinator and the recovery plan make one, so an early commit does not compile. */
export interface CommitPermit {
  readonly checkpointId: number
  /** Commits of all checkpoints up to this one are done already: their committables are not committed again. -1 = none. */
  readonly confirmed: number
  readonly __permit: unique symbol
}

/** Makes committables visible. Must be idempotent: the same committable may come again after a crash. */
export interface Committer<C> {
  /** Resolves when all are committed, in order. @throws MillraceError if one cannot be. */
  commit(permit: CommitPermit, committables: readonly C[]): Promise<void>
  /**
   * The same at take-over, before any task runs: what the outside system gave up meanwhile may be made good here.
   * Default: `commit`. @throws MILLRACE_TRANSACTION_LOST when output is lost for good.
   */
  recover?(permit: CommitPermit, committables: readonly C[]): Promise<void>
  close(): Promise<void>
}

/** True if the sink commits in two phases. */
export function isTwoPhase<T>(sink: Sink<T>): sink is TwoPhaseCommittingSink<T> {
  return 'twoPhase' in sink && sink.twoPhase === true
}
