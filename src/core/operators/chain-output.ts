/**
 * Where an operator of a chain sends to: chained operators by direct calls, and edges that leave the chain.
 */
import type { RecordVector, WatermarkStatus } from '../element.ts'
import { both, overshadowed } from './continuation.ts'
import type { Output } from './stream-operator.ts'

/** One receiver: an edge that leaves the chain, or the input of a chained operator. A promise means: wait before sending more. */
export interface ChainOutput {
  emit(vector: RecordVector): void | Promise<void>
  emitWatermark(timestamp: number): void | Promise<void>
  emitStatus(status: WatermarkStatus): void | Promise<void>
}

/** Receivers of one operator: of its main output, and of side outputs by tag id. */
export interface Receivers {
  readonly main: readonly ChainOutput[]
  readonly sides: ReadonlyMap<string, readonly ChainOutput[]>
}

/** Nobody listens. */
const NOBODY: ChainOutput = {
  emit: () => undefined,
  emitWatermark: () => undefined,
  emitStatus: () => undefined,
}

/** Several receivers of one output. Each gets everything, in the order of the list; all are waited for. */
class FanOut implements ChainOutput {
  private readonly receivers: readonly ChainOutput[]

  constructor(receivers: readonly ChainOutput[]) {
    this.receivers = receivers
  }
  emit(vector: RecordVector): void | Promise<void> {
    return this.all((receiver) => receiver.emit(vector))
  }
  emitWatermark(timestamp: number): void | Promise<void> {
    return this.all((receiver) => receiver.emitWatermark(timestamp))
  }
  emitStatus(status: WatermarkStatus): void | Promise<void> {
    return this.all((receiver) => receiver.emitStatus(status))
  }

  /** A vector may be given to the next receiver while one waits: the promise only holds back what comes after. */
  private all(send: (receiver: ChainOutput) => void | Promise<void>): void | Promise<void> {
    let waiting: Promise<void> | undefined
    try {
      for (const receiver of this.receivers) waiting = both(waiting, send(receiver))
    } catch (error) {
      overshadowed(waiting)
      throw error
    }
    return waiting
  }
}

function combined(receivers: readonly ChainOutput[]): ChainOutput {
  if (receivers.length === 0) return NOBODY
  return receivers.length === 1 ? receivers[0]! : new FanOut(receivers)
}

/** The Output of one operator. With a single receiver each call is handed straight on. */
export class OperatorOutput implements Output {
  /** Records emitted to the main output and to side outputs, for metrics. */
  recordsOut = 0
  private readonly main: ChainOutput
  private readonly sides: ReadonlyMap<string, ChainOutput>
  /** Watermarks and statuses go to side outputs too. */
  private readonly everyone: ChainOutput

  constructor({ main, sides }: Receivers) {
    this.main = combined(main)
    this.sides = new Map(Array.from(sides, ([tagId, receivers]) => [tagId, combined(receivers)]))
    this.everyone = combined([...main, ...Array.from(sides.values()).flat()])
  }

  emit(vector: RecordVector): void | Promise<void> {
    this.recordsOut += vector.values.length
    return this.main.emit(vector)
  }

  emitSide(tagId: string, vector: RecordVector): void | Promise<void> {
    const side = this.sides.get(tagId)
    if (side === undefined) return
    this.recordsOut += vector.values.length
    return side.emit(vector)
  }

  emitWatermark(timestamp: number): void | Promise<void> {
    return this.everyone.emitWatermark(timestamp)
  }

  emitStatus(status: WatermarkStatus): void | Promise<void> {
    return this.everyone.emitStatus(status)
  }
}
