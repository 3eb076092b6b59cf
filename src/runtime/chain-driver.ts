/**
 * Drives the operator chain of one task: the only way elements get into it. Keeps what must hold around it: one call at a time,
 * end hooks once, events forwarded to every edge.
 */
import type { RecordVector, StreamEvent, WatermarkStatus } from '../core/element.ts'
import type { OperatorChain } from '../core/operators/operator-chain.ts'
import type { RecordWriter } from './record-writer.ts'

/** What a watermark valve answers. */
export interface ValveOutput {
  readonly watermark?: number | undefined
  readonly idle?: boolean | undefined
}

export class ChainDriver {
  readonly #chain: OperatorChain
  readonly #writers: readonly RecordWriter[]
  readonly #onEndOfData: () => void
  /** Inputs whose end was handled, in this attempt or before the restored checkpoint. */
  readonly #ended: Set<number>
  #endOfData = false

  constructor(
    chain: OperatorChain,
    writers: readonly RecordWriter[],
    restoredEnd: boolean,
    onEndOfData: () => void,
  ) {
    this.#chain = chain
    this.#writers = writers
    this.#onEndOfData = onEndOfData
    this.#ended = new Set(restoredEnd ? [0, 1] : [])
  }

  /** Undefined = records may come; a promise = not before it resolves, but everything else may. */
  room(): Promise<void> | undefined {
    return this.#chain.room()
  }

  /** Undefined = done synchronously. */
  records(input: number, vector: RecordVector): Promise<void> | undefined {
    return this.#chain.processHeadVector(input, vector) as Promise<void> | undefined
  }

  /** Records for a side output of the source at the head. */
  side(tagId: string, vector: RecordVector): Promise<void> | undefined {
    return this.#chain.headOutput.emitSide(tagId, vector) as Promise<void> | undefined
  }

  watermark(timestamp: number): void | Promise<void> {
    return this.#chain.processHeadWatermark(timestamp)
  }

  status(status: WatermarkStatus): void | Promise<void> {
    return this.#chain.processHeadStatus(status)
  }

  async valve(output: ValveOutput | undefined): Promise<void> {
    if (output === undefined) return
    if (output.idle === false) await this.status({ kind: 'watermark-status', idle: false })
    if (output.watermark !== undefined) await this.watermark(output.watermark)
    if (output.idle === true) await this.status({ kind: 'watermark-status', idle: true })
  }

  /** End hooks of the chain, once a job: a restored subtask that had handled its end does not run them again. */
  async endInput(input: number): Promise<void> {
    if (this.#ended.has(input)) return
    this.#ended.add(input)
    await this.#chain.endInput(input)
  }

  /** All inputs have ended: tell downstream. Barriers still flow. */
  async endOfData(): Promise<void> {
    if (this.#endOfData) return
    this.#endOfData = true
    this.broadcast({ kind: 'end-of-data' })
    this.#onEndOfData()
  }

  /** True when the end of all inputs was handled: part of the snapshot. */
  get ended(): boolean {
    return this.#endOfData
  }

  broadcast(event: StreamEvent): void {
    for (const writer of this.#writers) writer.broadcast(event)
  }
}
