import { describe, expect, test } from '@jest/globals'
import { type RecordVector, recordVector } from '../../../src/core/element.ts'
import { keyGroupOf, subtaskOfKeyGroup } from '../../../src/core/graph/key-groups.ts'
import type { Partitioner } from '../../../src/core/graph/stream-graph.ts'
import { LocalChannel } from '../../../src/runtime/channel.ts'
import { RecordWriter } from '../../../src/runtime/record-writer.ts'

const vectorOf = (...values: unknown[]): RecordVector =>
  recordVector(
    values,
    values.map((_, i) => i),
  )

function writer(partitioner: Partitioner, count: number, { subtask = 0, capacity = 1_000 } = {}) {
  const channels = Array.from({ length: count }, () => new LocalChannel(capacity))
  const made = new RecordWriter(partitioner, channels, {
    subtask,
    downstreamParallelism: count,
    maxParallelism: 128,
  })
  const taken = (): RecordVector[][] =>
    channels.map((channel) => {
      const elements: RecordVector[] = []
      for (let element = channel.take(); element !== undefined; element = channel.take())
        elements.push(element as RecordVector)
      return elements
    })
  return { made, channels, taken }
}

const hash: Partitioner = { kind: 'hash', keyOf: (value: any) => value as string }

describe('one edge that leaves a chain', () => {
  test('sends a record to the subtask that owns its key group, with its timestamp, in order', () => {
    const { made, taken } = writer(hash, 3)
    const keys = Array.from({ length: 60 }, (_, i) => `key-${i % 20}`)
    made.emit(vectorOf(...keys))
    const received = taken()
    received.forEach((vectors, subtask) => {
      for (const { values, timestamps } of vectors) {
        values.forEach((key, i) => {
          expect(subtaskOfKeyGroup(keyGroupOf(key as string, 128), 128, 3)).toBe(subtask)
          expect(keys[timestamps[i]!]).toBe(key)
        })
        expect([...timestamps]).toEqual(timestamps.toSorted((a, b) => a - b))
      }
    })
    expect(received.flat().reduce((sum, { values }) => sum + values.length, 0)).toBe(60)
  })

  test('with one receiver the vector goes on as it is', () => {
    for (const partitioner of [
      hash,
      { kind: 'forward' },
      { kind: 'global' },
      { kind: 'rebalance' },
    ] as Partitioner[]) {
      const { made, taken } = writer(partitioner, 1)
      const vector = vectorOf('a', 'b')
      made.emit(vector)
      expect(taken()[0]![0]).toBe(vector)
    }
  })

  test('global sends everything to the first', () => {
    const { made, taken } = writer({ kind: 'global' }, 3)
    for (let i = 0; i < 3; i++) made.emit(vectorOf(i))
    expect(taken().map((vectors) => vectors.length)).toEqual([3, 0, 0])
  })

  test('rebalance goes round, each sender from another one on', () => {
    const { made, taken } = writer({ kind: 'rebalance' }, 3, { subtask: 4 })
    made.emit(vectorOf(0, 1, 2, 3))
    made.emit(vectorOf(4))
    expect(taken().map((vectors) => vectors.flatMap(({ values }) => values))).toEqual([[2], [0, 3], [1, 4]])
  })

  test('errors of a key selector or a partitioner tell whose records they were, and the record', () => {
    const info = { jobName: 'j', operatorName: 'map', uid: 'm', subtaskIndex: 0, parallelism: 1, attempt: 1 }
    const fails = (value: any) => value.nothing.here
    for (const partitioner of [
      { kind: 'hash', keyOf: fails },
      { kind: 'custom', choose: () => 0, keyOf: fails },
      { kind: 'custom', choose: () => 2, keyOf: () => 1 },
    ] as Partitioner[]) {
      const made = new RecordWriter(partitioner, [new LocalChannel(), new LocalChannel()], {
        subtask: 0,
        downstreamParallelism: 2,
        maxParallelism: 128,
        sender: info,
      })
      expect(() => made.emit(vectorOf({ id: 7 }))).toThrow(
        expect.objectContaining({
          code: 'MILLRACE_USER_FUNCTION',
          message: expect.stringMatching(/for the output of operator 'map'/),
          details: expect.objectContaining({ record: '{"id":7}' }),
        }),
      )
    }
  })

  test('broadcast sends the same vector to all', () => {
    const { made, taken } = writer({ kind: 'broadcast' }, 3)
    const vector = vectorOf('a')
    made.emit(vector)
    for (const vectors of taken()) expect(vectors[0]).toBe(vector)
  })

  test('a partitioner of the user chooses; a choice that is not there is an error', () => {
    const custom = (choice: (key: unknown) => number): Partitioner => ({
      kind: 'custom',
      choose: choice,
      keyOf: (value) => value as never,
    })
    const { made, taken } = writer(
      custom((key) => (key as number) % 2),
      2,
    )
    made.emit(vectorOf(1, 2, 3))
    expect(taken().map(([vector]) => vector!.values)).toEqual([[2], [1, 3]])
    for (const bad of [2, -1, Number.NaN, 0.5])
      expect(() =>
        writer(
          custom(() => bad),
          2,
        ).made.emit(vectorOf(1)),
      ).toThrow(/it chose partition .*there are 2 \(0 to 1\)/)
  })

  test('events go to every channel, behind the records before them', () => {
    const { made, channels } = writer(hash, 2)
    made.emit(vectorOf(...Array.from({ length: 20 }, (_, i) => `k${i}`)))
    made.broadcast({ kind: 'barrier', n: 1, checkpointKind: 'checkpoint' })
    for (const channel of channels) {
      expect(channel.take()?.kind).toBe('records')
      expect(channel.take()?.kind).toBe('barrier')
    }
  })

  test('waits while any of its channels is full, and for all that are', async () => {
    const { made, channels } = writer({ kind: 'broadcast' }, 2, { capacity: 2 })
    expect(made.emit(vectorOf(1))).toBeUndefined()
    let done = false
    const waiting = made.emit(vectorOf(2))!.then(() => {
      done = true
    })
    channels[0]!.take()
    await new Promise((resolve) => setImmediate(resolve))
    expect(done).toBe(false)
    channels[1]!.take()
    await waiting
  })
})
