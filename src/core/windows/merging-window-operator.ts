/**
 * Windows that merge: sessions. A record's own window joins the open windows of its key that it overlaps or touches:
 *
 *   merged? ─► trigger.onMerge(new window) ─► trigger.clear and timers of each old one ─► contents move ─► the record is added
 *
 * A record whose own window would be late is taken if it joins a window that is not.
 */
import { andThen } from '../operators/continuation.ts'
import { type Namespace, type ValueState, ValueStateDescriptor } from '../state.ts'
import { type Added, BaseWindowOperator, LATE } from './base-window-operator.ts'
import {
  contentsOf,
  mergeWindow,
  type OpenWindow,
  type WindowMerge,
  withoutWindow,
} from './merging-windows.ts'
import { TimeWindow, type Window } from './time-window.ts'

/** Sessions, and other windows of a job's own that merge. */
export class MergingWindowOperator extends BaseWindowOperator {
  private windows!: ValueState<readonly OpenWindow[]>

  override open(): void | Promise<void> {
    this.windows = this.state.getState(new ValueStateDescriptor('merging-windows'))
    return super.open()
  }

  protected override addTo(window: TimeWindow, value: unknown, timestamp: number): Added {
    const merge = mergeWindow(this.openWindows(), window)
    // Only a window that joined no other can be late: open ones are not.
    if (this.isLate(merge.window)) return LATE
    if (merge.absorbed.length > 0) this.absorb(merge)
    if (merge.windows !== undefined) this.keep(merge.windows)
    return this.accept(merge.window, merge.contents, value, timestamp)
  }

  private absorb({ window, contents, absorbed }: WindowMerge): void {
    const { trigger } = this.spec
    const old = absorbed.map(({ start, end }) => new TimeWindow(start, end))
    // The grown window may have the bounds of an old one only if it is the old one, which is no merge.
    trigger.onMerge(
      window,
      this.triggerContext.at(
        window,
        old.map(({ namespace }) => namespace),
      ),
    )
    for (const each of old) {
      trigger.clear(each, this.triggerContext.at(each))
      this.clearState(each)
      this.deleteCleanup(each)
    }
    this.contents.merge(
      contents,
      absorbed.map((each) => each.contents).filter((each) => each !== contents),
    )
  }

  protected override contentsOf(window: Window): Namespace | undefined {
    return window instanceof TimeWindow ? contentsOf(this.openWindows(), window) : undefined
  }

  protected override remove(window: Window): void | Promise<void> {
    return andThen(super.remove(window), () => {
      this.keep(withoutWindow(this.openWindows(), window as TimeWindow))
    })
  }

  private openWindows(): readonly OpenWindow[] {
    this.state.setCurrentNamespace('')
    return this.windows.value() ?? []
  }

  private keep(windows: readonly OpenWindow[]): void {
    this.state.setCurrentNamespace('')
    if (windows.length === 0) this.windows.clear()
    else this.windows.update(windows)
  }
}
