/** Tells people why nothing comes out of an operator that waits for event time. */
import { STALL_MS, WatermarkStall } from '../time/watermark-stall.ts'
import type { OperatorContext } from './stream-operator.ts'

/** The stall of one operator; warns once each time that it stands still. */
export class StallWarning {
  private readonly context: OperatorContext
  private readonly what: string
  private readonly stall = new WatermarkStall()

  /** `what` waits: 'Windows', 'Joins'. */
  constructor(context: OperatorContext, what: string) {
    this.context = context
    this.what = what
  }

  onWatermark(): void {
    this.stall.onWatermark(this.context.world.clock.now())
  }

  /** Says what holds the watermark back when records came and it has not risen for long. */
  onRecords(records: number): void {
    const { world, info, watermarkHeldBackBy } = this.context
    const waiting = this.stall.onRecords(records, world.clock.now())
    if (waiting === undefined) return
    const heldBackBy = watermarkHeldBackBy?.() ?? []
    world.logger.warn(
      `${this.what} of operator '${info.operatorName}' wait: ${waiting} records came, but the watermark has not risen for ${STALL_MS / 1000} s` +
        `${heldBackBy.length === 0 ? '' : `; it is held back by ${heldBackBy.join('; ')}`}. ` +
        'Partitions without records hold it back unless the watermark strategy has withIdleness(ms)',
      { operator: info.operatorName, records: waiting, heldBackBy },
    )
  }
}
