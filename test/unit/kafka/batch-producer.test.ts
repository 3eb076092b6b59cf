import { beforeEach, describe, expect, test } from '@jest/globals'
import { KafkaError } from '../../../src/errors.ts'
import { digestText, extendDigest, recordsCrc } from '../../../src/kafka/batch-digest.ts'
import {
  BatchProducer,
  type BatchProducerOptions,
  type ProducerCluster,
} from '../../../src/kafka/batch-producer.ts'
import type {
  ProducedPartition,
  ProduceRequest,
  ProducerIdentity,
  TopicPartition,
} from '../../../src/kafka/kafka-cluster.ts'
import { type BatchHeader, readBatchHeaders } from '../../../src/kafka/record-batch-header.ts'
import { readRecords } from './read-records.ts'

interface Call {
  readonly request: ProduceRequest
  readonly headers: readonly BatchHeader[]
  readonly answer: (change?: Partial<ProducedPartition>) => Promise<void>
  readonly refuse: (error: Error) => Promise<void>
}

/** Notes each Produce request and keeps it until the test answers it. Partition p is led by node p % 2 + 1. */
class RecordingCluster implements ProducerCluster {
  readonly calls: Call[] = []
  readonly log = new Map<string, Buffer[]>()
  readonly ends = new Map<string, bigint>()
  /** Answers every request at once. */
  automatic = false
  /** Larger batches are refused, as a topic's max.message.bytes does. */
  maxBatchBytes = Number.POSITIVE_INFINITY
  leaderLookups = 0
  most = 0
  private open = 0
  private readonly flying = new Set<string>()

  async leaderOf(_topic: string, partition: number): Promise<number> {
    this.leaderLookups++
    return (partition % 2) + 1
  }

  produce(request: ProduceRequest): Promise<readonly ProducedPartition[]> {
    const headers = request.partitions.map((part) => {
      const name = `${part.topic}-${part.partition}`
      if (this.flying.has(name)) throw new Error(`two requests in flight for ${name}`)
      this.flying.add(name)
      const batches = readBatchHeaders(part.batch, part)
      expect(batches).toHaveLength(1)
      return batches[0]!
    })
    this.most = Math.max(this.most, ++this.open)
    return new Promise((resolve, reject) => {
      const done = () => {
        this.open--
        for (const part of request.partitions) this.flying.delete(`${part.topic}-${part.partition}`)
      }
      const call: Call = {
        request,
        headers,
        answer: async (change = {}) => {
          done()
          resolve(
            request.partitions.map(({ topic, partition, batch }, i) => {
              const name = `${topic}-${partition}`
              if (batch.length > this.maxBatchBytes) {
                return { topic, partition, errorCode: 10, errorMessage: null, baseOffset: -1n }
              }
              const baseOffset = this.ends.get(name) ?? 100n
              this.ends.set(name, baseOffset + BigInt(headers[i]!.count))
              const stored = Buffer.from(batch)
              stored.writeBigInt64BE(baseOffset)
              this.log.set(name, [...(this.log.get(name) ?? []), stored])
              return { topic, partition, errorCode: 0, errorMessage: null, baseOffset, ...change }
            }),
          )
          await settled()
        },
        refuse: async (error) => {
          done()
          reject(error)
          await settled()
        },
      }
      this.calls.push(call)
      if (this.automatic) void call.answer()
    })
  }

  async describeProducers() {
    return [
      {
        producerId: 9n,
        producerEpoch: 2,
        lastSequence: 0,
        lastTimestamp: 0n,
        coordinatorEpoch: 0,
        currentTxnStartOffset: 140n,
      },
    ]
  }

  async listOffsets(partitions: readonly TopicPartition[]) {
    return partitions.map(({ topic, partition }) => ({ topic, partition, errorCode: 0, offset: 150n }))
  }
}

/** Lets everything run that waits for nothing but promises. */
async function settled(): Promise<void> {
  await new Promise<void>((resolve) => setImmediate(resolve))
}

const identity: ProducerIdentity = {
  transactionalId: 'millrace.job.sink.0.0',
  producerId: 9n,
  producerEpoch: 2,
}
let cluster: RecordingCluster

beforeEach(() => {
  cluster = new RecordingCluster()
})

function producerWith(options: Partial<BatchProducerOptions> = {}): BatchProducer {
  return new BatchProducer({ cluster, ...options })
}

function append(producer: BatchProducer, partition: number, count: number, size = 10): void {
  for (let i = 0; i < count; i++) producer.append('out', partition, `k${i}`, 'x'.repeat(size), 1000 + i)
}

describe('BatchProducer', () => {
  test('nothing is sent in the middle of a vector; at its end one batch a partition and one request a leader', async () => {
    const producer = producerWith()
    for (let partition = 0; partition < 4; partition++) append(producer, partition, 3)
    await settled()
    expect(cluster.calls).toHaveLength(0)
    expect(producer.ready()).toBeUndefined()
    await settled()
    const partitions = cluster.calls.map(({ request }) =>
      request.partitions
        .map(({ partition }) => partition)
        .sort()
        .join(),
    )
    expect(partitions.sort()).toEqual(['0,2', '1,3'])
    expect(cluster.calls.flatMap(({ headers }) => headers.map(({ count }) => count))).toEqual([3, 3, 3, 3])
  })

  test('while a leader has a request in flight small batches wait and grow, and go out together on the answer', async () => {
    const producer = producerWith()
    append(producer, 0, 1)
    producer.tick()
    await settled()
    for (let vector = 0; vector < 5; vector++) {
      append(producer, 0, 10)
      append(producer, 2, 1)
      producer.tick()
      await settled()
    }
    expect(cluster.calls).toHaveLength(1)
    await cluster.calls[0]!.answer()
    expect(cluster.calls).toHaveLength(2)
    expect(cluster.calls[1]!.headers.map(({ count }) => count).sort()).toEqual([5, 50])
  })

  test('full batches of other partitions go out while a leader is busy, up to maxInFlight requests', async () => {
    const producer = producerWith({ batchBytes: 1000, maxRequestBytes: 1000, maxInFlight: 3 })
    append(producer, 0, 1)
    producer.tick()
    await settled()
    for (const partition of [2, 4, 6, 8]) append(producer, partition, 80)
    await settled()
    expect(cluster.calls).toHaveLength(3)
    await cluster.calls[0]!.answer()
    expect(cluster.calls).toHaveLength(4)
    expect(cluster.most).toBe(3)
  })

  test('sequences of a partition are contiguous, and it has one request in flight at a time', async () => {
    cluster.automatic = true
    const producer = producerWith({ batchBytes: 700 })
    producer.use(identity)
    for (let vector = 0; vector < 30; vector++) {
      for (let partition = 0; partition < 5; partition++)
        append(producer, partition, 1 + ((vector * partition) % 40))
      await producer.ready()
    }
    await producer.flush()
    expect(producer.bufferedBytes).toBe(0)
    for (const [name, batches] of cluster.log) {
      const headers = readBatchHeaders(Buffer.concat(batches), { topic: name, partition: 0 })
      let sequence = 0
      for (const header of headers) {
        expect(header).toMatchObject({
          producerId: 9n,
          producerEpoch: 2,
          baseSequence: sequence,
          isTransactional: true,
        })
        sequence += header.count
      }
      const partition = Number(name.split('-')[1])
      expect(sequence).toBe(
        Array.from({ length: 30 }, (_, v) => 1 + ((v * partition) % 40)).reduce((a, b) => a + b),
      )
    }
  })

  test('ready asks to wait at the byte budget and resolves once half of it is free', async () => {
    const producer = producerWith({ maxBufferedBytes: 4000, batchBytes: 1000, maxRequestBytes: 1000 })
    append(producer, 0, 300)
    let resolved = false
    const waiting = producer.ready()
    expect(waiting).toBeDefined()
    void waiting!.then(() => {
      resolved = true
    })
    await settled()
    for (let i = 0; !resolved; i++) {
      expect(producer.bufferedBytes).toBeGreaterThan(2000)
      await cluster.calls[i]!.answer()
    }
    expect(producer.bufferedBytes).toBeLessThanOrEqual(2000)
    expect(producer.ready()).toBeUndefined()
  })

  test('memory stays within the budget and a vector, however fast records come', async () => {
    cluster.automatic = true
    const producer = producerWith({ maxBufferedBytes: 100_000, batchBytes: 20_000 })
    let most = 0
    for (let vector = 0; vector < 300; vector++) {
      for (let i = 0; i < 100; i++) producer.append('out', i % 7, null, 'x'.repeat(100), 5)
      most = Math.max(most, producer.bufferedBytes)
      await producer.ready()
    }
    await producer.flush()
    expect(most).toBeLessThan(100_000 + 100 * 120)
  })

  test('flush resolves when the last batch is acknowledged, not before', async () => {
    const producer = producerWith({ batchBytes: 1000 })
    append(producer, 0, 100)
    append(producer, 1, 1)
    let flushed = false
    const flushing = producer.flush().then(() => {
      flushed = true
    })
    await settled()
    for (let i = 0; i < cluster.calls.length; i++) {
      expect(flushed).toBe(false)
      await cluster.calls[i]!.answer()
    }
    await flushing
    expect(producer.written().map(({ partition, count }) => [partition, count])).toEqual([
      [0, 100],
      [1, 1],
    ])
    await producer.flush()
  })

  test('written gives offsets, count and a digest that can be had from the log again', async () => {
    cluster.automatic = true
    const producer = producerWith({ batchBytes: 500, compression: 'gzip' })
    producer.use(identity)
    append(producer, 1, 90)
    producer.append('other', 0, null, null, 5)
    await producer.flush()
    const bytes = Buffer.concat(cluster.log.get('out-1')!)
    const place = { topic: 'out', partition: 1 }
    const headers = readBatchHeaders(bytes, place)
    expect(headers.length).toBeGreaterThan(2)
    expect(producer.written()).toEqual([
      {
        topic: 'other',
        partition: 0,
        firstOffset: 100n,
        lastOffset: 100n,
        count: 1,
        digest: expect.stringMatching(/^[0-9a-f]{8}$/),
      },
      {
        ...place,
        firstOffset: 100n,
        lastOffset: 189n,
        count: 90,
        digest: digestText(
          headers.reduce((sum, header) => extendDigest(sum, recordsCrc(bytes, header, place)), 0),
        ),
      },
    ])
  })

  test('another identity begins at sequence 0 with nothing written; the same one goes on', async () => {
    cluster.automatic = true
    const producer = producerWith()
    producer.use(identity)
    append(producer, 0, 3)
    await producer.flush()
    producer.use({ ...identity })
    append(producer, 0, 2)
    await producer.flush()
    expect(cluster.calls[1]!.headers[0]).toMatchObject({ baseSequence: 3, producerEpoch: 2 })
    expect(producer.written()[0]!.count).toBe(5)
    producer.use({ ...identity, producerEpoch: 3 })
    expect(producer.written()).toEqual([])
    append(producer, 0, 1)
    await producer.flush()
    expect(cluster.calls[2]!.headers[0]).toMatchObject({ baseSequence: 0, producerEpoch: 3 })
    producer.use(undefined)
    append(producer, 0, 1)
    await producer.flush()
    expect(cluster.calls[3]!.request.transactionalId).toBeNull()
    expect(cluster.calls[3]!.headers[0]).toMatchObject({
      baseSequence: -1,
      producerId: -1n,
      isTransactional: false,
    })
  })

  test('the identity cannot change under records that are pending', async () => {
    const producer = producerWith()
    producer.use(identity)
    append(producer, 0, 1)
    expect(() => producer.use(undefined)).toThrow(/records pending/)
  })

  test('partitions join the transaction before their first batch, once for each identity, many in one call', async () => {
    cluster.automatic = true
    const calls: string[] = []
    const producer = producerWith({
      beforeFirst: async (partitions) => {
        await settled()
        expect(cluster.calls).toHaveLength(calls.length * 2)
        calls.push(
          partitions
            .map(({ topic, partition }) => `${topic}-${partition}`)
            .sort()
            .join(),
        )
      },
    })
    producer.use(identity)
    for (const next of [identity, { ...identity, producerEpoch: 3 }]) {
      producer.use(next)
      append(producer, 0, 1)
      append(producer, 1, 1)
      await producer.flush()
    }
    append(producer, 0, 1)
    await producer.flush()
    expect(calls).toEqual(['out-0,out-1', 'out-0,out-1'])
  })

  test('without a transaction no partition is added to one', async () => {
    cluster.automatic = true
    const producer = producerWith({ beforeFirst: () => Promise.reject(new Error('not asked for')) })
    append(producer, 0, 1)
    await producer.flush()
  })

  test('a failed hook fails the producer before anything is sent', async () => {
    const producer = producerWith({ beforeFirst: () => Promise.reject(new Error('refused')) })
    producer.use(identity)
    append(producer, 0, 1)
    await expect(producer.flush()).rejects.toThrow('refused')
    expect(cluster.calls).toHaveLength(0)
  })

  test('a refused batch fails all that wait and all later calls with the first error', async () => {
    const producer = producerWith({ batchBytes: 1000 })
    producer.use(identity)
    append(producer, 0, 200)
    const flushing = producer.flush()
    await settled()
    const [call] = cluster.calls
    void call!.answer({ errorCode: 47 })
    await expect(flushing).rejects.toMatchObject({ code: 'MILLRACE_TRANSACTION_FENCED', brokerCode: 47 })
    await settled()
    expect(cluster.calls).toHaveLength(1)
    expect(() => producer.append('out', 0, null, 'x', 1)).toThrow(KafkaError)
    expect(() => producer.ready()).toThrow(/INVALID_PRODUCER_EPOCH/)
    expect(() => producer.tick()).toThrow(/INVALID_PRODUCER_EPOCH/)
    expect(() => producer.use(undefined)).toThrow(/INVALID_PRODUCER_EPOCH/)
    await expect(producer.flush()).rejects.toThrow(/INVALID_PRODUCER_EPOCH/)
  })

  test('a lost request fails the producer with the error of the cluster', async () => {
    const producer = producerWith()
    append(producer, 0, 1)
    const flushing = producer.flush()
    await settled()
    void cluster.calls[0]!.refuse(new Error('unreachable'))
    await expect(flushing).rejects.toThrow('unreachable')
  })

  test('a partition that the answer leaves out is an error, not a batch that is forgotten', async () => {
    const producer = producerWith()
    append(producer, 0, 1)
    const flushing = producer.flush()
    await settled()
    void cluster.calls[0]!.answer({ partition: 77 })
    await expect(flushing).rejects.toThrow(/did not say what it stored on out-0/)
  })

  test('a batch that the broker had stored before counts, and its offsets are looked up', async () => {
    const producer = producerWith()
    producer.use(identity)
    append(producer, 0, 3)
    const flushing = producer.flush()
    await settled()
    void cluster.calls[0]!.answer({ errorCode: 46, baseOffset: -1n })
    await flushing
    expect(producer.written()).toMatchObject([{ firstOffset: 140n, lastOffset: 149n, count: 3 }])
  })

  test('a record that is too large names its partition and leaves the others alone', async () => {
    cluster.automatic = true
    const producer = producerWith({ batchBytes: 1000, maxRecordBatchBytes: 2000 })
    append(producer, 0, 2)
    expect(() => producer.append('out', 0, null, 'x'.repeat(5000), 1)).toThrow(/5000 bytes for out-0/)
    append(producer, 0, 1)
    await producer.flush()
    expect(producer.written()[0]!.count).toBe(3)
  })

  test('a batch above what the topic takes is sent again in halves, in order and under the same sequence numbers', async () => {
    cluster.automatic = true
    cluster.maxBatchBytes = 400
    const producer = producerWith({ batchBytes: 3000 })
    producer.use(identity)
    append(producer, 0, 100)
    await producer.flush()
    append(producer, 0, 100)
    await producer.flush()
    const stored = cluster.log.get('out-0')!
    expect(stored.every((bytes) => bytes.length <= 400)).toBe(true)
    const { records, nextOffset } = readRecords(Buffer.concat(stored), { from: 100n })
    expect(records.map(({ timestamp }) => timestamp)).toEqual(
      [...Array(100).keys(), ...Array(100).keys()].map((i) => 1000 + i),
    )
    expect(nextOffset).toBe(300n)
    let sequence = 0
    for (const header of readBatchHeaders(Buffer.concat(stored), { topic: 'out', partition: 0 })) {
      expect(header.baseSequence).toBe(sequence)
      sequence += header.count
    }
    expect(producer.written()).toMatchObject([{ firstOffset: 100n, lastOffset: 299n, count: 200 }])
  })

  test('a single record above what the topic takes is an error with its place and size', async () => {
    cluster.automatic = true
    cluster.maxBatchBytes = 400
    const producer = producerWith()
    producer.append('out', 0, null, 'x'.repeat(500), 1)
    await expect(producer.flush()).rejects.toMatchObject({
      code: 'MILLRACE_SERIALIZATION',
      message: expect.stringContaining('out-0'),
      details: expect.objectContaining({ topic: 'out', partition: 0, size: 500 + 70 }),
    })
  })

  test('the leader is asked for again before each request, so that a moved one is found', async () => {
    cluster.automatic = true
    const producer = producerWith()
    for (let i = 1; i <= 3; i++) {
      append(producer, 0, 1)
      await producer.flush()
      expect(cluster.leaderLookups).toBe(i)
    }
  })
})
