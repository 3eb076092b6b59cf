/**
 * Runs the writer of a sink at the end of a chain.
 *
 *   write* ─► prepareSnapshot(n): flush, then (two-phase) prepareCommit(n) ─► snapshot(n) holds the committables, and the writer's state ─► write*
 */
import { MillraceError } from '../../errors.ts'
import {
  isTwoPhase,
  type Sink,
  type SinkWriter,
  type SinkWriterContext,
  type TwoPhaseSinkWriter,
} from '../connector.ts'
import type { RecordVector } from '../element.ts'
import type { Counter } from '../ports.ts'
import { andThen } from './continuation.ts'
import { AbstractOperator } from './operator-base.ts'
import type { OperatorRestore, OperatorSnapshot } from './stream-operator.ts'

/** Name of the operator state that holds the writers' own. */
const WRITER_STATE = 'writer'

/** What a writer needs beyond the operator's own context. */
export interface SinkSettings {
  readonly recordsOut: Counter
  readonly checkpointingEnabled: boolean
  /** What the sink's coordinator leased to this subtask. */
  readonly lease?: unknown
}

/** Drives one SinkWriter. Nothing comes after it: watermarks end here. */
export class SinkOperator extends AbstractOperator {
  private readonly sink: Sink<any>
  private readonly settings: SinkSettings
  private writer: SinkWriter<any> | undefined
  private twoPhase: TwoPhaseSinkWriter<any, unknown> | undefined
  private restoredCheckpointId: number | undefined
  private restoredState: readonly unknown[] | undefined
  /** Committables of the snapshot that is being taken. */
  private prepared: { readonly checkpointId: number; readonly committables: readonly unknown[] } | undefined

  constructor(sink: Sink<any>, settings: SinkSettings) {
    super()
    this.sink = sink
    this.settings = settings
  }

  initializeState(restored: OperatorRestore | undefined): void {
    this.restoredCheckpointId = restored?.checkpointId
    this.restoredState = restored?.operatorState[WRITER_STATE]
  }

  open(): void | Promise<void> {
    const writer = this.sink.createWriter(this.writerContext())
    this.writer = writer
    if (isTwoPhase(this.sink)) this.twoPhase = writer as TwoPhaseSinkWriter<any, unknown>
    return writer.open?.()
  }

  private writerContext(): SinkWriterContext {
    const { info, world } = this.context
    const { recordsOut, checkpointingEnabled, lease } = this.settings
    return {
      info,
      world,
      recordsOut,
      checkpointingEnabled,
      restoredCheckpointId: this.restoredCheckpointId,
      ...(this.restoredState === undefined ? {} : { restoredState: this.restoredState }),
      logger: world.logger,
      metrics: world.metrics,
      ...(lease === undefined ? {} : { lease }),
    }
  }

  override processVector(vector: RecordVector): void | Promise<void> {
    return this.openWriter.write(vector)
  }

  /** A job without checkpoints has no other moment at which its last records would go out. */
  endInput(): void | Promise<void> {
    return this.openWriter.flush(true)
  }

  prepareSnapshot(checkpointId: number, endOfInput: boolean, savepoint = false): void | Promise<void> {
    this.prepared = undefined
    return andThen(this.openWriter.flush(endOfInput), () => this.prepare(checkpointId, savepoint))
  }

  private prepare(checkpointId: number, savepoint: boolean): void | Promise<void> {
    if (this.twoPhase === undefined) return
    const keep = (committables: readonly unknown[]): void => {
      this.prepared = { checkpointId, committables }
    }
    const committables = this.twoPhase.prepareCommit(checkpointId, savepoint)
    return 'then' in committables ? committables.then(keep) : keep(committables)
  }

  snapshot(checkpointId: number): OperatorSnapshot {
    const state = this.writerState(checkpointId)
    if (this.twoPhase === undefined) return state
    if (this.prepared?.checkpointId !== checkpointId)
      throw new MillraceError(
        'MILLRACE_INTERNAL',
        `Sink '${this.info.operatorName}' was asked for snapshot ${checkpointId} but prepared ${this.prepared?.checkpointId ?? 'none'}`,
      )
    const { committables } = this.prepared
    this.prepared = undefined
    return { ...state, committables }
  }

  private writerState(checkpointId: number): OperatorSnapshot {
    const items = this.openWriter.snapshotState?.(checkpointId) ?? []
    return items.length === 0 ? {} : { operatorState: { [WRITER_STATE]: { redistribution: 'union', items } } }
  }

  notifyCheckpointComplete(checkpointId: number): void | Promise<void> {
    return this.twoPhase?.notifyCheckpointComplete?.(checkpointId)
  }

  notifyCheckpointAborted(checkpointId: number): void {
    this.twoPhase?.notifyCheckpointAborted?.(checkpointId)
  }

  notifyCheckpointConfirmed(checkpointId: number): void {
    this.twoPhase?.notifyCheckpointConfirmed?.(checkpointId)
  }

  close(): void | Promise<void> {
    const { writer } = this
    this.writer = undefined
    return writer?.close()
  }

  describe(): string | undefined {
    return this.writer?.describe?.()
  }

  private get openWriter(): SinkWriter<any> {
    if (this.writer !== undefined) return this.writer
    throw new MillraceError(
      'MILLRACE_INTERNAL',
      `Sink '${this.info.operatorName}' was used while it was not open`,
    )
  }
}
