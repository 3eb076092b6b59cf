import { beforeEach, describe, expect, test } from '@jest/globals'
import { StreamExecutionEnvironment, WatermarkStrategy } from 'millrace'
import type { Diagnosis } from '../../../src/core/diagnosis.ts'
import type { JobGraph } from '../../../src/core/graph/job-graph.ts'
import { buildJobGraph } from '../../../src/core/graph/job-graph-builder.ts'
import type { JobSettings } from '../../../src/core/job-settings.ts'
import { bindConnectors } from '../../../src/kafka/connector-binding.ts'
import { diagnoseKafka } from '../../../src/kafka/job-diagnosis.ts'
import type { KafkaCluster, ResourceOperation } from '../../../src/kafka/kafka-cluster.ts'
import { kafkaSink } from '../../../src/kafka/kafka-sink.ts'
import { type KafkaSourceOptions, kafkaSource } from '../../../src/kafka/kafka-source.ts'
import { brokerError } from '../../../src/kafka/kafkajs/error-codes.ts'
import { workerGroupId } from '../../../src/kafka/transactional-id.ts'
import { string } from '../../../src/serdes/serdes.ts'
import { RecordingExecutor } from '../api/recording-executor.ts'
import { overriding, SimulatedScene } from './simulated-scene.ts'

const MAX_MS = 900_000

let scene: SimulatedScene
beforeEach(() => {
  scene = new SimulatedScene({ brokers: 3 })
})

async function copyJob(source: Partial<KafkaSourceOptions<string>> = {}): Promise<JobGraph> {
  const executor = new RecordingExecutor()
  const env = StreamExecutionEnvironment.getExecutionEnvironment()
  const read = kafkaSource<string>({
    topics: ['in'],
    groupId: 'readers',
    value: string(),
    ...source,
  } as KafkaSourceOptions<string>)
  env
    .fromSource(read, WatermarkStrategy.noWatermarks(), 'orders')
    .uid('in')
    .sinkTo(kafkaSink<string>({ topic: 'out', value: string(), deliveryGuarantee: 'EXACTLY_ONCE' }))
    .name('totals')
    .uid('out')
  await env.executeAsync('job')
  return buildJobGraph(executor.last.graph, { jobName: 'job', defaultParallelism: 1, maxParallelism: 128 })
}

const settings = (timeoutMs: number): JobSettings => ({
  checkpointing: {
    intervalMs: 1_000,
    mode: 'EXACTLY_ONCE',
    timeoutMs,
    minPauseMs: 0,
    maxConcurrent: 1,
    tolerableFailures: 0,
    numRetained: 1,
    retainOnCancellation: false,
    async: true,
    unalignedAfterMs: undefined,
  },
  restart: { kind: 'none' },
  savepointDirectory: undefined,
})

/** What is found, by what was looked at. */
async function diagnose({
  graph,
  cluster = scene.cluster,
  timeoutMs = 60_000,
  replicationFactor = -1,
}: {
  graph?: JobGraph
  cluster?: KafkaCluster
  timeoutMs?: number
  replicationFactor?: number
} = {}): Promise<Map<string, Diagnosis>> {
  const job = graph ?? (await copyJob())
  const environment = { cluster, maxTransactionTimeoutMs: MAX_MS, exactlyOnceByDefault: true } as never
  const { sinks, bounded } = bindConnectors(job, environment, workerGroupId('job'))
  const found = await scene.run(
    diagnoseKafka(cluster, {
      jobName: 'job',
      graph: job,
      settings: settings(timeoutMs),
      sinks,
      bounded,
      maxTransactionTimeoutMs: MAX_MS,
      replicationFactor,
      logger: scene.world.logger,
    }),
  )
  return new Map(found.map((each) => [each.check, each]))
}

/** What is to be fixed: check and message. */
const wrong = (found: Map<string, Diagnosis>): string[] =>
  [...found.values()]
    .filter(({ status }) => status === 'fix')
    .map(({ check, message }) => `${check}: ${message}`)

describe('a job whose topics are there', () => {
  beforeEach(async () => {
    await scene.topic('in', 2)
    await scene.topic('out', 3)
  })

  test('has nothing to fix, and nothing was changed by looking', async () => {
    const topics = scene.kafka.inside.topics.names()
    const found = await diagnose()
    expect(wrong(found)).toEqual([])
    expect([...found.keys()]).toEqual([
      'brokers',
      'topic in',
      'topic out',
      'group readers',
      "sink 'totals'",
      'transactional id prefixes',
      'transactional ids',
      'worker group',
      'topic millrace.job.checkpoints',
      'topic millrace.job.control',
    ])
    expect(found.get('topic out')?.message).toContain('3 partitions, 1 replica')
    expect(scene.kafka.inside.topics.names()).toEqual(topics)
    expect(await scene.run(scene.cluster.listTransactions())).toEqual([])
  })

  test('a transaction time-out that does not hold a checkpoint is to be fixed', async () => {
    expect(wrong(await diagnose({ timeoutMs: 900_000 }))).toEqual([
      expect.stringContaining(
        "sink 'totals': sink 'totals': a transaction time-out of 900000 ms is shorter than",
      ),
    ])
  })

  test.each<[ResourceOperation[], string]>([
    [['Read', 'Describe'], "topic out: the principal may not Write it; sink 'totals' writes it"],
    [['Write', 'Describe'], "topic in: the principal may not Read it; source 'orders' reads it"],
  ])('with %j on its topics only it names the right that is missing', async (allowed, message) => {
    const cluster = overriding(scene.cluster, {
      describeTopics: async (topics, options) =>
        (await scene.cluster.describeTopics(topics, options)).map((topic) => ({
          ...topic,
          ...(options?.operations === true ? { operations: new Set(allowed) } : {}),
        })),
    })
    expect(wrong(await diagnose({ cluster }))).toContain(message)
  })

  test('more in-sync replicas asked for than there are: nothing could be written', async () => {
    await scene.topic('strict', 1, { 'min.insync.replicas': '2' })
    const cluster = overriding(scene.cluster, {
      describeConfigs: async () => [{ name: 'min.insync.replicas', value: '2' }],
    })
    expect(wrong(await diagnose({ cluster }))).toEqual([
      "topic out: min.insync.replicas is 2, but it has 1 replicas: nothing can be written to it; sink 'totals' writes it",
    ])
  })

  test('consumers in the group of the source would fight with it for its offsets', async () => {
    await join('readers', 'consumer', 'range')
    expect(wrong(await diagnose())).toEqual([
      expect.stringMatching(/^group readers: 1 consumers are members of it/),
    ])
  })

  test('workers with another graph would refuse this one; the same job may get a standby', async () => {
    const graph = await copyJob()
    const overridden = (protocol: string, protocolType = 'millrace'): KafkaCluster =>
      overriding(scene.cluster, {
        describeGroup: async (groupId) => ({
          ...(await scene.cluster.describeGroup(groupId)),
          ...(groupId === workerGroupId('job')
            ? {
                protocol,
                protocolType,
                members: [{ memberId: 'm', clientId: 'c', clientHost: 'h', metadata: Buffer.alloc(0) }],
              }
            : {}),
        }),
      })
    expect(wrong(await diagnose({ graph, cluster: overridden('another') }))).toEqual([
      expect.stringContaining("worker group: 1 workers run another graph under the name 'job'"),
    ])
    expect(
      (await diagnose({ graph, cluster: overridden(graph.fingerprint) })).get('worker group'),
    ).toMatchObject({
      status: 'ok',
      message: expect.stringContaining('one more would stand by'),
    })
    expect(wrong(await diagnose({ graph, cluster: overridden('range', 'consumer') }))).toEqual([
      expect.stringContaining('no workers of Millrace'),
    ])
  })

  test("the job's own topics: a checkpoint topic that forgets by time, a control topic in pieces", async () => {
    await scene.topic('millrace.job.checkpoints', 1, { 'cleanup.policy': 'delete' })
    await scene.topic('millrace.job.control', 2)
    expect(wrong(await diagnose())).toEqual([
      'topic millrace.job.checkpoints: cleanup.policy is delete: checkpoints would be removed by time',
      'topic millrace.job.control: it has 2 partitions and must have one',
    ])
  })

  test('a pattern that matches nothing yet is no fault', async () => {
    const graph = await copyJob({ topics: undefined, topicPattern: /^clicks/ } as never)
    expect((await diagnose({ graph })).get('topics /^clicks/')).toMatchObject({ status: 'skipped' })
    await scene.topic('clicks-1')
    expect((await diagnose({ graph })).get('topics /^clicks/')).toMatchObject({
      status: 'ok',
      message: '1 topics match now',
    })
  })
})

describe('rights', () => {
  beforeEach(async () => {
    await scene.topic('in')
    await scene.topic('out')
  })

  test.each([
    ['readers', 'group readers'],
    [workerGroupId('job'), 'worker group'],
  ])('on a group that nobody uses yet (%s) are looked at', async (group, check) => {
    const cluster = overriding(scene.cluster, {
      describeGroup: async (groupId) => ({
        ...(await scene.cluster.describeGroup(groupId)),
        ...(groupId === group ? { operations: new Set<ResourceOperation>(['Describe']) } : {}),
      }),
    })
    const found = await diagnose({ cluster })
    expect(wrong(found)).toEqual([`${check}: the principal may not Read it`])
    expect(found.get(check)?.remedy).toBe(`Give the principal Read on group ${group}.`)
  })

  test("to make the job's own topics are tried, and nothing is made", async () => {
    expect((await diagnose()).get('topic millrace.job.control')).toMatchObject({
      status: 'ok',
      message: expect.stringContaining('with 3 replicas'),
    })
    const refusing = overriding(scene.cluster, {
      createTopics: async ([topic], options) => {
        expect(options?.validateOnly).toBe(true)
        throw brokerError('CreateTopics', 29, `topic '${topic?.topic}'`)
      },
    })
    const found = await diagnose({ cluster: refusing })
    expect(wrong(found)).toEqual([
      'topic millrace.job.checkpoints: it does not exist, and the principal may not make it',
      'topic millrace.job.control: it does not exist, and the principal may not make it',
    ])
    expect(wrong(await diagnose({ replicationFactor: 4 }))).toEqual([
      expect.stringMatching(
        /checkpoints: it does not exist, and the brokers refuse 4 replicas: .*INVALID_REPLICATION_FACTOR/,
      ),
      expect.stringContaining('control: it does not exist, and the brokers refuse 4 replicas'),
    ])
    const policy = overriding(scene.cluster, {
      createTopics: async () => {
        throw brokerError('CreateTopics', 44, 'topic', 'at least 3 in sync')
      },
    })
    expect(wrong(await diagnose({ cluster: policy }))[0]).toContain('a policy of the brokers refuses it')
    expect(scene.kafka.inside.topics.names()).toEqual(['in', 'out'])
  })

  test('on transactional ids: Describe is seen, Write cannot be', async () => {
    expect((await diagnose()).get('transactional ids')).toMatchObject({
      status: 'skipped',
      message: expect.stringContaining('Write'),
    })
    const cluster = overriding(scene.cluster, {
      describeTransactions: async ([id], options) => {
        if (id === 'millrace.job.out.0.0') throw brokerError('DescribeTransactions', 53, id)
        return scene.cluster.describeTransactions([id as string], options)
      },
    })
    const found = await diagnose({ cluster })
    expect(wrong(found)).toEqual([
      'transactional ids: the principal may not Describe transactional id millrace.job.out.0.0',
    ])
    expect(found.get('transactional ids')?.remedy).toContain('with the prefix millrace.job.')
  })
})

test('topics that are missing are named with who needs them', async () => {
  expect(wrong(await diagnose())).toEqual([
    "topic in: it does not exist; source 'orders' reads it",
    "topic out: it does not exist; sink 'totals' writes it",
  ])
})

async function join(groupId: string, protocolType: string, protocol: string): Promise<void> {
  await scene.run(
    scene.kafka.client('consumer').joinGroup({
      groupId,
      memberId: '',
      sessionTimeoutMs: 60_000,
      rebalanceTimeoutMs: 60_000,
      protocolType,
      protocols: [{ name: protocol, metadata: Buffer.alloc(0) }],
    }),
  )
}
