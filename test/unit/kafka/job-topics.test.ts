import { beforeEach, describe, expect, test } from '@jest/globals'
import type { AttemptRecord } from '../../../src/checkpoint/checkpoint-store.ts'
import type { CompletedCheckpoint } from '../../../src/checkpoint/completed-checkpoint.ts'
import { JobTopics } from '../../../src/kafka/job-topics.ts'
import type { KafkaCluster } from '../../../src/kafka/kafka-cluster.ts'
import { readLog } from '../../../src/kafka/topic-log.ts'
import type { SimulatedClient } from '../../../src/testing/simulated-client.ts'
import { SimulatedScene } from './simulated-scene.ts'

const TOPIC = 'millrace.job.checkpoints'

let scene: SimulatedScene

beforeEach(async () => {
  scene = new SimulatedScene({ brokers: 3 })
  await scene.topic('in', 2)
})

function topics(
  cluster: KafkaCluster = scene.cluster,
  change: { replicationFactor?: number; assertLeader?: () => Promise<void> } = {},
): JobTopics {
  return new JobTopics({
    cluster,
    jobName: 'job',
    world: scene.world,
    replicationFactor: -1,
    assertLeader: async () => undefined,
    ...change,
  })
}

const attempt = (n: number, run = 'r1'): AttemptRecord => ({
  run,
  attempt: n,
  incarnation: 'i',
  startedAt: 5,
  fingerprint: 'f',
  sinks: [{ uid: 's', prefix: 'p', parallelism: 2, slots: 3 }],
})

function checkpoint(n: number, change: Partial<CompletedCheckpoint> = {}): CompletedCheckpoint {
  return {
    format: 1,
    run: 'r1',
    attempt: 1,
    n,
    kind: 'checkpoint',
    triggeredAt: 1,
    completedAt: 2,
    operators: [],
    states: [],
    confirmed: -1,
    stateBytes: 0,
    ...change,
  }
}

const offset = (groupId: string, partition: number, at: bigint) => ({
  groupId,
  topic: 'in',
  partition,
  offset: at,
})
const groupOffsets = (groupId: string) =>
  scene
    .run(
      scene.kafka.client('lag tool').fetchGroupOffsets(groupId, [
        { topic: 'in', partition: 0 },
        { topic: 'in', partition: 1 },
      ]),
    )
    .then((offsets) => offsets.map((o) => o.offset))

/** What a new leader reads. */
async function facts(client: SimulatedClient = scene.kafka.client('reader')) {
  return scene.run(topics(client).takeOver())
}

/** A leader that runs an attempt. */
async function leading(cluster: KafkaCluster = scene.cluster): Promise<JobTopics> {
  const store = topics(cluster)
  await scene.run(store.takeOver())
  await scene.run(store.startAttempt(attempt(1)))
  return store
}

describe('a checkpoint that no record can hold', () => {
  test('is found whole by the next leader, and forgotten whole', async () => {
    const store = await leading()
    const bytes = 'A'.repeat(4_000_000)
    const inline = { kind: 'inline' as const, bytes, size: 3_000_000 }
    const big = checkpoint(1, { states: [{ uid: 'a', subtask: 0, operator: inline }] })
    expect(await scene.run(store.commitPoint(big, []))).toEqual({ type: 'written' })
    expect((await facts()).completed).toEqual([big])
    const next = topics(scene.kafka.client('next'))
    await scene.run(next.takeOver())
    await scene.run(next.commitPoint(checkpoint(2), [], [1]))
    const left = new Map<string, Buffer | null>()
    await scene.run(
      readLog(scene.kafka.client('reader'), TOPIC, scene.world, (key, value) => {
        if (value === null) left.delete(key)
        else left.set(key, value)
      }),
    )
    expect([...left.keys()].sort()).toEqual(['attempt', 'completed/r1/2'])
  })
})

describe('the checkpoint topic', () => {
  test('is made with one partition, compacted, on three brokers', async () => {
    await scene.run(topics().takeOver())
    const topic = scene.kafka.inside.topics.get(TOPIC)!
    expect(topic.partitions).toHaveLength(1)
    expect(topic.replicationFactor).toBe(3)
    expect(topic.configs).toMatchObject({ 'cleanup.policy': 'compact', 'min.insync.replicas': '2' })
    expect(scene.warnings()).toEqual([])
  })

  test.each([
    ['two partitions', { partitions: 2, configs: { 'cleanup.policy': 'compact' } }, /has 2 partitions/],
    [
      'cleanup.policy delete',
      { partitions: 1, configs: { 'cleanup.policy': 'delete' } },
      /must be compacted/,
    ],
    [
      'a minimum of replicas that it does not have',
      { partitions: 1, configs: { 'cleanup.policy': 'compact', 'min.insync.replicas': '2' } },
      /min\.insync\.replicas 2 but 1 replicas/,
    ],
  ])('one that is there with %s is refused', async (_what, { partitions, configs }, message) => {
    await scene.topic(TOPIC, partitions, configs)
    expect(await scene.failure(topics().takeOver())).toMatchObject({
      code: 'MILLRACE_INVALID_OPTION',
      message: expect.stringMatching(message),
    })
  })

  test('one with fewer replicas than possible is warned of, unless that was asked for', async () => {
    await scene.topic(TOPIC, 1, { 'cleanup.policy': 'compact' })
    await scene.run(topics(scene.cluster, { replicationFactor: 1 }).takeOver())
    expect(scene.warnings()).toEqual([])
    await scene.run(topics().takeOver())
    expect(scene.warnings().join()).toContain('1 of 3 replicas')
  })
})

describe('facts', () => {
  test('of a job that never ran are empty', async () => {
    expect(await facts()).toEqual({
      attempt: undefined,
      job: undefined,
      completed: [],
      ofEarlierRuns: [],
      confirmed: -1,
      acceptedLost: [],
    })
  })

  test('are what was written: attempt, completed checkpoints in order, what is confirmed, the end, accepted losses', async () => {
    const store = await leading()
    for (const n of [0, 2, 10, 9]) await scene.run(store.commitPoint(checkpoint(n), []))
    await scene.run(store.forget('r1', 2))
    await scene.run(store.acceptLost(['t:1:2', 't:1:3']))
    await scene.run(store.writeConfirmed('r1', 9))
    await scene.run(store.writeEnd({ run: 'r1', status: 'FAILED', at: 7, reason: 'x' }))
    expect(await facts()).toEqual({
      attempt: attempt(1),
      job: { run: 'r1', status: 'FAILED', at: 7, reason: 'x' },
      completed: [checkpoint(0), checkpoint(9), checkpoint(10)],
      ofEarlierRuns: [],
      confirmed: 9,
      acceptedLost: ['t:1:2', 't:1:3'],
    })
  })

  test('a confirmation that rides in a commit point counts', async () => {
    const store = await leading()
    await scene.run(store.writeConfirmed('r1', 3))
    await scene.run(store.commitPoint(checkpoint(6, { confirmed: 5 }), []))
    expect(await facts()).toMatchObject({ confirmed: 5 })
  })

  test('the end of the run comes with the confirmation of its last checkpoint, or not at all', async () => {
    const store = await leading()
    await scene.run(store.writeConfirmed('r1', 3, { run: 'r1', status: 'FINISHED', at: 1 }))
    expect(await facts()).toMatchObject({ confirmed: 3, job: { status: 'FINISHED' } })
  })

  test('a new attempt makes the end of the old one history', async () => {
    const store = await leading()
    await scene.run(store.writeEnd({ run: 'r1', status: 'SUSPENDED', at: 7 }))
    await scene.run(store.startAttempt(attempt(2)))
    expect(await facts()).toMatchObject({ attempt: { attempt: 2 }, job: undefined })
  })

  test('of an earlier run do not count for the present one, but are known while they are recorded', async () => {
    const store = await leading()
    await scene.run(store.commitPoint(checkpoint(8, { confirmed: 7 }), []))
    await scene.run(store.writeConfirmed('r1', 8))
    await scene.run(store.startAttempt(attempt(2, 'r2')))
    expect(await facts()).toMatchObject({
      completed: [],
      ofEarlierRuns: [{ run: 'r1', n: 8 }],
      confirmed: -1,
      attempt: { run: 'r2' },
    })
  })

  test('snapshots of the latest checkpoint can be read after a take-over', async () => {
    const store = await leading()
    const bytes = new Uint8Array(700_000).fill(7)
    const handle = await scene.run(store.blobs.put('r1/1/1/x', bytes))
    const successor = topics(scene.kafka.client('successor'))
    await scene.run(successor.takeOver())
    expect(Buffer.from(await successor.blobs.get(handle)).equals(Buffer.from(bytes))).toBe(true)
    await scene.run(successor.close())
    await expect(successor.blobs.get(handle)).rejects.toMatchObject({ code: 'MILLRACE_STATE_LOST' })
  })
})

describe('the commit point', () => {
  test('written: the checkpoint and the offsets of every group come with one transaction', async () => {
    const store = await leading()
    const outcome = await scene.run(
      store.commitPoint(checkpoint(1), [offset('g', 0, 11n), offset('g', 1, 22n), offset('h', 0, 33n)]),
    )
    expect(outcome).toEqual({ type: 'written' })
    expect(await groupOffsets('g')).toEqual([11n, 22n])
    expect(await groupOffsets('h')).toEqual([33n, -1n])
    expect(await facts()).toMatchObject({ completed: [{ n: 1 }] })
  })

  test('refused: a commit of offsets that the broker refuses is named, and neither checkpoint nor offsets happened', async () => {
    const store = await leading()
    const outcome = await scene.run(
      store.commitPoint(checkpoint(1), [
        offset('g', 0, 11n),
        { groupId: 'g', topic: 'gone', partition: 0, offset: 1n },
      ]),
    )
    expect(outcome).toMatchObject({ type: 'refused', reason: expect.stringContaining('TxnOffsetCommit') })
    expect(await groupOffsets('g')).toEqual([-1n, -1n])
    expect(await facts()).toMatchObject({ completed: [] })
  })

  test('refused: no right to write to the group', async () => {
    const store = await leading()
    scene.kafka.intercept(({ api }) => (api === 'AddOffsetsToTxn' ? { errorCode: 30 } : 'pass'))
    expect(await scene.run(store.commitPoint(checkpoint(1), [offset('g', 0, 11n)]))).toMatchObject({
      type: 'refused',
      cause: { code: 'MILLRACE_KAFKA_UNAUTHORIZED', retriable: false },
    })
    scene.kafka.intercept(undefined)
    expect(await scene.run(store.commitPoint(checkpoint(2), []))).toEqual({ type: 'written' })
    expect((await facts()).completed.map(({ n }) => n)).toEqual([2])
  })

  test('no right to write to the checkpoint topic is said as it is: another leader would be refused as well', async () => {
    const store = topics()
    await scene.run(store.takeOver())
    scene.kafka.intercept(({ api }) => (api === 'AddPartitionsToTxn' ? { errorCode: 29 } : 'pass'))
    expect(await scene.failure(store.startAttempt(attempt(1)))).toMatchObject({
      code: 'MILLRACE_KAFKA_UNAUTHORIZED',
    })
  })

  test('what was asked for before a take-over of the same worker is not written after it', async () => {
    const store = await leading()
    let held = 0
    scene.kafka.intercept(({ api }) => (api === 'AddPartitionsToTxn' && held++ < 3 ? 'drop-request' : 'pass'))
    store.prepareCommitPoint(['g'])
    const proof = store.proveLeadership().then(
      () => 'written',
      (error: unknown) => error,
    )
    await scene.run(store.takeOver())
    await scene.run(store.startAttempt(attempt(2)))
    expect(await scene.run(proof)).toMatchObject({
      code: 'MILLRACE_ATTEMPT_LOST',
      message: expect.stringContaining('has taken the job over again since'),
    })
    expect(await scene.run(store.commitPoint(checkpoint(1), []))).toEqual({ type: 'written' })
  })

  test('an answer to EndTxn that is lost is asked for again and is not taken for an abort', async () => {
    const store = await leading()
    let lost = 0
    scene.kafka.intercept(({ api, clientId }) =>
      api === 'EndTxn' && clientId === 'worker' && lost++ < 3 ? 'drop-response' : 'pass',
    )
    expect(await scene.run(store.commitPoint(checkpoint(1), [offset('g', 0, 11n)]))).toEqual({
      type: 'written',
    })
    expect(lost).toBeGreaterThan(3)
    expect(await facts()).toMatchObject({ completed: [{ n: 1 }] })
  })

  test('unknown: no answer at all; the next leader reads the truth, whichever it is', async () => {
    for (const lose of ['drop-request', 'drop-response'] as const) {
      const n = lose === 'drop-request' ? 1 : 2
      const client = scene.kafka.client(lose)
      const store = await leading(client)
      scene.kafka.intercept(({ api, clientId }) => (api === 'EndTxn' && clientId === lose ? lose : 'pass'))
      expect(await scene.run(store.commitPoint(checkpoint(n), []))).toMatchObject({ type: 'unknown' })
      scene.kafka.intercept(undefined)
      expect((await facts()).completed.map((c) => c.n)).toEqual(lose === 'drop-request' ? [] : [2])
    }
  })

  test('after an unknown outcome nothing is written any more: it could commit what is still open', async () => {
    const store = await leading()
    scene.kafka.intercept(({ api, clientId }) =>
      api === 'EndTxn' && clientId === 'worker' ? 'drop-request' : 'pass',
    )
    expect(await scene.run(store.commitPoint(checkpoint(1), []))).toMatchObject({ type: 'unknown' })
    scene.kafka.intercept(undefined)
    expect(await scene.failure(store.forget('r1', 0))).toMatchObject({ code: 'MILLRACE_ATTEMPT_LOST' })
    expect(await scene.run(store.commitPoint(checkpoint(2), []))).toMatchObject({ type: 'unknown' })
    expect(await facts()).toMatchObject({ completed: [] })
  })

  test('a leader that was fenced does not know, and its checkpoint is not there', async () => {
    const old = await leading()
    const young = topics(scene.kafka.client('young'))
    await scene.run(young.takeOver())
    await scene.run(young.startAttempt(attempt(2)))
    expect(await scene.run(old.commitPoint(checkpoint(5), [offset('g', 0, 1n)]))).toMatchObject({
      type: 'unknown',
    })
    expect(await scene.failure(old.writeConfirmed('r1', 5))).toMatchObject({ code: 'MILLRACE_ATTEMPT_LOST' })
    expect(await groupOffsets('g')).toEqual([-1n, -1n])
    expect(await scene.run(young.commitPoint(checkpoint(6, { attempt: 2 }), []))).toEqual({ type: 'written' })
    expect((await facts()).completed.map(({ n }) => n)).toEqual([6])
  })

  test('a leader that was fenced between its entry and its end does not know', async () => {
    const old = await leading()
    let young: Promise<unknown> | undefined
    scene.kafka.intercept(({ api, clientId }) => {
      if (api !== 'EndTxn' || clientId !== 'worker') return 'pass'
      young ??= topics(scene.kafka.client('young')).takeOver()
      return { delayMs: 2_000 }
    })
    expect(await scene.run(old.commitPoint(checkpoint(5), []))).toMatchObject({ type: 'unknown' })
    expect(await scene.run(young!)).toMatchObject({ completed: [] })
  })

  test('a late duplicate of its end cannot commit the next one', async () => {
    const store = await leading()
    scene.kafka.intercept(({ api, clientId }) =>
      api === 'EndTxn' && clientId === 'worker' ? { duplicateAfterMs: 300 } : 'pass',
    )
    await scene.run(store.commitPoint(checkpoint(1), []))
    // The next transaction is open when the duplicate arrives, and its owner dies.
    scene.kafka.intercept(({ api, clientId }) =>
      api === 'EndTxn' && clientId === 'worker' ? 'drop-request' : 'pass',
    )
    void store.commitPoint(checkpoint(2), [])
    await scene.time.advance(1_000)
    scene.cluster.kill()
    expect((await facts()).completed.map(({ n }) => n)).toEqual([1])
  })

  test('prepared ahead: it is written into the open transaction, with groups that were not expected', async () => {
    const store = await leading()
    store.prepareCommitPoint(['g'])
    store.prepareCommitPoint(['g'])
    await scene.time.advance(500)
    expect(scene.kafka.inside.transactions.describe('millrace.job.coordinator').state).toBe('Ongoing')
    expect(
      await scene.run(store.commitPoint(checkpoint(1), [offset('g', 0, 1n), offset('h', 0, 2n)], [0])),
    ).toEqual({ type: 'written' })
    expect(await groupOffsets('h')).toEqual([2n, -1n])
    expect(await facts()).toMatchObject({ completed: [{ n: 1 }] })
  })

  test('prepared ahead and not needed: it is ended before the broker does it, and the next one is written', async () => {
    const store = await leading()
    store.prepareCommitPoint([])
    await scene.time.advance(25_000)
    expect(scene.ends(TOPIC).stable).toBe(scene.ends(TOPIC).high)
    expect(scene.kafka.inside.transactions.describe('millrace.job.coordinator').state).not.toBe('Ongoing')
    expect(await scene.run(store.commitPoint(checkpoint(1), []))).toEqual({ type: 'written' })
  })

  test('prepared in vain: a refusal is told by the commit point, and a later one can be written', async () => {
    const store = await leading()
    scene.kafka.intercept(({ api }) => (api === 'AddPartitionsToTxn' ? { errorCode: 29 } : 'pass'))
    store.prepareCommitPoint([])
    await scene.time.advance(30_000)
    expect(await scene.run(store.commitPoint(checkpoint(1), []))).toMatchObject({ type: 'refused' })
    scene.kafka.intercept(undefined)
    await scene.time.advance(30_000)
    expect(await scene.run(store.commitPoint(checkpoint(2), []))).toEqual({ type: 'written' })
  })

  test('close leaves no transaction open', async () => {
    const store = await leading()
    store.prepareCommitPoint(['g'])
    await scene.time.advance(100)
    await scene.run(store.close())
    await scene.time.advance(100)
    expect(scene.kafka.inside.transactions.describe('millrace.job.coordinator').state).not.toBe('Ongoing')
    expect(await scene.run(store.commitPoint(checkpoint(1), []))).toMatchObject({ type: 'unknown' })
  })

  test('forgets older checkpoints with the same transaction', async () => {
    const store = await leading()
    await scene.run(store.commitPoint(checkpoint(1), []))
    await scene.run(store.commitPoint(checkpoint(2), [], [1]))
    expect((await facts()).completed.map(({ n }) => n)).toEqual([2])
  })

  test('writes are one after another, in the order in which they were asked for', async () => {
    const store = await leading()
    const outcomes = await scene.run(
      Promise.all([1, 2, 3, 4].map((n) => store.commitPoint(checkpoint(n, { confirmed: n - 1 }), []))),
    )
    expect(outcomes.map(({ type }) => type)).toEqual(['written', 'written', 'written', 'written'])
    expect((await facts()).completed.map(({ n }) => n)).toEqual([1, 2, 3, 4])
  })
})

describe('taking over', () => {
  test('fences first, then asks whether we lead, then reads', async () => {
    const old = await leading()
    const order: string[] = []
    scene.kafka.intercept(({ api, clientId }) => {
      if (clientId === 'young' && (api === 'InitProducerId' || api === 'Fetch') && order.at(-1) !== api)
        order.push(api)
      return 'pass'
    })
    const young = topics(scene.kafka.client('young'), {
      assertLeader: async () => {
        order.push('assert')
      },
    })
    await scene.run(young.takeOver())
    expect(order).toEqual(['InitProducerId', 'assert', 'Fetch'])
    expect(await scene.run(old.commitPoint(checkpoint(1), []))).toMatchObject({ type: 'unknown' })
  })

  test('stops when this worker does not lead', async () => {
    const refused = topics(scene.cluster, {
      assertLeader: async () => {
        throw new Error('another one leads')
      },
    })
    expect(await scene.failure(refused.takeOver())).toMatchObject({ message: 'another one leads' })
  })

  test('sees a commit point that its predecessor was finishing', async () => {
    const old = await leading()
    const writing = old.commitPoint(checkpoint(1), [offset('g', 0, 9n)])
    await scene.time.advance(30)
    const seen = await facts()
    const outcome = await scene.run(writing)
    // Whatever the old leader was told, what the new one read is final.
    if (outcome.type === 'written') expect(seen.completed.map(({ n }) => n)).toEqual([1])
    expect((await facts()).completed).toEqual(seen.completed)
  })

  test('is still ours while a fenced transaction can be written, and not after another one came', async () => {
    const store = await leading()
    await scene.run(store.proveLeadership())
    await scene.run(topics(scene.kafka.client('young')).takeOver())
    expect(await scene.failure(store.proveLeadership())).toMatchObject({ code: 'MILLRACE_ATTEMPT_LOST' })
  })

  test('before it nothing can be written', async () => {
    expect(await scene.run(topics().commitPoint(checkpoint(1), []))).toEqual({
      type: 'unknown',
      reason: 'this worker did not take the job over',
    })
  })

  test('twice by one worker goes on writing', async () => {
    const store = await leading()
    await scene.run(store.takeOver())
    expect(await scene.run(store.commitPoint(checkpoint(1), []))).toEqual({ type: 'written' })
  })
})
