import { describe, expect, test } from '@jest/globals'
import {
  collectionSource,
  type PositionSplit,
  sequenceSource,
} from '../../../src/connectors/collection-source.ts'
import type { Source, SourceContext, SourceReader } from '../../../src/core/connector.ts'
import { readerContext } from './sink-context.ts'

const splitsOf = (source: Source<any, PositionSplit>, parallelism = 1, restored?: readonly PositionSplit[]) =>
  source.createEnumerator({ parallelism } as SourceContext).start(restored)

async function readerOf<T>(
  source: Source<T, PositionSplit>,
  vectorSize = 2,
  splits?: readonly PositionSplit[],
) {
  const reader = source.createReader(readerContext(vectorSize))
  await reader.start()
  reader.addSplits(splits ?? (await splitsOf(source)))
  return reader
}

function readAll<T>(reader: SourceReader<T, PositionSplit>): T[] {
  const found: T[] = []
  for (let next = reader.poll(); next !== undefined; next = reader.poll()) found.push(...next.vector.values)
  return found
}

describe('a collection', () => {
  test.each<[string, () => Iterable<string>]>([
    ['array', () => ['a', 'b', 'c', 'd']],
    ['set', () => new Set(['a', 'b', 'c', 'd'])],
    ['generator', () => ['a', 'b', 'c', 'd'].values()],
  ])('in an %s is read in order, in vectors, then the source is finished', async (_kind, values) => {
    const reader = await readerOf(collectionSource(values()))
    expect(reader.poll()).toEqual({
      splitId: 'collection',
      vector: { kind: 'records', values: ['a', 'b'], timestamps: [Number.NaN, Number.NaN] },
    })
    expect(reader.isFinished()).toBe(false)
    expect(readAll(reader)).toEqual(['c', 'd'])
    expect(reader.isFinished()).toBe(true)
    expect(reader.finishedSplits!()).toEqual(['collection'])
  })

  test('is read on from a snapshot, also if it can be iterated only once', async () => {
    const source = collectionSource(['a', 'b', 'c', 'd', 'e'].values())
    const first = await readerOf(source)
    first.poll()
    const snapshot = JSON.parse(JSON.stringify(first.snapshot(1)))
    expect(readAll(first)).toEqual(['c', 'd', 'e'])
    const restored = await splitsOf(source, 1, snapshot)
    expect(readAll(await readerOf(source, 2, restored))).toEqual(['c', 'd', 'e'])
  })

  test('that was read to its end stays so after a restore', async () => {
    const source = collectionSource([1])
    const reader = await readerOf(source)
    readAll(reader)
    expect((await readerOf(source, 2, reader.snapshot(1))).isFinished()).toBe(true)
  })

  test('without an end is read only as far as it is asked for', async () => {
    function* naturals() {
      for (let n = 0; ; n++) yield n
    }
    const reader = await readerOf(collectionSource(naturals()), 3)
    expect(reader.poll()!.vector.values).toEqual([0, 1, 2])
    expect(reader.poll()!.vector.values).toEqual([3, 4, 5])
  })

  test('must be iterable', () => {
    expect(() => collectionSource(5 as never)).toThrow(
      'fromCollection needs an array or another iterable, not number',
    )
  })
})

describe('a sequence', () => {
  test('is cut into one range a subtask that together hold each number once', async () => {
    for (const [from, to, parallelism] of [
      [-3, 6, 3],
      [0, 1, 4],
      [5, 5, 1],
      [1, 1000, 7],
    ] as const) {
      const source = sequenceSource(from, to)
      const splits = await splitsOf(source, parallelism)
      expect(splits.length).toBe(Math.min(parallelism, to - from + 1))
      const parts = await Promise.all(
        splits.map(async (split) => readAll(await readerOf(source, 10, [split]))),
      )
      expect(parts.flat()).toEqual(Array.from({ length: to - from + 1 }, (_, i) => from + i))
    }
  })

  test('keeps its ranges after a restore at another parallelism', async () => {
    const source = sequenceSource(1, 10)
    const splits = await splitsOf(source, 2)
    expect(await splitsOf(source, 5, splits)).toEqual(splits)
  })

  test('a subtask without a range is finished at once', async () => {
    expect((await readerOf(sequenceSource(1, 2), 2, [])).isFinished()).toBe(true)
  })

  test.each([
    [2, 1],
    [0.5, 2],
    [0, Number.POSITIVE_INFINITY],
  ])('from %p to %p is refused', (from, to) => {
    expect(() => sequenceSource(from, to)).toThrow('fromSequence needs two whole numbers')
  })
})
