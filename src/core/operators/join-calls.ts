/**
 * How the functions of window joins and coGroups are called when a window fires, with the records of both inputs.
 */
import type { TaggedElement } from '../windows/joined-windows.ts'
import type { WindowCall } from '../windows/window-function.ts'
import { collectResults } from './collected-results.ts'
import { isThenable } from './continuation.ts'
import { flushIfFull } from './flush-in-call.ts'
import type { VectorCollector } from './vector-collector.ts'

/** Calls a coGroup function. */
export const CO_GROUP: WindowCall = (fn, _key, _context, elements, out) => {
  const [first, second] = sides(elements as readonly TaggedElement<unknown, unknown>[])
  const result =
    typeof fn === 'function' ? fn(first, second, out) : (fn.coGroup(first, second, out) as unknown)
  return collectResults(result, out as VectorCollector, 'coGroup')
}

/** Calls a join function for every pair: one of the first input after the other, with all of the second. */
export const JOIN: WindowCall = (fn, _key, _context, elements, out) => {
  const [first, second] = sides(elements as readonly TaggedElement<unknown, unknown>[])
  return new Pairs(fn, first, second, out as VectorCollector).run(0)
}

function sides(elements: readonly TaggedElement<unknown, unknown>[]): [unknown[], unknown[]] {
  const both: [unknown[], unknown[]] = [[], []]
  for (const { input, value } of elements) both[input - 1]!.push(value)
  return both
}

/** True if the function takes a collector. */
function isFlat(fn: any): boolean {
  return (typeof fn === 'function' ? fn : fn.join).length >= 3
}

/** The pairs of one window. What they make goes on as it comes: there may be more of them than fit into memory. */
class Pairs {
  private readonly fn: any
  private readonly first: readonly unknown[]
  private readonly second: readonly unknown[]
  private readonly out: VectorCollector
  private readonly flat: boolean

  constructor(fn: any, first: readonly unknown[], second: readonly unknown[], out: VectorCollector) {
    this.fn = fn
    this.first = first
    this.second = second
    this.out = out
    this.flat = isFlat(fn)
  }

  /** Pairs from number `from` on; stays synchronous until somebody asks to wait. */
  run(from: number): void | Promise<void> {
    const count = this.first.length * this.second.length
    for (let i = from; i < count; i++) {
      const wait = this.one(i) ?? flushIfFull(this.out)
      if (wait !== undefined) return this.runOn(wait, i + 1, count)
    }
  }

  private async runOn(first: Promise<void>, from: number, count: number): Promise<void> {
    await first
    for (let i = from; i < count; i++) await (this.one(i) ?? flushIfFull(this.out))
  }

  private one(index: number): Promise<void> | undefined {
    const { fn, out } = this
    const a = this.first[Math.floor(index / this.second.length)]
    const b = this.second[index % this.second.length]
    if (this.flat) {
      const made = typeof fn === 'function' ? fn(a, b, out) : fn.join(a, b, out)
      return collectResults(made, out, 'join') ?? undefined
    }
    const result = typeof fn === 'function' ? fn(a, b) : fn.join(a, b)
    if (isThenable(result)) return Promise.resolve(result).then((settled) => out.add(settled, out.timestamp))
    out.add(result, out.timestamp)
    return undefined
  }
}
