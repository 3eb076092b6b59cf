/**
 * What every operator has in common: context, output, and passing watermarks on.
 */
import type { SubtaskInfo } from '../connector.ts'
import { MIN_WATERMARK, type RecordVector, type WatermarkStatus } from '../element.ts'
import type { OperatorContext, Output, StreamOperator } from './stream-operator.ts'

/** Base of operators. `context` and `output` are there from `setup` on. */
export abstract class AbstractOperator implements StreamOperator {
  protected context!: OperatorContext
  protected output!: Output
  /** The watermark of all inputs together; MIN_WATERMARK before the first. */
  protected watermark: number = MIN_WATERMARK

  setup(context: OperatorContext): void {
    this.context = context
    this.output = context.output
  }

  protected get info(): SubtaskInfo {
    return this.context.info
  }

  abstract processVector(vector: RecordVector): void | Promise<void>

  processWatermark(timestamp: number): void | Promise<void> {
    this.watermark = timestamp
    return this.output.emitWatermark(timestamp)
  }

  processStatus(status: WatermarkStatus): void | Promise<void> {
    return this.output.emitStatus(status)
  }
}
