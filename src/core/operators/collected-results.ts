/**
 * What functions return, put into a collector: one result, or an iterable of results that is pulled no faster than the output takes them.
 */
import { isThenable } from './continuation.ts'
import { EmitFailure } from './user-error.ts'
import type { VectorCollector } from './vector-collector.ts'

/** Collects one result, or what a promise resolves to. */
export function collectResult(result: unknown, collector: VectorCollector): void | Promise<void> {
  if (isThenable(result))
    return Promise.resolve(result).then((settled) => collector.add(settled, collector.timestamp))
  collector.add(result, collector.timestamp)
}

/** Collects nothing, an array, any iterable, or a promise of these. */
export function collectResults(
  result: unknown,
  collector: VectorCollector,
  method: string,
): void | Promise<void> {
  if (result === undefined) return
  if (isThenable(result))
    return Promise.resolve(result).then((settled) => collectIterable(settled, collector, method))
  return collectIterable(result, collector, method)
}

function collectIterable(result: unknown, collector: VectorCollector, method: string): void | Promise<void> {
  if (result === undefined || result === null) return
  if (Array.isArray(result)) {
    for (let i = 0; i < result.length; i++) collector.add(result[i], collector.timestamp)
    return
  }
  if (typeof (result as Iterable<unknown>)[Symbol.iterator] !== 'function')
    throw new TypeError(`${method} must return an iterable or nothing, but returned a ${typeof result}`)
  const iterator = (result as Iterable<unknown>)[Symbol.iterator]()
  const wait = pull(iterator, collector)
  if (wait !== undefined) return pullOn(iterator, collector, wait)
}

/** Takes items until the iterator ends (returns undefined) or the output asks to wait. */
function pull(iterator: Iterator<unknown>, collector: VectorCollector): Promise<void> | undefined {
  for (let item = iterator.next(); !item.done; item = iterator.next()) {
    collector.add(item.value, collector.timestamp)
    if (!collector.full) continue
    const wait = flushFor(iterator, collector)
    if (wait !== undefined) return wait
  }
  return undefined
}

async function pullOn(
  iterator: Iterator<unknown>,
  collector: VectorCollector,
  first: Promise<void>,
): Promise<void> {
  for (let wait: Promise<void> | undefined = first; wait !== undefined; wait = pull(iterator, collector)) {
    collector.waiting = true
    try {
      await wait
    } catch (error) {
      iterator.return?.()
      throw new EmitFailure(error)
    } finally {
      collector.waiting = false
    }
  }
}

/** The iterator's clean-up runs when its records cannot be emitted. */
function flushFor(iterator: Iterator<unknown>, collector: VectorCollector): Promise<void> | undefined {
  try {
    return collector.flush() ?? undefined
  } catch (error) {
    iterator.return?.()
    throw new EmitFailure(error)
  }
}
