/**
 * Contract of the KafkaCluster port: what readers see of transactions, and idempotent sequences.
 */
import { KafkaCode } from '../kafka/kafka-cluster.ts'
import { type ContractFramework, codeOf, type SceneOf } from './kafka-contract-scene.ts'

/** Declares the tests. */
export function transactionContract({ describe, test, expect }: ContractFramework, scene: SceneOf): void {
  describe('what readers see of a transaction', () => {
    test('an open transaction holds the last stable offset, and with it records of others behind it', async () => {
      const topic = await scene().topic()
      await scene().store(topic, ['before'])
      const producer = await scene().producer()
      await producer.write(topic, ['open'])
      await scene().store(topic, ['behind'])
      const committed = await scene().read(topic, 'read_committed')
      expect(committed.values).toEqual(['before'])
      expect([committed.lastStableOffset, committed.highWatermark]).toEqual([1n, 3n])
      const at = [{ topic, partition: 0 }]
      const { cluster } = scene()
      expect((await cluster.listOffsets(at, 'latest', 'read_committed'))[0]!.offset).toBe(1n)
      expect((await cluster.listOffsets(at, 'latest', 'read_uncommitted'))[0]!.offset).toBe(3n)
      expect((await scene().read(topic, 'read_uncommitted')).values).toEqual(['before', 'open', 'behind'])
      await producer.commit()
      await scene().settled(topic)
      expect((await scene().read(topic, 'read_committed')).values).toEqual(['before', 'open', 'behind'])
    })

    test('a commit writes a COMMIT marker that takes an offset and carries the epoch of its producer', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer()
      await producer.write(topic, ['a', 'b'])
      await producer.commit()
      await scene().settled(topic)
      const { producerId, producerEpoch } = producer.identity
      const seen = await scene().read(topic, 'read_committed')
      expect(seen.markers).toEqual([{ type: 'COMMIT', offset: 2n, producerId, producerEpoch }])
      expect([seen.highWatermark, seen.lastStableOffset]).toEqual([3n, 3n])
      expect((await scene().store(topic, ['next'])).baseOffset).toBe(3n)
    })

    test('an aborted transaction is named to read_committed readers and its records are passed over', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer()
      await scene().store(topic, ['a'])
      await producer.write(topic, ['lost'])
      await scene().store(topic, ['b'])
      await producer.write(topic, ['lost too'])
      await producer.abort()
      await scene().settled(topic)
      const { producerId, producerEpoch } = producer.identity
      const seen = await scene().read(topic, 'read_committed')
      expect(seen.values).toEqual(['a', 'b'])
      expect(seen.aborted).toEqual([{ producerId, firstOffset: 1n }])
      expect(seen.markers).toEqual([{ type: 'ABORT', offset: 4n, producerId, producerEpoch }])
      const uncommitted = await scene().read(topic, 'read_uncommitted')
      expect(uncommitted.values).toEqual(['a', 'lost', 'b', 'lost too'])
      expect(uncommitted.aborted).toEqual([])
    })

    test('interleaved transactions, one committed and one aborted, are told apart', async () => {
      const topic = await scene().topic()
      const kept = await scene().producer()
      const dropped = await scene().producer()
      for (const round of [1, 2]) {
        await kept.write(topic, [`kept ${round}`])
        await dropped.write(topic, [`dropped ${round}`])
      }
      await kept.commit()
      await dropped.abort()
      await scene().settled(topic)
      expect((await scene().read(topic, 'read_committed')).values).toEqual(['kept 1', 'kept 2'])
    })

    test('a transaction over several partitions and topics becomes visible in all of them', async () => {
      const [a, b] = [await scene().topic(2), await scene().topic()]
      const producer = await scene().producer()
      await producer.write(a, ['a0'], 0)
      await producer.write(a, ['a1'], 1)
      await producer.write(b, ['b0'], 0)
      await producer.commit()
      await scene().settled(a, 0)
      await scene().settled(a, 1)
      await scene().settled(b)
      expect((await scene().read(a, 'read_committed', 0n, 0)).values).toEqual(['a0'])
      expect((await scene().read(a, 'read_committed', 0n, 1)).values).toEqual(['a1'])
      expect((await scene().read(b, 'read_committed')).values).toEqual(['b0'])
    })

    test('a partition that was added but not written to gets a marker too', async () => {
      const topic = await scene().topic(2)
      const producer = await scene().producer()
      await scene().cluster.addPartitionsToTxn(producer.identity, [{ topic, partition: 1 }])
      await producer.write(topic, ['a'], 0)
      await producer.commit()
      await scene().until(
        'the marker is there',
        async () => (await scene().read(topic, 'read_committed', 0n, 1)).markers.length === 1,
      )
    })

    test('a look-up by time under read_committed does not see past the last stable offset', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer()
      await producer.write(topic, ['open'])
      const at = [{ topic, partition: 0 }]
      const { cluster } = scene()
      expect((await cluster.listOffsets(at, { timestamp: 0 }, 'read_committed'))[0]!.offset).toBe(-1n)
      expect((await cluster.listOffsets(at, { timestamp: 0 }, 'read_uncommitted'))[0]!.offset).toBe(0n)
      await producer.abort()
    })
  })

  describe('idempotent sequences', () => {
    test('a batch sent again is stored once and answered with its first offset', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer()
      expect(await producer.write(topic, ['a', 'b'])).toBe(0n)
      const again = await producer.send({ topic, partition: 0 }, [{ value: 'a' }, { value: 'b' }], 0)
      expect(again.errorCode).toBe(0)
      expect(again.baseOffset).toBe(0n)
      expect((await scene().read(topic, 'read_uncommitted')).highWatermark).toBe(2n)
      await producer.abort()
    })

    test('an older one of the last five batches is known too', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer()
      for (const value of ['0', '1', '2', '3', '4']) await producer.write(topic, [value])
      const again = await producer.send({ topic, partition: 0 }, [{ value: '0' }], 0)
      expect([again.errorCode, again.baseOffset]).toEqual([0, 0n])
      await producer.abort()
    })

    test('a batch older than the last five is not known any more: code 45, not stored again', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer()
      for (const value of ['0', '1', '2', '3', '4', '5', '6']) await producer.write(topic, [value])
      const again = await producer.send({ topic, partition: 0 }, [{ value: '0' }], 0)
      expect(again.errorCode).toBe(KafkaCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
      expect((await scene().read(topic, 'read_uncommitted')).highWatermark).toBe(7n)
      await producer.abort()
    })

    test('a batch sent again after its transaction has ended is refused with code 48', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer()
      await producer.write(topic, ['a'])
      await producer.commit()
      await scene().settled(topic)
      const again = await producer.send({ topic, partition: 0 }, [{ value: 'a' }], 0)
      expect(again.errorCode).toBe(KafkaCode.INVALID_TXN_STATE)
    })

    test('a gap in the sequence is refused with code 45', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer()
      await producer.write(topic, ['a'])
      const gap = await producer.send({ topic, partition: 0 }, [{ value: 'c' }], 2)
      expect(gap.errorCode).toBe(KafkaCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
      expect((await scene().read(topic, 'read_uncommitted')).highWatermark).toBe(1n)
      await producer.abort()
    })

    test('sequences go on over the transactions of one epoch', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer()
      await producer.write(topic, ['a'])
      await producer.commit()
      await producer.write(topic, ['b'])
      await producer.commit()
      await scene().settled(topic)
      expect((await scene().read(topic, 'read_committed')).values).toEqual(['a', 'b'])
    })

    test('a new epoch starts at sequence 0 and accepts nothing else', async () => {
      const topic = await scene().topic()
      const first = await scene().producer()
      await first.write(topic, ['a'])
      await first.commit()
      const second = await scene().producer({ id: first.identity.transactionalId })
      await scene().cluster.addPartitionsToTxn(second.identity, [{ topic, partition: 0 }])
      const wrong = await second.send({ topic, partition: 0 }, [{ value: 'b' }], 1)
      expect(wrong.errorCode).toBe(KafkaCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
      await second.write(topic, ['b'])
      await second.commit()
      await scene().settled(topic)
      expect((await scene().read(topic, 'read_committed')).values).toEqual(['a', 'b'])
    })

    test('a batch to a partition that is not in the transaction is refused', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer()
      const refused = await producer.send({ topic, partition: 0 }, [{ value: 'a' }], 0)
      expect(refused.errorCode).toBe(KafkaCode.INVALID_TXN_STATE)
      expect((await scene().read(topic, 'read_uncommitted')).highWatermark).toBe(0n)
    })

    test('a partition that does not exist cannot join a transaction', async () => {
      const producer = await scene().producer()
      const partitions = [{ topic: await scene().topic(), partition: 5 }]
      const call = scene().cluster.addPartitionsToTxn(producer.identity, partitions, { timeoutMs: 0 })
      expect(await codeOf(call)).toBe(KafkaCode.UNKNOWN_TOPIC_OR_PARTITION)
    })
  })
}
