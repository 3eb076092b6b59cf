import { beforeEach, describe, expect, test } from '@jest/globals'
import { type KafkaSink, kafkaSink } from '../../../src/kafka/kafka-sink.ts'
import type { KafkaSinkOptions } from '../../../src/kafka/kafka-sink-options.ts'
import { checkPrefixHolders } from '../../../src/kafka/prefix-holders.ts'
import { transactionalId, transactionalIdPrefix, workerGroupId } from '../../../src/kafka/transactional-id.ts'
import { string } from '../../../src/serdes/serdes.ts'
import { SimulatedScene } from './simulated-scene.ts'

let scene: SimulatedScene

beforeEach(() => {
  scene = new SimulatedScene()
})

function sink(options: Partial<KafkaSinkOptions<string>> = {}): KafkaSink<string> {
  const made = kafkaSink<string>({
    topic: 'out',
    value: string(),
    deliveryGuarantee: 'EXACTLY_ONCE',
    transactionalIdPrefix: 'team',
    ...options,
  })
  made.bind({ cluster: scene.cluster, exactlyOnceByDefault: true } as never)
  return made
}

const check = (made: KafkaSink<string>, jobName = 'second') =>
  checkPrefixHolders(scene.cluster, jobName, [{ name: 'totals', sink: made }], scene.world.logger)

/** Another job has used the prefix; `running`: it has a worker. */
async function holder(job: string, running: boolean, prefix: string | null = 'team'): Promise<void> {
  const other = scene.kafka.client(job)
  const id = transactionalId(transactionalIdPrefix(job, 'out', prefix ?? undefined), 0, 0)
  await scene.run(other.initProducerId({ transactionalId: id, transactionTimeoutMs: 60_000 }))
  if (!running) return
  await scene.run(
    other.joinGroup({
      groupId: workerGroupId(job),
      memberId: '',
      sessionTimeoutMs: 60_000,
      rebalanceTimeoutMs: 1_000,
      protocolType: 'millrace',
      protocols: [{ name: 'graph', metadata: Buffer.alloc(0) }],
    }),
  )
}

describe('a transactionalIdPrefix', () => {
  test('that a running job holds is refused, naming sink, prefix and holder', async () => {
    await holder('first', true)
    expect(await scene.failure(check(sink()))).toMatchObject({
      code: 'MILLRACE_TRANSACTIONAL_ID_HELD',
      message: "sink 'totals': transactionalIdPrefix 'team' is held by job 'first', which is running",
      retriable: false,
    })
  })

  test('of a job that does not run any more is free, though its ids are listed for a week', async () => {
    await holder('first', false)
    await scene.run(check(sink()))
  })

  test('is not held by the same job: its other workers stand by', async () => {
    await holder('second', true)
    await scene.run(check(sink()))
  })

  test('is its own whole name: neither a longer nor a shorter one, nor none, is the same', async () => {
    await holder('first', true, 'team.a')
    await holder('another', true, 'tea')
    await holder('team', true, null)
    await scene.run(check(sink()))
  })

  test('is not asked about without transactions, or when there is none', async () => {
    await holder('first', true)
    await scene.run(check(sink({ deliveryGuarantee: 'AT_LEAST_ONCE' })))
    scene.kafka.isolate('worker')
    await scene.run(checkPrefixHolders(scene.cluster, 'second', [], scene.world.logger))
  })

  test('whose holder we may not look at is taken, with a warning', async () => {
    await holder('first', true)
    scene.kafka.intercept(({ api }) => (api === 'DescribeGroups' ? { errorCode: 30 } : 'pass'))
    await scene.run(check(sink()))
    expect(scene.warnings()).toEqual([expect.stringContaining('millrace.first')])
  })
})
