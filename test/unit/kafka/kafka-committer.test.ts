import { beforeEach, describe, expect, test } from '@jest/globals'
import type { CommitPermit } from '../../../src/core/connector.ts'
import { recordVector } from '../../../src/core/element.ts'
import { JobTopics } from '../../../src/kafka/job-topics.ts'
import type { ProducerIdentity } from '../../../src/kafka/kafka-cluster.ts'
import type { KafkaCommittable } from '../../../src/kafka/kafka-committable.ts'
import { KafkaCommitter } from '../../../src/kafka/kafka-committer.ts'
import { KafkaWriter } from '../../../src/kafka/kafka-writer.ts'
import { string } from '../../../src/serdes/serdes.ts'
import { SimulatedScene } from './simulated-scene.ts'

let scene: SimulatedScene
let committer: KafkaCommitter

beforeEach(async () => {
  scene = new SimulatedScene()
  await scene.topic('out')
  committer = new KafkaCommitter(scene.cluster, scene.world, noHealing)
})

const noHealing = () => {
  throw new Error('nothing is to be healed')
}
const permit = (checkpointId: number, confirmed = -1) => ({ checkpointId, confirmed }) as CommitPermit

function committable(identity: ProducerIdentity, n: number): KafkaCommittable {
  return {
    transactionalId: identity.transactionalId,
    producerId: String(identity.producerId),
    producerEpoch: identity.producerEpoch,
    attempt: 1,
    n,
    deadline: 0,
    ranges: [
      { topic: 'out', topicId: 'x', partition: 0, firstOffset: '0', lastOffset: '4', count: 5, digest: '' },
    ],
  }
}

async function prepared(id: string, n: number, ...values: string[]): Promise<KafkaCommittable> {
  return committable(await scene.transact('out', values, 'open', id), n)
}

describe('the committer', () => {
  test('commits with nothing but the committable, from another process', async () => {
    const first = await prepared('a', 1, 'one')
    const other = new KafkaCommitter(scene.kafka.client('another process'), scene.world, noHealing)
    await scene.run(other.commit(permit(1), [JSON.parse(JSON.stringify(first))]))
    await scene.time.advance(50)
    expect(await scene.values('out')).toEqual(['one'])
  })

  test('is idempotent: the same committables may come again after a crash', async () => {
    const first = await prepared('a', 1, 'one')
    for (let i = 0; i < 3; i++) await scene.run(committer.commit(permit(1), [first]))
    await scene.time.advance(50)
    expect(await scene.values('out')).toEqual(['one'])
  })

  test('an answer that is lost is asked for again', async () => {
    const first = await prepared('a', 1, 'one')
    scene.kafka.intercept(({ api, clientId, attempt }) =>
      api === 'EndTxn' && clientId === 'worker' && attempt < 4 ? 'drop-response' : 'pass',
    )
    await scene.run(committer.commit(permit(1), [first]))
    await scene.time.advance(50)
    expect(await scene.values('out')).toEqual(['one'])
  })

  test('a coordinator that is away for a minute and a half is waited for', async () => {
    const first = await prepared('a', 1, 'one')
    scene.kafka.moveCoordinators(90_000)
    await scene.run(committer.commit(permit(1), [first]))
    await scene.time.advance(50)
    expect(await scene.values('out')).toEqual(['one'])
  })

  test('what is confirmed is not asked about: its id may have gone on', async () => {
    const first = await prepared('a', 1, 'one')
    await scene.run(committer.commit(permit(1), [first]))
    await scene.time.advance(50)
    // The id is in its next transaction: a commit under the new epoch must not happen.
    await scene.transact('out', ['next'], 'open', 'a')
    await scene.run(committer.commit(permit(2, 1), [first]))
    expect(await scene.values('out')).toEqual(['one'])
  })

  test('a checkpoint without permit is not committed', async () => {
    const first = await prepared('a', 2, 'one')
    expect(await scene.failure(committer.commit(permit(1), [first]))).toMatchObject({
      code: 'MILLRACE_INTERNAL',
    })
    expect(await scene.values('out')).toEqual([])
  })

  test.each([
    ['fenced', 47],
    ['of another producer id', 49],
  ])(
    'a commit of a transaction that is %s fails the attempt: the next one reads in the log what became of it',
    async (what) => {
      let refused = await prepared('a', 1, 'one')
      if (what === 'fenced')
        await scene.run(
          scene.kafka.client('x').initProducerId({ transactionalId: 'a', transactionTimeoutMs: 1_000 }),
        )
      else refused = { ...refused, producerId: '424242' }
      const error = await scene.failure(committer.commit(permit(1), [refused]))
      expect(error).toMatchObject({ code: 'MILLRACE_TRANSACTION_FENCED', retriable: true })
      expect(error.message).toContain('out-0 offsets 0..4 (5 records)')
    },
  )

  test('commits come in order, and one that fails stops the line', async () => {
    const lost = { ...(await prepared('a', 1, 'one')), producerEpoch: 9 }
    const second = await prepared('b', 2, 'two')
    await scene.failure(committer.commit(permit(2), [lost, second]))
    await scene.time.advance(50)
    expect(scene.kafka.inside.transactions.describe('b').state).toBe('Ongoing')
  })

  test('trouble that may pass is not taken for a loss', async () => {
    const first = await prepared('a', 1, 'one')
    scene.kafka.isolate('worker')
    const error = await scene.failure(committer.commit(permit(1), [first]))
    expect(error).toMatchObject({ code: 'MILLRACE_KAFKA_UNREACHABLE', retriable: true })
    expect(scene.metrics.counter('lost_transactions').count).toBe(0)
    await committer.close()
  })
})

describe('after a take-over', () => {
  let topics: JobTopics
  beforeEach(async () => {
    topics = new JobTopics({
      cluster: scene.cluster,
      jobName: 'job',
      world: scene.world,
      replicationFactor: 1,
      assertLeader: async () => undefined,
    })
    await scene.run(topics.takeOver())
    committer = new KafkaCommitter(scene.cluster, scene.world, () => topics)
  })

  /** A transaction as a sink prepares it, with what is needed to find its records again. */
  const written = (...values: string[]): Promise<KafkaCommittable> => writtenTo('out', ...values)

  async function writtenTo(topic: string, ...values: string[]): Promise<KafkaCommittable> {
    const lease = await scene.run(
      scene.cluster.initProducerId({ transactionalId: 't.0.0', transactionTimeoutMs: 600_000 }),
    )
    const writer = new KafkaWriter<string>({
      sink: { topic, value: string() },
      cluster: scene.cluster,
      leases: [lease],
      acks: -1,
      transactionTimeoutMs: 600_000,
      assertAlive: () => undefined,
      context: scene.sinkContext(),
    })
    await scene.run(
      writer.write(
        recordVector(
          values,
          values.map(() => 1),
        ),
      ),
    )
    await scene.run(writer.flush())
    return writer.prepareCommit(1)[0]!
  }

  const nameOf = (one: KafkaCommittable): string =>
    `${one.transactionalId}:${one.producerId}:${one.producerEpoch}`

  const takeId = async () => {
    await scene.run(
      scene.kafka.client('x').initProducerId({ transactionalId: 't.0.0', transactionTimeoutMs: 1_000 }),
    )
    await scene.time.advance(100)
  }

  test('what is still open is committed', async () => {
    const first = await written('a', 'b')
    await scene.run(committer.recover(permit(1), [first]))
    await scene.time.advance(50)
    expect(await scene.values('out')).toEqual(['a', 'b'])
  })

  test('what was committed before its id went on is done: the log says so', async () => {
    const first = await written('a', 'b')
    await scene.run(committer.commit(permit(1), [first]))
    await scene.time.advance(50)
    await takeId()
    await scene.run(committer.recover(permit(1), [first]))
    expect(await scene.values('out')).toEqual(['a', 'b'])
    expect(scene.metrics.counters.get('healed_transactions')).toBeUndefined()
  })

  test('what the broker gave up is written again, once', async () => {
    const first = await written('a', 'b')
    await takeId()
    for (let i = 0; i < 2; i++) await scene.run(committer.recover(permit(1), [first]))
    await scene.time.advance(50)
    expect(await scene.values('out')).toEqual(['a', 'b'])
  })

  test('is written again also to a topic where brokers stamp the records with their own time', async () => {
    await scene.topic('stamped', 1, { 'message.timestamp.type': 'LogAppendTime' })
    const first = await writtenTo('stamped', 'a', 'b')
    await takeId()
    for (let i = 0; i < 2; i++) await scene.run(committer.recover(permit(1), [first]))
    await scene.time.advance(50)
    expect(await scene.values('stamped')).toEqual(['a', 'b'])
  })

  test('what cannot be found any more is lost: named, counted, with the way out', async () => {
    const first = await written('a', 'b')
    await takeId()
    await scene.run(
      scene.cluster.deleteRecords([{ topic: 'out', partition: 0, beforeOffset: scene.ends('out').high }]),
    )
    const error = await scene.failure(committer.recover(permit(1), [first]))
    expect(error).toMatchObject({ code: 'MILLRACE_TRANSACTION_LOST', retriable: false })
    expect(error.remedy).toContain(
      `--accept-lost-transaction t.0.0:${first.producerId}:${first.producerEpoch}`,
    )
    expect(scene.metrics.counter('lost_transactions').count).toBe(1)
  })

  test('all that is lost is said at once, and what is not is healed before that', async () => {
    const first = await written('a', 'b')
    await takeId()
    const second = await written('c')
    await takeId()
    const third = await written('d')
    await takeId()
    const unlike = (one: KafkaCommittable): KafkaCommittable => ({
      ...one,
      ranges: one.ranges.map((range) => ({ ...range, count: range.count + 1 })),
    })
    const error = await scene.failure(committer.recover(permit(1), [unlike(first), second, unlike(third)]))
    expect(error.remedy).toContain(
      `--accept-lost-transaction ${nameOf(first)} --accept-lost-transaction ${nameOf(third)} `,
    )
    expect(error.message).toContain('the log holds 2 of 3 records')
    expect(error.message).toContain('the log holds 1 of 2 records')
    await scene.time.advance(50)
    expect(await scene.values('out')).toEqual(['c'])
  })

  test('what an earlier healer finished stays healed, though the log has lost the records since', async () => {
    const first = await written('a', 'b')
    await takeId()
    const { high } = scene.ends('out')
    await scene.run(committer.recover(permit(1), [first]))
    await scene.time.advance(50)
    await scene.run(
      // The abort marker stays: it is what tells the healer's successor.
      scene.cluster.deleteRecords([{ topic: 'out', partition: 0, beforeOffset: high - 1n }]),
    )
    await scene.run(topics.takeOver())
    await scene.run(committer.recover(permit(1), [first]))
    await scene.time.advance(50)
    expect(await scene.values('out')).toEqual(['a', 'b'])
  })
})
