/** Tells people why nothing comes out of an operator that waits for event time. */
import type { TimerHandle } from '../ports.ts'
import { STALL_MS, WatermarkStall } from '../time/watermark-stall.ts'
import type { OperatorContext } from './stream-operator.ts'

/** The stall of one operator; warns once each time that it stands still, also when records have stopped coming meanwhile. */
export class StallWarning {
  private readonly context: OperatorContext
  private readonly what: string
  private readonly stall = new WatermarkStall()
  /** Looks again when the stall would be worth a warning. */
  private check: TimerHandle | undefined
  private closed = false

  /** `what` waits: 'Windows', 'Joins'. */
  constructor(context: OperatorContext, what: string) {
    this.context = context
    this.what = what
  }

  onWatermark(): void {
    this.stall.onWatermark()
  }

  /** Says what holds the watermark back when records came and it has not risen for long. */
  onRecords(records: number): void {
    const waiting = this.stall.onRecords(records, this.context.world.clock.now())
    if (waiting !== undefined) this.warn(waiting)
    else if (this.check === undefined) this.checkLater()
  }

  close(): void {
    this.closed = true
    this.check?.cancel()
  }

  /** One timer at a time, that finds out for itself whether the watermark rose: most of them do nothing, and watermarks stay cheap. */
  private checkLater(): void {
    const { clock, timers } = this.context.world
    const due = this.stall.dueAt
    this.check = undefined
    if (due === undefined || this.closed) return
    const look = (): void => {
      const waiting = this.stall.onTime(clock.now())
      if (waiting !== undefined) this.warn(waiting)
      this.checkLater()
    }
    this.check = timers.schedule(due - clock.now(), look, true)
  }

  private warn(waiting: number): void {
    const { world, info, watermarkHeldBackBy } = this.context
    const heldBackBy = watermarkHeldBackBy?.() ?? []
    world.logger.warn(
      `${this.what} of operator '${info.operatorName}' wait: ${waiting} records came, but the watermark has not risen for ${STALL_MS / 1000} s` +
        `${heldBackBy.length === 0 ? '' : `; it is held back by ${heldBackBy.join('; ')}`}. ` +
        'Partitions without records hold it back unless the watermark strategy has withIdleness(ms)',
      { operator: info.operatorName, records: waiting, heldBackBy },
    )
  }
}
