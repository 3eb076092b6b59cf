/**
 * Contract of the KafkaCluster port: offsets, fetching, deleting records.
 */
import { type FetchRequest, type IsolationLevel, KafkaCode } from '../kafka/kafka-cluster.ts'
import { type ContractFramework, codeOf, plainBatch, type SceneOf } from './kafka-contract-scene.ts'
import { readBatchHeader, splitBatches } from './plain-batch.ts'

const LEVELS: readonly IsolationLevel[] = ['read_committed', 'read_uncommitted']

function fetchOf(
  topic: string,
  offset: bigint,
  changes: Partial<FetchRequest> & { readonly partitionBytes?: number } = {},
): FetchRequest {
  const { partitionBytes = 1_048_576, ...rest } = changes
  const partitions = [{ topic, partition: 0, offset, maxBytes: partitionBytes }]
  return { isolation: 'read_committed', partitions, maxWaitMs: 0, minBytes: 0, maxBytes: 1_048_576, ...rest }
}

/** Declares the tests. */
export function logContract({ describe, test, expect }: ContractFramework, scene: SceneOf): void {
  describe('records and offsets', () => {
    test('records come back at the offsets at which they were stored', async () => {
      const topic = await scene().topic()
      expect((await scene().store(topic, ['a', 'b', 'c'])).baseOffset).toBe(0n)
      expect((await scene().store(topic, ['d'])).baseOffset).toBe(3n)
      for (const level of LEVELS) {
        const seen = await scene().read(topic, level)
        expect(seen.values).toEqual(['a', 'b', 'c', 'd'])
        expect(seen.offsets).toEqual([0n, 1n, 2n, 3n])
      }
    })

    test('a fetch from the middle of a batch gives the whole batch', async () => {
      const topic = await scene().topic()
      await scene().store(topic, ['a', 'b', 'c'])
      const [fetched] = await scene().cluster.fetch(fetchOf(topic, 2n))
      expect(readBatchHeader(fetched!.records)!.baseOffset).toBe(0n)
      expect((await scene().read(topic, 'read_committed', 2n)).values).toEqual(['c'])
    })

    test('a byte limit below the first batch still gives that batch, whole', async () => {
      const topic = await scene().topic()
      await scene().store(topic, ['x'.repeat(1_000)])
      await scene().store(topic, ['y'.repeat(1_000)])
      const [fetched] = await scene().cluster.fetch(fetchOf(topic, 0n, { partitionBytes: 10, maxBytes: 10 }))
      expect(splitBatches(fetched!.records).map((batch) => readBatchHeader(batch)!.baseOffset)).toEqual([0n])
    })

    test('earliest, latest and a time are looked up', async () => {
      const topic = await scene().topic()
      const start = Date.UTC(2026, 0, 1)
      await scene().store(topic, ['a', 'b'], start)
      await scene().store(topic, ['c'], start + 1_000)
      const at = [{ topic, partition: 0 }]
      const { cluster } = scene()
      for (const level of LEVELS) {
        expect((await cluster.listOffsets(at, 'earliest', level))[0]!.offset).toBe(0n)
        expect((await cluster.listOffsets(at, 'latest', level))[0]!.offset).toBe(3n)
        expect((await cluster.listOffsets(at, { timestamp: start }, level))[0]!.offset).toBe(0n)
        expect((await cluster.listOffsets(at, { timestamp: start + 1 }, level))[0]!.offset).toBe(2n)
        expect((await cluster.listOffsets(at, { timestamp: start + 1_001 }, level))[0]!.offset).toBe(-1n)
      }
    })

    test('offsets of a partition that does not exist carry code 3', async () => {
      const at = [{ topic: await scene().topic(), partition: 7 }]
      const [listed] = await scene().cluster.listOffsets(at, 'latest', 'read_committed')
      expect(listed!.errorCode).toBe(KafkaCode.UNKNOWN_TOPIC_OR_PARTITION)
    })

    test('a batch with a wrong checksum is refused and not stored', async () => {
      const topic = await scene().topic()
      const batch = plainBatch(['damaged'])
      batch[batch.length - 2]! ^= 1
      const request = {
        acks: -1,
        transactionalId: null,
        partitions: [{ topic, partition: 0, batch }],
      } as const
      const [produced] = await scene().cluster.produce(request)
      expect(produced!.errorCode).toBe(2)
      expect(produced!.baseOffset).toBe(-1n)
      expect((await scene().read(topic, 'read_uncommitted')).highWatermark).toBe(0n)
    })

    test('a batch larger than max.message.bytes is refused with code 10', async () => {
      const topic = await scene().topic(1, { 'max.message.bytes': '1000' })
      expect((await scene().store(topic, ['x'.repeat(2_000)])).errorCode).toBe(KafkaCode.MESSAGE_TOO_LARGE)
    })

    test('a compacted topic refuses a record without a key', async () => {
      const topic = await scene().topic(1, { 'cleanup.policy': 'compact' })
      expect((await scene().store(topic, ['no key'])).errorCode).toBe(87)
    })
  })

  describe('long polls', () => {
    test('a fetch with nothing to read answers after its wait, empty', async () => {
      const topic = await scene().topic()
      const [fetched] = await scene().cluster.fetch(fetchOf(topic, 0n, { maxWaitMs: 200, minBytes: 1 }))
      expect(fetched!.errorCode).toBe(0)
      expect(fetched!.records.length).toBe(0)
    })

    test('a waiting fetch wakes up when a record is stored', async () => {
      const topic = await scene().topic()
      let answered = false
      const poll = scene().cluster.fetch(fetchOf(topic, 0n, { maxWaitMs: 20_000, minBytes: 1 }))
      const noted = poll.then((fetched) => {
        answered = true
        return fetched
      })
      await scene().waitMs(200)
      expect(answered).toBe(false)
      const other = await scene().another()
      await other.produce({
        acks: -1,
        transactionalId: null,
        partitions: [{ topic, partition: 0, batch: plainBatch(['new']) }],
      })
      const soon = await Promise.race([noted, scene().waitMs(10_000)])
      expect(soon !== undefined).toBe(true)
      const [fetched] = await noted
      expect(splitBatches(fetched!.records).length).toBe(1)
      await other.close()
    })

    test('a waiting read_committed fetch wakes up when the transaction commits', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer({ on: await scene().another() })
      await producer.write(topic, ['a'])
      let answered = false
      const poll = scene().cluster.fetch(fetchOf(topic, 0n, { maxWaitMs: 20_000, minBytes: 1 }))
      const noted = poll.then((fetched) => {
        answered = true
        return fetched
      })
      await scene().waitMs(300)
      expect(answered).toBe(false)
      await producer.commit()
      const soon = await Promise.race([noted, scene().waitMs(10_000)])
      expect(soon !== undefined).toBe(true)
      const [fetched] = await noted
      expect(splitBatches(fetched!.records).length).toBeGreaterThan(0)
      await producer.cluster.close()
    })
  })

  describe('the ends of a log', () => {
    test('a fetch of an unknown partition answers code 3', async () => {
      const partitions = [{ topic: scene().name('nowhere'), partition: 0, offset: 0n, maxBytes: 1_000 }]
      const [fetched] = await scene().cluster.fetch({ ...fetchOf('', 0n), partitions })
      expect(fetched!.errorCode).toBe(KafkaCode.UNKNOWN_TOPIC_OR_PARTITION)
    })

    test('a fetch at the end is empty, beyond it out of range', async () => {
      const topic = await scene().topic()
      await scene().store(topic, ['a'])
      const [atEnd] = await scene().cluster.fetch(fetchOf(topic, 1n))
      expect([atEnd!.errorCode, atEnd!.records.length]).toEqual([0, 0])
      const [beyond] = await scene().cluster.fetch(fetchOf(topic, 2n))
      expect(beyond!.errorCode).toBe(KafkaCode.OFFSET_OUT_OF_RANGE)
    })

    test('deleted records move the log start; a fetch below it is out of range', async () => {
      const { cluster } = scene()
      const topic = await scene().topic()
      await scene().store(topic, ['a', 'b', 'c'])
      await scene().store(topic, ['d'])
      await cluster.deleteRecords([{ topic, partition: 0, beforeOffset: 2n }])
      const [earliest] = await cluster.listOffsets([{ topic, partition: 0 }], 'earliest', 'read_committed')
      expect(earliest!.offset).toBe(2n)
      const [below] = await cluster.fetch(fetchOf(topic, 1n))
      expect(below!.errorCode).toBe(KafkaCode.OFFSET_OUT_OF_RANGE)
      const [at] = await cluster.fetch(fetchOf(topic, 2n))
      expect(at!.logStartOffset).toBe(2n)
      expect((await scene().read(topic, 'read_committed', 2n)).values).toEqual(['c', 'd'])
    })

    test('deleting the records of an open transaction moves the last stable offset along', async () => {
      const { cluster } = scene()
      const topic = await scene().topic()
      const producer = await scene().producer()
      await producer.write(topic, ['a', 'b'])
      await scene().store(topic, ['c'])
      await cluster.deleteRecords([{ topic, partition: 0, beforeOffset: 2n }])
      const [stable] = await cluster.listOffsets([{ topic, partition: 0 }], 'latest', 'read_committed')
      expect(stable!.offset).toBe(2n)
      await producer.commit()
    })

    test('records can be deleted up to the end but not beyond', async () => {
      const { cluster } = scene()
      const topic = await scene().topic()
      await scene().store(topic, ['a', 'b'])
      await cluster.deleteRecords([{ topic, partition: 0, beforeOffset: 2n }])
      expect((await scene().read(topic, 'read_committed', 2n)).values).toEqual([])
      const beyond = cluster.deleteRecords([{ topic, partition: 0, beforeOffset: 3n }])
      expect(await codeOf(beyond)).toBe(KafkaCode.OFFSET_OUT_OF_RANGE)
      expect((await scene().store(topic, ['c'])).baseOffset).toBe(2n)
    })
  })
}
