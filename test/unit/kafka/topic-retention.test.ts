/** Records that are too old for the topic they are written to: the brokers take them and remove them, so the job says so. */
import { beforeEach, describe, expect, test } from '@jest/globals'
import { KafkaError } from '../../../src/errors.ts'
import { RetentionWatch, retentionByRecordTime } from '../../../src/kafka/topic-retention.ts'
import { overriding, SimulatedScene } from './simulated-scene.ts'

const DAY_MS = 86_400_000
const NOW = 100 * DAY_MS

let scene: SimulatedScene
let warnings: string[]
beforeEach(() => {
  scene = new SimulatedScene()
  warnings = []
})

const watchOf = (cluster: ConstructorParameters<typeof RetentionWatch>[0] = scene.cluster) =>
  new RetentionWatch(cluster, (message) => warnings.push(message))

describe('a record that is older than its topic keeps records', () => {
  beforeEach(() => scene.topic('out'))

  test('is warned about once, with its time and both ways out', async () => {
    const watch = watchOf()
    for (const timestamp of [0, 1, 2]) watch.saw('out', timestamp, NOW)
    await scene.time.advance(1_000)
    watch.saw('out', 3, NOW)
    await scene.time.advance(1_000)
    expect(warnings).toEqual([
      'records of 1970-01-01T00:00:00.000Z are written to topic out, which keeps records for retention.ms=604800000 by their own time: the brokers remove them soon. Raise retention.ms of the topic, or give the sink timestamp: () => Date.now()',
    ])
  })

  test('is found after records that were old, but not too old', async () => {
    const watch = watchOf()
    watch.saw('out', NOW - 6 * DAY_MS, NOW)
    await scene.time.advance(1_000)
    watch.saw('out', NOW - 7 * DAY_MS, NOW)
    await scene.time.advance(1_000)
    expect(warnings).toEqual([])
    watch.saw('out', NOW - 7 * DAY_MS - 1, NOW)
    await scene.time.advance(1_000)
    expect(warnings.length).toBe(1)
  })

  test('of another topic is another warning', async () => {
    await scene.topic('other', 1, { 'retention.ms': '1000' })
    const watch = watchOf()
    watch.saw('out', 0, NOW)
    watch.saw('other', 0, NOW)
    await scene.time.advance(1_000)
    expect(warnings.length).toBe(2)
  })

  test('is looked at again when the brokers did not answer', async () => {
    let asked = 0
    const watch = watchOf(
      overriding(scene.cluster, {
        describeConfigs: async (resource, names) => {
          if (++asked === 1) throw new Error('no connection')
          return scene.cluster.describeConfigs(resource, names)
        },
      }),
    )
    watch.saw('out', 0, NOW)
    await scene.time.advance(1_000)
    expect(warnings).toEqual([])
    watch.saw('out', 0, NOW)
    await scene.time.advance(1_000)
    expect(warnings.length).toBe(1)
  })

  test('young records are not asked about', async () => {
    const watch = watchOf(
      overriding(scene.cluster, {
        describeConfigs: async () => {
          throw new Error('it was asked')
        },
      }),
    )
    watch.saw('out', NOW - 1_000, NOW)
    watch.saw('out', Number.NaN, NOW)
    await scene.time.advance(1_000)
    expect(warnings).toEqual([])
  })
})

test.each([
  [{}, 604_800_000],
  [{ 'retention.ms': '-1' }, undefined],
  [{ 'cleanup.policy': 'compact' }, undefined],
  [{ 'cleanup.policy': 'compact,delete', 'retention.ms': '5000' }, 5_000],
  [{ 'message.timestamp.type': 'LogAppendTime' }, undefined],
] as const)('a topic with %j keeps a record by its own time for %s ms', async (configs, expected) => {
  await scene.topic('out', 1, configs)
  expect(await scene.run(retentionByRecordTime(scene.cluster, 'out'))).toBe(expected)
})

test('a topic whose settings the principal may not see is taken to keep everything', async () => {
  const refused = new KafkaError('MILLRACE_KAFKA_UNAUTHORIZED', 'no', {
    brokerCode: 29,
    brokerError: 'TOPIC_AUTHORIZATION_FAILED',
    api: 'DescribeConfigs',
  })
  const cluster = overriding(scene.cluster, { describeConfigs: () => Promise.reject(refused) })
  expect(await retentionByRecordTime(cluster, 'out')).toBeUndefined()
})
