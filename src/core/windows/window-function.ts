/**
 * Window functions: what turns the contents of a window into results.
 */
import { AbstractRichFunction, type Collector, type RichFunction } from '../functions.ts'
import type { OutputTag } from '../output-tag.ts'
import type { KeyedStateStore } from '../state.ts'
import type { TimeWindow, Window } from './time-window.ts'

/** What a process window function may ask. Usable only inside the call it was given to. */
export interface ProcessWindowContext<W extends Window> {
  window(): W
  /** Epoch ms of the clock. */
  currentProcessingTime(): number
  /** The operator's watermark, epoch ms. */
  currentWatermark(): number
  /**
   * State of this key and window, for windows that fire more than once; removed with the window.
   * @throws MILLRACE_STATE_ACCESS for windows that merge: such state could not be combined.
   */
  windowState(): KeyedStateStore
  /** State of this key, common to all its windows. */
  globalState(): KeyedStateStore
  /** Emits to a side output. */
  output<X>(tag: OutputTag<X>, value: X): void
}

/**
 * Gets all elements of a window, or the one result of an aggregate or reduce function before it.
 * @example
 * class Busiest extends ProcessWindowFunction<Order, string, string> {
 *   override process(user: string, context: this['Context'], orders: readonly Order[], out: Collector<string>) {
 *     out.collect(`${user} ${context.window().start}: ${orders.length}`)
 *   }
 * }
 */
export abstract class ProcessWindowFunction<
  IN,
  OUT,
  K,
  W extends Window = TimeWindow,
> extends AbstractRichFunction {
  declare readonly Context: ProcessWindowContext<W>
  abstract process(
    key: K,
    context: ProcessWindowContext<W>,
    elements: readonly IN[],
    out: Collector<OUT>,
  ): void | Promise<void>
  /** The window is over. Its window state is removed afterwards in any case. */
  clear(_context: ProcessWindowContext<W>): void | Promise<void> {}
}

/** A process window function without keys, for `windowAll`. */
export abstract class ProcessAllWindowFunction<
  IN,
  OUT,
  W extends Window = TimeWindow,
> extends AbstractRichFunction {
  declare readonly Context: ProcessWindowContext<W>
  abstract process(
    context: ProcessWindowContext<W>,
    elements: readonly IN[],
    out: Collector<OUT>,
  ): void | Promise<void>
  /** The window is over. Its window state is removed afterwards in any case. */
  clear(_context: ProcessWindowContext<W>): void | Promise<void> {}
}

/** What `process` of a windowed stream takes: a function, or an object with a life cycle. */
export type ProcessWindow<IN, OUT, K, W extends Window> =
  | ((
      key: K,
      context: ProcessWindowContext<W>,
      elements: readonly IN[],
      out: Collector<OUT>,
    ) => void | Promise<void>)
  | (RichFunction & {
      process(
        key: K,
        context: ProcessWindowContext<W>,
        elements: readonly IN[],
        out: Collector<OUT>,
      ): void | Promise<void>
      clear?(context: ProcessWindowContext<W>): void | Promise<void>
    })

/** What `process` takes after `windowAll`. */
export type ProcessAllWindow<IN, OUT, W extends Window> =
  | ((context: ProcessWindowContext<W>, elements: readonly IN[], out: Collector<OUT>) => void | Promise<void>)
  | (RichFunction & {
      process(
        context: ProcessWindowContext<W>,
        elements: readonly IN[],
        out: Collector<OUT>,
      ): void | Promise<void>
      clear?(context: ProcessWindowContext<W>): void | Promise<void>
    })

/** What `apply` of a windowed stream takes: the short form of a process window function. */
export type WindowFunction<IN, OUT, K, W extends Window> =
  | ((key: K, window: W, elements: readonly IN[], out: Collector<OUT>) => void | Promise<void>)
  | (RichFunction & {
      apply(key: K, window: W, elements: readonly IN[], out: Collector<OUT>): void | Promise<void>
    })

/** What `apply` takes after `windowAll`. */
export type AllWindowFunction<IN, OUT, W extends Window> =
  | ((window: W, elements: readonly IN[], out: Collector<OUT>) => void | Promise<void>)
  | (RichFunction & {
      apply(window: W, elements: readonly IN[], out: Collector<OUT>): void | Promise<void>
    })

/** Any of them, as the operator runs it. */
export type AnyWindowFunction = ((...args: any[]) => unknown) | (RichFunction & Record<string, any>)

/** Calls one kind of window function. */
export type WindowCall = (
  fn: any,
  key: unknown,
  context: ProcessWindowContext<any>,
  elements: readonly unknown[],
  out: Collector<any>,
) => unknown

/** How each kind is called. A plain function has an `apply` of its own, which is not meant. */
export const WINDOW_CALLS = {
  process: (fn, key, context, elements, out) =>
    typeof fn === 'function' ? fn(key, context, elements, out) : fn.process(key, context, elements, out),
  processAll: (fn, _key, context, elements, out) =>
    typeof fn === 'function' ? fn(context, elements, out) : fn.process(context, elements, out),
  apply: (fn, key, context, elements, out) =>
    typeof fn === 'function'
      ? fn(key, context.window(), elements, out)
      : fn.apply(key, context.window(), elements, out),
  applyAll: (fn, _key, context, elements, out) =>
    typeof fn === 'function'
      ? fn(context.window(), elements, out)
      : fn.apply(context.window(), elements, out),
} as const satisfies Record<string, WindowCall>
