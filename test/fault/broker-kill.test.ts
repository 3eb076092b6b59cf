/**
 * kill -9 of brokers under running jobs: the only one, again and again, and of three the one that leads what a job needs most. Each comes
 * back on its own data. FAULT_SEED=n replays the moments of a run.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, jest, test } from '@jest/globals'
import { type RunningBroker, type RunningKafka, startKafka } from '../../scripts/lib/kafka-broker.ts'
import { coordinatorId, jobTopic, workerGroupId } from '../../src/kafka/transactional-id.ts'
import { logReliability } from '../reliability-log.ts'
import { type OrderOutcome, OrderRun, patiently, verdict } from './order-run.ts'
import { SeededRandom } from './seeded-random.ts'

jest.setTimeout(900_000)

const SEED = Number(process.env['FAULT_SEED'] ?? Date.now() % 1_000_000)
/** Kills of the only broker. */
const KILLS = 3
const RECOVERY_MS = 120_000
/** Partitions of the brokers' own topics (scripts/lib/kafka-broker.ts). */
const COORDINATOR_PARTITIONS = 4

/** What the broker that is killed leads, and the partition by which it is found. */
const ROLES = {
  'the leader of an output partition': ({ etlTopic }: OrderRun) => ({ topic: etlTopic, partition: 0 }),
  "the coordinator of the job's transactions": ({ scene }: OrderRun) => ({
    topic: '__transaction_state',
    partition: coordinatorPartition(coordinatorId(scene.job)),
  }),
  'the leader of the checkpoint topic': ({ scene }: OrderRun) => ({
    topic: jobTopic(scene.job, 'checkpoints'),
    partition: 0,
  }),
  'the coordinator of the worker group': ({ scene }: OrderRun) => ({
    topic: '__consumer_offsets',
    partition: coordinatorPartition(workerGroupId(scene.job)),
  }),
} as const

/** Where Kafka keeps what belongs to a transactional id or a group: Java's hash of the text, without its sign. */
function coordinatorPartition(id: string): number {
  let hash = 0
  for (let i = 0; i < id.length; i++) hash = (Math.imul(hash, 31) + id.charCodeAt(i)) | 0
  return (hash & 0x7fffffff) % COORDINATOR_PARTITIONS
}

async function leaderOf(
  kafka: RunningKafka,
  run: OrderRun,
  at: { readonly topic: string; readonly partition: number },
): Promise<RunningBroker> {
  const [described] = await run.scene.cluster.describeTopics([at.topic])
  const leader = described?.partitions[at.partition]?.leader
  const broker = kafka.brokers.find(({ nodeId }) => nodeId === leader)
  if (broker === undefined) throw new Error(`${at.topic}-${at.partition} is led by ${leader}`)
  return broker
}

/** Resolves when all replicas of the job's and the brokers' own topics are in sync, so that the next broker may end. */
async function inSync(run: OrderRun): Promise<void> {
  const { scene, etlTopic, countTopic } = run
  const topics = [
    etlTopic,
    countTopic,
    jobTopic(scene.job, 'checkpoints'),
    '__transaction_state',
    '__consumer_offsets',
  ]
  await scene.until('all replicas are in sync', RECOVERY_MS, () =>
    patiently(async () => {
      const described = await scene.cluster.describeTopics(topics)
      return (
        described.length === topics.length &&
        described.every(({ partitions }) =>
          partitions.every(({ isr, replicas }) => isr.length === replicas.length),
        )
      )
    }),
  )
}

/** Starts the brokers and one job on them, plays, and sees what came out. */
async function play(
  brokers: 1 | 3,
  seed: number,
  harm: (kafka: RunningKafka, run: OrderRun, random: SeededRandom) => Promise<void>,
): Promise<OrderOutcome> {
  const kafka = await startKafka({
    brokers,
    heapMb: 384,
    quickStart: true,
    // A broker that comes back waits until its former self is given up.
    properties: { 'broker.session.timeout.ms': '2500' },
  })
  try {
    const random = new SeededRandom(seed)
    const run = await OrderRun.open({ random, brokers: kafka.bootstrap.split(',') })
    try {
      const job = run.start()
      await job.said('FIRST', 60_000)
      await run.progress(30_000)
      await harm(kafka, run, random)
      return await run.finish([job])
    } finally {
      await run.close()
    }
  } finally {
    await kafka.stop()
  }
}

/** Kills the broker and brings it back, again and again. */
async function killTheOnlyOne(kafka: RunningKafka, run: OrderRun, random: SeededRandom): Promise<void> {
  const broker = kafka.brokers[0] as RunningBroker
  for (let kill = 0; kill < KILLS; kill++) {
    await sleep(random.between(0, 2_000))
    await broker.kill('SIGKILL')
    await sleep(random.between(0, 2_000))
    await broker.restart()
    await run.progress(RECOVERY_MS)
  }
}

/** Kills the broker of each role in turn; the other two carry on until it comes back. */
async function killLeaders(kafka: RunningKafka, run: OrderRun, random: SeededRandom): Promise<void> {
  for (const partitionOf of Object.values(ROLES)) {
    await inSync(run)
    const broker = await leaderOf(kafka, run, partitionOf(run))
    await sleep(random.between(0, 1_000))
    await broker.kill('SIGKILL')
    await run.progress(RECOVERY_MS)
    await broker.restart()
  }
}

describe(`a job whose brokers are killed with -9 (FAULT_SEED=${SEED})`, () => {
  const outcomes = new Map<string, OrderOutcome | Error>()

  beforeAll(async () => {
    const scenes = [
      { name: 'the only broker', brokers: 1, harm: killTheOnlyOne },
      { name: 'three brokers', brokers: 3, harm: killLeaders },
    ] as const
    await Promise.all(
      scenes.map(async ({ name, brokers, harm }) => {
        outcomes.set(name, await play(brokers, SEED + brokers, harm).catch((error: Error) => error))
      }),
    )
  })

  function outcomeOf(name: string): OrderOutcome {
    const outcome = outcomes.get(name)
    if (outcome === undefined || !('etl' in outcome)) throw outcome
    return outcome
  }

  function log(where: string, count: number, outcome: OrderOutcome): void {
    const fault = 'kill -9 of a broker, restart on its data'
    logReliability({
      suite: 'broker-kill',
      fault,
      where,
      count,
      records: outcome.records,
      outcome: verdict(outcome),
    })
  }

  test(`is exact when the only broker is killed ${KILLS} times and comes back`, () => {
    const outcome = outcomeOf('the only broker')
    log('the only broker', KILLS, outcome)
    expect(outcome).toMatchObject({ etl: [], totals: [], open: [] })
  })

  test('is exact when of three brokers the leaders and coordinators that it needs are killed in turn', () => {
    const outcome = outcomeOf('three brokers')
    for (const role of Object.keys(ROLES)) log(`of three brokers, ${role}`, 1, outcome)
    expect(outcome).toMatchObject({ etl: [], totals: [], open: [] })
  })
})
