/**
 * The open windows of one key when windows merge. A window's contents stay in the namespace where they began while the window grows, so
 * that a record that prolongs a session moves no state:
 *
 *   windows   [0, 10) contents at '0/10'      + [8, 18)  ─►  [0, 18) contents at '0/10'
 *   windows   [0, 18) '0/10', [25, 35) '25/35'  + [16, 26) ─►  [0, 35) contents at '0/10', those of '25/35' move there
 *
 * Windows of a set never overlap or touch; they are in order.
 */
import { TimeWindow } from './time-window.ts'

/** One open window as it is kept in state. */
export interface OpenWindow {
  readonly start: number
  readonly end: number
  /** Namespace of its contents. */
  readonly contents: string
}

/** What adding a window to a set changes. */
export interface WindowMerge {
  /** The window that the record belongs to. */
  readonly window: TimeWindow
  readonly contents: string
  /** Windows that became part of `window`; empty if it is new, or one that was open and stays as it is. */
  readonly absorbed: readonly OpenWindow[]
  /** The set afterwards; undefined if nothing changed. */
  readonly windows: readonly OpenWindow[] | undefined
}

/** Adds a window to a set. The sets are not changed. */
export function mergeWindow(open: readonly OpenWindow[], added: TimeWindow): WindowMerge {
  let first = 0
  while (first < open.length && open[first]!.end < added.start) first++
  let end = first
  while (end < open.length && open[end]!.start <= added.end) end++
  if (first === end) {
    const made = { start: added.start, end: added.end, contents: added.namespace }
    return { window: added, contents: made.contents, absorbed: [], windows: open.toSpliced(first, 0, made) }
  }
  const { start, contents } = open[first]!
  const last = open[end - 1]!
  const window = new TimeWindow(Math.min(start, added.start), Math.max(last.end, added.end))
  if (end - first === 1 && window.start === start && window.end === last.end)
    return { window, contents, absorbed: [], windows: undefined }
  return {
    window,
    contents,
    absorbed: open.slice(first, end),
    windows: open.toSpliced(first, end - first, { start: window.start, end: window.end, contents }),
  }
}

/** The namespace of the contents of an open window; undefined if there is no such window (any more). */
export function contentsOf(open: readonly OpenWindow[], window: TimeWindow): string | undefined {
  return open.find(({ start, end }) => start === window.start && end === window.end)?.contents
}

/** The set without a window that is over. */
export function withoutWindow(open: readonly OpenWindow[], window: TimeWindow): readonly OpenWindow[] {
  return open.filter(({ start, end }) => start !== window.start || end !== window.end)
}
