/** Sources whose values are in the program itself: a collection, or a range of whole numbers. Bounded, and readable again from any position. */

import type {
  Source,
  SourceReader,
  SourceReaderContext,
  SourceSplit,
  SplitEnumerator,
  SplitRecords,
} from '../core/connector.ts'
import { NO_TIMESTAMP, recordVector } from '../core/element.ts'
import { ConfigError } from '../errors.ts'

/** Part of a collection or a range. `position` counts from the start of the whole. */
export interface PositionSplit extends SourceSplit {
  /** Of the next value. */
  readonly position: number
  /** Just past the last value; undefined while it is not known. */
  readonly end: number | undefined
}

/**
 * The values of an array or any iterable, in order, with one split. An iterable is read as far as it is asked for, so it may be endless;
 * one that can be iterated only once (a generator) is kept in memory as far as it was read, because a failure reads it again.
 * The collection must not change while the job runs.
 */
export function collectionSource<T>(values: Iterable<T>): Source<T, PositionSplit> {
  if (typeof values?.[Symbol.iterator] !== 'function')
    throw new ConfigError(
      'MILLRACE_INVALID_OPTION',
      `fromCollection needs an array or another iterable, not ${typeof values}`,
    )
  const collection = Array.isArray(values) ? new ArrayValues<T>(values) : new IteratedValues<T>(values)
  return {
    kind: 'collection',
    bounded: true,
    describe: () => ({}),
    createEnumerator: () => enumerator(() => [{ id: 'collection', position: 0, end: undefined }]),
    createReader: (context) => new PositionReader<T>(context, (from, limit) => collection.read(from, limit)),
  }
}

/** The whole numbers from `from` to `to`, both included; one range a subtask. */
export function sequenceSource(from: number, to: number): Source<number, PositionSplit> {
  if (!Number.isSafeInteger(from) || !Number.isSafeInteger(to) || to < from)
    throw new ConfigError(
      'MILLRACE_INVALID_OPTION',
      `fromSequence needs two whole numbers, the first not above the second, not ${from} and ${to}`,
    )
  const count = to - from + 1
  return {
    kind: 'sequence',
    bounded: true,
    describe: () => ({ from, to }),
    createEnumerator: ({ parallelism }) => enumerator(() => ranges(count, parallelism)),
    createReader: (context) =>
      new PositionReader<number>(context, (position, limit) =>
        Array.from({ length: Math.min(limit, count - position) }, (_, i) => from + position + i),
      ),
  }
}

/** `count` positions in at most `parts` pieces of nearly equal size. */
function ranges(count: number, parts: number): PositionSplit[] {
  const pieces = Math.min(parts, count)
  const bound = (i: number): number => Number((BigInt(count) * BigInt(i)) / BigInt(pieces))
  return Array.from({ length: pieces }, (_, i) => ({
    id: `range-${i}`,
    position: bound(i),
    end: bound(i + 1),
  }))
}

/** Splits are found once; restored ones are kept as they are, whatever the parallelism is now. */
function enumerator(find: () => PositionSplit[]): SplitEnumerator<PositionSplit> {
  return {
    start: async (restored) => restored ?? find(),
    close: async () => undefined,
  }
}

interface Values<T> {
  /** Values from position `from`, at most `limit`; fewer only at the end. */
  read(from: number, limit: number): T[]
}

class ArrayValues<T> implements Values<T> {
  readonly #values: readonly T[]
  constructor(values: readonly T[]) {
    this.#values = values
  }
  read(from: number, limit: number): T[] {
    return this.#values.slice(from, from + limit)
  }
}

class IteratedValues<T> implements Values<T> {
  readonly #iterator: Iterator<T>
  readonly #seen: T[] = []
  constructor(values: Iterable<T>) {
    this.#iterator = values[Symbol.iterator]()
  }
  read(from: number, limit: number): T[] {
    while (this.#seen.length < from + limit) {
      const next = this.#iterator.next()
      if (next.done === true) break
      this.#seen.push(next.value)
    }
    return this.#seen.slice(from, from + limit)
  }
}

class PositionReader<T> implements SourceReader<T, PositionSplit> {
  readonly #context: SourceReaderContext
  readonly #read: (from: number, limit: number) => T[]
  readonly #splits = new Map<string, PositionSplit>()

  constructor(context: SourceReaderContext, read: (from: number, limit: number) => T[]) {
    this.#context = context
    this.#read = read
  }

  start(): void {}

  addSplits(splits: readonly PositionSplit[]): void {
    for (const split of splits) this.#splits.set(split.id, split)
  }

  poll(): SplitRecords<T> | undefined {
    for (const split of this.#splits.values()) {
      if (isDone(split)) continue
      const left = split.end === undefined ? Number.POSITIVE_INFINITY : split.end - split.position
      const limit = Math.min(this.#context.vectorSize, left)
      const values = this.#read(split.position, limit)
      const position = split.position + values.length
      this.#splits.set(split.id, { ...split, position, end: values.length < limit ? position : split.end })
      if (values.length === 0) continue
      this.#context.recordsIn.inc(values.length)
      return {
        splitId: split.id,
        vector: recordVector(values, new Array<number>(values.length).fill(NO_TIMESTAMP)),
      }
    }
    return undefined
  }

  /** Values are at hand at all times. */
  async available(): Promise<void> {}

  /** Also true without a split: a subtask more than there are ranges. */
  isFinished(): boolean {
    return [...this.#splits.values()].every(isDone)
  }

  snapshot(): readonly PositionSplit[] {
    return [...this.#splits.values()]
  }

  finishedSplits(): readonly string[] {
    return [...this.#splits.values()].filter(isDone).map((split) => split.id)
  }

  async close(): Promise<void> {}
}

function isDone(split: PositionSplit): boolean {
  return split.end !== undefined && split.position >= split.end
}
