import { describe, expect, test } from '@jest/globals'
import { PartitionQueue } from '../../../src/kafka/partition-queue.ts'
import { RecordBatchBuilder } from '../../../src/kafka/record-batch-builder.ts'
import { readBatchHeaders } from '../../../src/kafka/record-batch-header.ts'

const identity = { transactionalId: 'id', producerId: 9n, producerEpoch: 2 }

function queueWith(maxBytes = 10_000): PartitionQueue {
  return new PartitionQueue(
    'out',
    4,
    new RecordBatchBuilder({ maxBytes, compression: 'none', topic: 'out', partition: 4 }),
  )
}

function seal(queue: PartitionQueue, count: number): number {
  for (let i = 0; i < count; i++) queue.builder.append(null, 'v', 1)
  return queue.seal(identity)
}

describe('PartitionQueue', () => {
  test('sealing adds the header to the memory, acknowledging frees the batch', () => {
    const queue = queueWith()
    expect(seal(queue, 3)).toBe(61)
    queue.inFlight = true
    const size = queue.head!.bytes.length
    expect(queue.acknowledge(50n)).toBe(size)
    expect([queue.head, queue.inFlight, queue.hasWork]).toEqual([undefined, false, false])
  })

  test('batches leave in order and each takes up the sequence where the last one ended', () => {
    const queue = queueWith()
    seal(queue, 3)
    seal(queue, 2)
    expect(readBatchHeaders(queue.head!.bytes, queue)[0]).toMatchObject({ baseSequence: 0, count: 3 })
    queue.acknowledge(50n)
    expect(readBatchHeaders(queue.head!.bytes, queue)[0]).toMatchObject({ baseSequence: 3, count: 2 })
    queue.acknowledge(60n)
    expect(queue.written()).toMatchObject({
      topic: 'out',
      partition: 4,
      firstOffset: 50n,
      lastOffset: 61n,
      count: 5,
    })
  })

  test('an offset that the broker did not say makes the bounds unknown until they are located', () => {
    const queue = queueWith()
    seal(queue, 1)
    seal(queue, 1)
    queue.acknowledge(50n)
    queue.acknowledge(-1n)
    expect(queue.written()).toMatchObject({ firstOffset: -1n, lastOffset: -1n, count: 2 })
    queue.locate(50n, 59n)
    expect(queue.written()).toMatchObject({ firstOffset: 50n, lastOffset: 59n, count: 2 })
  })

  test('a refused batch of several records is split and later ones are smaller, one of a single record is not', () => {
    const queue = queueWith()
    seal(queue, 100)
    const before = queue.head!.bytes.length
    queue.inFlight = true
    const change = queue.split()
    expect(queue.inFlight).toBe(false)
    expect(queue.head!.count).toBe(50)
    const first = queue.acknowledge(0n)
    expect(first + queue.head!.bytes.length - before).toBe(change)
    let count = 0
    while (queue.builder.append(null, 'v', 1)) count++
    expect(count).toBeLessThanOrEqual(50)
    expect(queue.builder.sizeBytes).toBeLessThanOrEqual(before / 2 + 1)
    const single = queueWith()
    seal(single, 1)
    expect(single.split()).toBeUndefined()
  })

  test('a restart forgets what was written and begins at sequence 0', () => {
    const queue = queueWith()
    seal(queue, 3)
    queue.acknowledge(50n)
    queue.added = true
    queue.restart(7)
    expect(queue).toMatchObject({ added: false, generation: 7 })
    expect(queue.written()).toBeUndefined()
    seal(queue, 1)
    expect(readBatchHeaders(queue.head!.bytes, queue)[0]).toMatchObject({ baseSequence: 0 })
  })
})
