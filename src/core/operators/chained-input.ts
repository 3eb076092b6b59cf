/**
 * The inputs of one chained operator: a chained edge delivers by direct calls.
 */
import type { RecordVector, WatermarkStatus } from '../element.ts'
import { type ValveOutput, WatermarkValve } from '../time/watermark-valve.ts'
import type { ChainOutput } from './chain-output.ts'
import { andThen } from './continuation.ts'
import type { StreamOperator } from './stream-operator.ts'

/** Gives records to input `input` of an operator. @throws TypeError if it has no second input. */
export function deliver(operator: StreamOperator, input: number, vector: RecordVector): void | Promise<void> {
  return input === 0 ? operator.processVector(vector) : operator.processVector2!(vector)
}

/** All edges into one chained operator. With several, its watermark is their minimum, and an input ends with its last edge. */
export class ChainedInputs {
  /** Records received, for metrics. */
  recordsIn = 0
  readonly operator: StreamOperator
  /** Input of each edge. */
  private readonly inputs: readonly number[]
  private readonly valve: WatermarkValve | undefined
  private readonly ended = new Set<number>()

  constructor(operator: StreamOperator, inputs: readonly number[]) {
    this.operator = operator
    this.inputs = inputs
    this.valve = inputs.length > 1 ? new WatermarkValve(inputs.length) : undefined
  }

  /** The receiver at the end of edge number `edge`. */
  receiver(edge: number): ChainOutput {
    const input = this.inputs[edge]!
    return {
      emit: (vector) => {
        this.recordsIn += vector.values.length
        return deliver(this.operator, input, vector)
      },
      emitWatermark: (timestamp) =>
        this.valve === undefined
          ? this.operator.processWatermark(timestamp)
          : this.passOn(this.valve.onWatermark(edge, timestamp)),
      emitStatus: (status) =>
        this.valve === undefined
          ? this.operator.processStatus(status)
          : this.passOn(this.valve.onStatus(edge, status.idle)),
    }
  }

  /** Edge `edge` has ended; returns the input that ended with it, if one did. */
  endEdge(edge: number): number | undefined {
    this.ended.add(edge)
    const input = this.inputs[edge]!
    return this.inputs.every((of, other) => of !== input || this.ended.has(other)) ? input : undefined
  }

  /** True if no edge is open. */
  get allEnded(): boolean {
    return this.ended.size === this.inputs.length
  }

  private passOn(output: ValveOutput): void | Promise<void> {
    if (output === undefined) return
    const { watermark, idle } = output
    return andThen(idle === false ? this.status(false) : undefined, () =>
      andThen(watermark === undefined ? undefined : this.operator.processWatermark(watermark), () =>
        idle === true ? this.status(true) : undefined,
      ),
    )
  }

  private status(idle: boolean): void | Promise<void> {
    const status: WatermarkStatus = { kind: 'watermark-status', idle }
    return this.operator.processStatus(status)
  }
}
