/**
 * Contract of the KafkaCluster port: the transaction coordinator. Fencing, the answers of EndTxn, time-outs, what can be listed.
 */
import { KafkaCode, type ProducerIdentity } from '../kafka/kafka-cluster.ts'
import { type ContractFramework, ContractProducer, codeOf, type SceneOf } from './kafka-contract-scene.ts'

const FENCED: readonly number[] = [KafkaCode.INVALID_PRODUCER_EPOCH, KafkaCode.PRODUCER_FENCED]

/** Declares the tests. */
export function coordinatorContract({ describe, test, expect }: ContractFramework, scene: SceneOf): void {
  const init = (transactionalId: string, expected?: ProducerIdentity): Promise<ProducerIdentity> =>
    scene().cluster.initProducerId({
      transactionalId,
      transactionTimeoutMs: 60_000,
      ...(expected && { expected }),
    })
  const end = (producer: ProducerIdentity, result: 'commit' | 'abort'): Promise<number> =>
    codeOf(scene().cluster.endTxn(producer, result))

  describe('fencing', () => {
    test('a bare InitProducerId starts at epoch 0 and moves the epoch by one each time', async () => {
      const id = scene().name('id')
      const first = await init(id)
      const second = await init(id)
      expect(first.producerEpoch).toBe(0)
      expect([second.producerId, second.producerEpoch]).toEqual([first.producerId, 1])
    })

    test('a bare InitProducerId aborts the open transaction, with a marker one epoch up', async () => {
      const topic = await scene().topic()
      const zombie = await scene().producer()
      await zombie.write(topic, ['lost'])
      const holder = await init(zombie.identity.transactionalId)
      expect(holder.producerId).toBe(zombie.identity.producerId)
      expect(holder.producerEpoch).toBe(zombie.identity.producerEpoch + 2)
      await scene().settled(topic)
      const seen = await scene().read(topic, 'read_committed')
      expect(seen.values).toEqual([])
      expect(seen.markers.map(({ type, producerEpoch }) => [type, producerEpoch])).toEqual([
        ['ABORT', zombie.identity.producerEpoch + 1],
      ])
    })

    test('a fenced producer can neither write nor add partitions nor end the transaction of its successor', async () => {
      const topic = await scene().topic()
      const zombie = await scene().producer()
      await zombie.write(topic, ['lost'])
      const holder = await scene().producer({ id: zombie.identity.transactionalId })
      await holder.write(topic, ['kept'])
      const produced = await zombie.send({ topic, partition: 0 }, [{ value: 'zombie' }], 1)
      expect(FENCED).toContain(produced.errorCode)
      expect(FENCED).toContain(
        await codeOf(scene().cluster.addPartitionsToTxn(zombie.identity, [{ topic, partition: 0 }])),
      )
      expect(FENCED).toContain(await end(zombie.identity, 'commit'))
      expect(FENCED).toContain(await end(zombie.identity, 'abort'))
      await holder.commit()
      await scene().settled(topic)
      expect((await scene().read(topic, 'read_committed')).values).toEqual(['kept'])
    })

    test('a producer that was fenced between two transactions cannot write either', async () => {
      const topic = await scene().topic()
      const zombie = await scene().producer()
      await zombie.write(topic, ['kept'])
      await zombie.commit()
      await scene().settled(topic)
      await init(zombie.identity.transactionalId)
      const produced = await zombie.send({ topic, partition: 0 }, [{ value: 'zombie' }], 1)
      expect(FENCED).toContain(produced.errorCode)
    })

    test('InitProducerId with the own id and epoch is a compare-and-set', async () => {
      const id = scene().name('id')
      const first = await init(id)
      const second = await init(id, first)
      expect([second.producerId, second.producerEpoch]).toEqual([first.producerId, first.producerEpoch + 1])
      const third = await init(id)
      expect(FENCED).toContain(await codeOf(init(id, second)))
      expect(FENCED).toContain(
        await codeOf(init(id, { ...third, producerId: third.producerId + 1_000_000n })),
      )
      expect((await init(id, third)).producerEpoch).toBe(third.producerEpoch + 1)
    })

    test('a compare-and-set that is repeated, its answer lost, gets the same answer', async () => {
      const id = scene().name('id')
      const first = await init(id)
      const second = await init(id, first)
      expect(await init(id, first)).toEqual(second)
    })

    test('a compare-and-set on the own open transaction aborts it and goes on in the epoch of the ABORT marker', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer()
      await producer.write(topic, ['lost'])
      const { identity } = producer
      const next = new ContractProducer(scene().cluster, await init(identity.transactionalId, identity))
      expect(next.identity.producerEpoch).toBe(identity.producerEpoch + 1)
      await next.write(topic, ['kept'])
      await next.commit()
      await scene().settled(topic)
      const seen = await scene().read(topic, 'read_committed')
      expect(seen.values).toEqual(['kept'])
      expect(seen.markers.map(({ type, producerEpoch }) => [type, producerEpoch])).toEqual([
        ['ABORT', identity.producerEpoch + 1],
        ['COMMIT', identity.producerEpoch + 1],
      ])
    })

    test('a compare-and-set by a former holder is refused, but aborts a transaction that is open', async () => {
      const topic = await scene().topic()
      const former = (await scene().producer()).identity
      const holder = await scene().producer({ id: former.transactionalId })
      await holder.write(topic, ['lost'])
      expect(await codeOf(init(former.transactionalId, former))).toBe(KafkaCode.PRODUCER_FENCED)
      await scene().settled(topic)
      expect((await scene().read(topic, 'read_committed')).values).toEqual([])
      expect(await end(holder.identity, 'commit')).toBe(KafkaCode.INVALID_PRODUCER_EPOCH)
      // Nobody took the id over: the holder may go on, one epoch up.
      const again = await init(former.transactionalId, holder.identity)
      expect(again.producerEpoch).toBe(holder.identity.producerEpoch + 1)
    })

    test('a compare-and-set with another producer id is refused and leaves the open transaction alone', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer()
      await producer.write(topic, ['kept'])
      const { identity } = producer
      const other = { ...identity, producerId: identity.producerId + 1_000_000n }
      expect(await codeOf(init(identity.transactionalId, other))).toBe(KafkaCode.PRODUCER_FENCED)
      await producer.commit()
      await scene().settled(topic)
      expect((await scene().read(topic, 'read_committed')).values).toEqual(['kept'])
    })

    test('after a bare InitProducerId no former holder can come back', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer()
      await producer.write(topic, ['lost'])
      const { identity } = producer
      const holder = await init(identity.transactionalId)
      for (const producerEpoch of [identity.producerEpoch, identity.producerEpoch + 1]) {
        expect(await codeOf(init(identity.transactionalId, { ...identity, producerEpoch }))).toBe(
          KafkaCode.PRODUCER_FENCED,
        )
      }
      expect((await init(identity.transactionalId, holder)).producerEpoch).toBe(holder.producerEpoch + 1)
    })

    test('a transaction time-out above the maximum of the broker is refused with code 50', async () => {
      const request = { transactionalId: scene().name('id'), transactionTimeoutMs: 2_000_000_000 }
      expect(await codeOf(scene().cluster.initProducerId(request))).toBe(
        KafkaCode.INVALID_TRANSACTION_TIMEOUT,
      )
    })
  })

  describe('the answers of EndTxn', () => {
    test('another process can commit with nothing but id, producer id and epoch, and repeat it', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer()
      await producer.write(topic, ['a'])
      const { transactionalId, producerId, producerEpoch } = producer.identity
      const other = await scene().another()
      await other.endTxn({ transactionalId, producerId, producerEpoch }, 'commit')
      await other.endTxn({ transactionalId, producerId, producerEpoch }, 'commit')
      await scene().settled(topic)
      expect(await end(producer.identity, 'commit')).toBe(0)
      const seen = await scene().read(topic, 'read_committed')
      expect([seen.values, seen.markers.length]).toEqual([['a'], 1])
      await other.close()
    })

    test('an abort after the commit is refused with code 48, a commit after the abort too', async () => {
      const topic = await scene().topic()
      const [kept, dropped] = [await scene().producer(), await scene().producer()]
      await kept.write(topic, ['kept'])
      await dropped.write(topic, ['dropped'])
      await kept.commit()
      await dropped.abort()
      await scene().settled(topic)
      expect(await end(kept.identity, 'abort')).toBe(KafkaCode.INVALID_TXN_STATE)
      expect(await end(dropped.identity, 'commit')).toBe(KafkaCode.INVALID_TXN_STATE)
      expect(await end(dropped.identity, 'abort')).toBe(0)
      expect((await scene().read(topic, 'read_committed')).values).toEqual(['kept'])
    })

    test('a transaction that holds nothing cannot end: code 48', async () => {
      const producer = await scene().producer()
      expect(await end(producer.identity, 'commit')).toBe(KafkaCode.INVALID_TXN_STATE)
      expect(await end(producer.identity, 'abort')).toBe(KafkaCode.INVALID_TXN_STATE)
    })

    test('another epoch is refused with code 47, another producer id and an unknown id with 49', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer()
      await producer.write(topic, ['a'])
      const { identity } = producer
      expect(await end({ ...identity, producerEpoch: identity.producerEpoch + 1 }, 'commit')).toBe(
        KafkaCode.INVALID_PRODUCER_EPOCH,
      )
      expect(await end({ ...identity, producerId: identity.producerId + 1_000_000n }, 'commit')).toBe(
        KafkaCode.INVALID_PRODUCER_ID_MAPPING,
      )
      expect(await end({ ...identity, transactionalId: scene().name('id') }, 'commit')).toBe(
        KafkaCode.INVALID_PRODUCER_ID_MAPPING,
      )
      expect(await end(identity, 'commit')).toBe(0)
    })

    test('the next transaction can begin right after the end of the last one', async () => {
      const topic = await scene().topic(4)
      const producer = await scene().producer()
      const expected: string[] = []
      for (let round = 0; round < 15; round++) {
        for (let partition = 0; partition < 4; partition++)
          await producer.write(topic, [String(round)], partition)
        await producer.commit()
        expected.push(String(round))
      }
      for (let partition = 0; partition < 4; partition++) {
        await scene().settled(topic, partition)
        expect((await scene().read(topic, 'read_committed', 0n, partition)).values).toEqual(expected)
      }
    })

    test('a late commit in the same epoch commits the next open transaction', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer()
      await producer.write(topic, ['first'])
      await producer.commit()
      await producer.write(topic, ['second'])
      const other = await scene().another()
      await other.endTxn(producer.identity, 'commit')
      await scene().settled(topic)
      expect((await scene().read(topic, 'read_committed')).values).toEqual(['first', 'second'])
      await other.close()
    })
  })

  describe('a transaction that times out', () => {
    test('is aborted one epoch up, and its commit is refused with code 47', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer({ timeoutMs: 1_000 })
      await producer.write(topic, ['lost'])
      await scene().settled(topic)
      expect(await end(producer.identity, 'commit')).toBe(KafkaCode.INVALID_PRODUCER_EPOCH)
      const seen = await scene().read(topic, 'read_committed')
      expect(seen.values).toEqual([])
      expect(seen.markers.map(({ type, producerEpoch }) => [type, producerEpoch])).toEqual([
        ['ABORT', producer.identity.producerEpoch + 1],
      ])
      const produced = await producer.send({ topic, partition: 0 }, [{ value: 'late' }], 1)
      expect(FENCED).toContain(produced.errorCode)
    }, 60_000)

    test('leaves its id to the former holder: a compare-and-set goes on in the epoch of the ABORT marker', async () => {
      const topic = await scene().topic()
      const producer = await scene().producer({ timeoutMs: 1_000 })
      await producer.write(topic, ['lost'])
      await scene().settled(topic)
      const { identity } = producer
      const next = await init(identity.transactionalId, identity)
      expect(next.producerEpoch).toBe(identity.producerEpoch + 1)
      expect(await init(identity.transactionalId, identity)).toEqual(next)
    }, 60_000)

    test('does not touch a transaction of the same age with a longer time-out', async () => {
      const topic = await scene().topic(2)
      const [short, long] = [
        await scene().producer({ timeoutMs: 1_000 }),
        await scene().producer({ timeoutMs: 600_000 }),
      ]
      await short.write(topic, ['short'], 0)
      await long.write(topic, ['long'], 1)
      await scene().settled(topic, 0)
      await long.commit()
      await scene().settled(topic, 1)
      expect((await scene().read(topic, 'read_committed', 0n, 1)).values).toEqual(['long'])
    }, 60_000)
  })

  describe('what can be listed', () => {
    test('an open transaction is listed and described, with its partitions', async () => {
      const { cluster } = scene()
      const topic = await scene().topic(2)
      const producer = await scene().producer({ timeoutMs: 60_000 })
      await producer.write(topic, ['a'], 1)
      const { transactionalId, producerId, producerEpoch } = producer.identity
      expect(await cluster.listTransactions()).toContainEqual({
        transactionalId,
        producerId,
        state: 'Ongoing',
      })
      const unknown = scene().name('id')
      const [described, missing] = await cluster.describeTransactions([transactionalId, unknown])
      expect([described!.errorCode, described!.state, described!.timeoutMs]).toEqual([0, 'Ongoing', 60_000])
      expect([described!.producerId, described!.producerEpoch]).toEqual([producerId, producerEpoch])
      expect(described!.startTimeMs).toBeGreaterThan(0n)
      expect(described!.partitions).toEqual([{ topic, partition: 1 }])
      expect([missing!.transactionalId, missing!.errorCode]).toEqual([
        unknown,
        KafkaCode.TRANSACTIONAL_ID_NOT_FOUND,
      ])
      await producer.commit()
      await scene().until('the transaction is complete', async () => {
        const [after] = await cluster.describeTransactions([transactionalId])
        return after!.state === 'CompleteCommit' && after!.partitions.length === 0
      })
    })

    test('the producers of a partition are described, with the first offset of an open transaction', async () => {
      const { cluster } = scene()
      const topic = await scene().topic()
      await scene().store(topic, ['before'])
      const producer = await scene().producer()
      await producer.write(topic, ['a', 'b'])
      const { producerId, producerEpoch } = producer.identity
      const mine = async () =>
        (await cluster.describeProducers({ topic, partition: 0 })).find((p) => p.producerId === producerId)
      const open = await mine()
      expect([open!.producerEpoch, open!.lastSequence, open!.currentTxnStartOffset]).toEqual([
        producerEpoch,
        1,
        1n,
      ])
      await producer.commit()
      await scene().settled(topic)
      expect((await mine())!.currentTxnStartOffset).toBe(-1n)
    })
  })
}
