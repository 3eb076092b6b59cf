import { beforeEach, describe, expect, test } from '@jest/globals'
import type { SinkRecord } from '../../../src/checkpoint/checkpoint-store.ts'
import { MillraceError } from '../../../src/errors.ts'
import type { KafkaCluster, ProducerIdentity } from '../../../src/kafka/kafka-cluster.ts'
import { transactionalId } from '../../../src/kafka/transactional-id.ts'
import { JobTransactions } from '../../../src/kafka/transactions.ts'
import { overriding, SimulatedScene } from './simulated-scene.ts'

const PREFIX = 'millrace.job.sink'

let scene: SimulatedScene
let alive: () => void

beforeEach(async () => {
  scene = new SimulatedScene()
  alive = () => undefined
  await scene.topic('out')
})

function transactions(
  parallelism: number,
  { slots = 3, prefix = PREFIX, cluster = scene.cluster as KafkaCluster } = {},
): JobTransactions {
  return new JobTransactions({
    cluster,
    world: scene.world,
    sinks: [{ uid: 'sink', prefix, parallelism, transactionTimeoutMs: 600_000 }],
    slots,
    defaultTimeoutMs: 300_000,
    assertAlive: () => alive(),
  })
}

const record = (parallelism: number, slots = 3, prefix = PREFIX): SinkRecord => ({
  uid: 'sink',
  prefix,
  parallelism,
  slots,
})

async function takeOver(
  job: JobTransactions,
  recorded: readonly SinkRecord[] = [],
): Promise<ProducerIdentity[][]> {
  await scene.run(job.observe(recorded))
  return (await scene.run(job.lease())).get('sink') as ProducerIdentity[][]
}

const stateOf = (id: string) => scene.kafka.inside.transactions.describe(id).state
const opened = (subtask: number, slot = 0, prefix = PREFIX) =>
  scene.transact('out', ['left over'], 'open', transactionalId(prefix, subtask, slot))

describe('leases', () => {
  test('every subtask gets its own ids, initialised', async () => {
    const leases = await takeOver(transactions(2))
    expect(leases.map((own) => own.map(({ transactionalId: id }) => id))).toEqual([
      [0, 1, 2].map((slot) => `${PREFIX}.0.${slot}`),
      [0, 1, 2].map((slot) => `${PREFIX}.1.${slot}`),
    ])
    expect(scene.kafka.inside.transactions.describe(`${PREFIX}.1.2`).timeoutMs).toBe(600_000)
  })

  test('the next leader gets a higher epoch of the same ids', async () => {
    const first = await takeOver(transactions(1))
    const second = await takeOver(transactions(1))
    expect(second[0]!.map(({ producerEpoch }) => producerEpoch)).toEqual(
      first[0]!.map(({ producerEpoch }) => producerEpoch + 2),
    )
    expect(second[0]!.map(({ producerId }) => producerId)).toEqual(
      first[0]!.map(({ producerId }) => producerId),
    )
  })

  test('a transaction time-out above what the broker allows is said with its number', async () => {
    const job = new JobTransactions({
      cluster: scene.cluster,
      world: scene.world,
      sinks: [{ uid: 'sink', prefix: PREFIX, parallelism: 1, transactionTimeoutMs: 3_600_000 }],
      slots: 1,
      defaultTimeoutMs: 1_000,
      assertAlive: () => alive(),
    })
    await scene.run(job.observe([]))
    expect(await scene.failure(job.lease())).toMatchObject({
      code: 'MILLRACE_TRANSACTION_TIMEOUT',
      message: expect.stringContaining('3600000'),
    })
  })
})

describe('a worker that stood still for longer than its session', () => {
  const standStill = (): void => {
    alive = () => {
      throw new MillraceError('MILLRACE_ATTEMPT_LOST', 'this worker could not reach its group')
    }
  }

  test('initialises no id: though refused, it would abort what its successor has open', async () => {
    const job = transactions(1)
    await scene.run(job.observe([]))
    const [[, lease]] = (await takeOver(transactions(1))) as [ProducerIdentity[]]
    await scene.run(scene.cluster.addPartitionsToTxn(lease!, [{ topic: 'out', partition: 0 }]))
    standStill()
    let sent = 0
    scene.kafka.intercept(({ api }) => {
      if (api === 'InitProducerId') sent++
      return 'pass'
    })
    expect(await scene.failure(job.lease())).toMatchObject({ code: 'MILLRACE_ATTEMPT_LOST' })
    expect(sent).toBe(0)
    expect(stateOf(lease!.transactionalId)).toBe('Ongoing')
  })

  test('aborts nothing at its end', async () => {
    const job = transactions(1)
    await takeOver(job)
    await opened(0)
    standStill()
    expect(await scene.failure(job.abortOpen())).toMatchObject({ code: 'MILLRACE_ATTEMPT_LOST' })
    expect(stateOf(`${PREFIX}.0.0`)).toBe('Ongoing')
  })
})

describe('leftovers of earlier attempts', () => {
  test('open transactions are aborted: readers of the topic are held back no longer', async () => {
    await opened(0, 1)
    await takeOver(transactions(1))
    await scene.time.advance(100)
    const { stable, high } = scene.ends('out')
    expect(stable).toBe(high)
    expect(await scene.values('out')).toEqual([])
    expect(scene.lines.map(({ message }) => message)).toContain(
      'aborted 1 transaction that an earlier attempt left open',
    )
  })

  test('those of subtasks that there are no more too, though only the listing knows of them', async () => {
    await opened(4)
    await takeOver(transactions(3))
    await scene.time.advance(100)
    expect(scene.ends('out').stable).toBe(scene.ends('out').high)
  })

  test('those that are only on record too: a missing permission to list answers an empty list', async () => {
    await opened(4)
    const blind = overriding(scene.cluster, { listTransactions: async () => [] })
    await takeOver(transactions(3, { cluster: blind }), [record(5)])
    await scene.time.advance(100)
    expect(scene.ends('out').stable).toBe(scene.ends('out').high)
  })

  test('a zombie of a subtask that is there no more cannot write with its old id, even if nothing was open', async () => {
    const [, , , , zombie] = await takeOver(transactions(5))
    await takeOver(transactions(3), [record(5)])
    expect(
      await scene.failure(
        scene.kafka.client('zombie').addPartitionsToTxn(zombie![0]!, [{ topic: 'out', partition: 0 }]),
      ),
    ).toMatchObject({ brokerCode: 47 })
  })

  test('ids of another job are left alone, also when its name begins like ours', async () => {
    await opened(0, 0, 'millrace.job.sink-2')
    await opened(0, 0, 'other.millrace.job.sink')
    await scene.transact('out', ['x'], 'open', 'millrace.job.sink')
    await takeOver(transactions(1))
    await scene.time.advance(100)
    for (const id of ['millrace.job.sink-2.0.0', 'other.millrace.job.sink.0.0', 'millrace.job.sink'])
      expect([id, stateOf(id)]).toEqual([id, 'Ongoing'])
  })

  test('a promised commit that was finished in between is not counted as aborted', async () => {
    const promised = await opened(0)
    const job = transactions(1)
    await scene.run(job.observe([]))
    await scene.run(scene.cluster.endTxn(promised, 'commit'))
    await scene.time.advance(50)
    await scene.run(job.lease())
    expect(await scene.values('out')).toEqual(['left over'])
    expect(scene.lines.map(({ message }) => message).join()).not.toContain('aborted')
  })
})

describe('another leader', () => {
  test('that moved an id since it was listed is found out: this one stops and takes nothing back', async () => {
    await takeOver(transactions(1))
    const slow = transactions(1)
    await scene.run(slow.observe([]))
    const fast = await takeOver(transactions(1, { cluster: scene.kafka.client('fast') }))
    const error = await scene.failure(slow.lease())
    expect(error).toMatchObject({ code: 'MILLRACE_ATTEMPT_LOST' })
    await scene.run(scene.cluster.addPartitionsToTxn(fast[0]![0]!, [{ topic: 'out', partition: 0 }]))
  })

  test('that made the ids first keeps them: a slow one that saw none does not take them', async () => {
    const slow = transactions(1)
    await scene.run(slow.observe([]))
    const [fast] = await takeOver(transactions(1, { cluster: scene.kafka.client('fast') }))
    expect(await scene.failure(slow.lease())).toMatchObject({ code: 'MILLRACE_ATTEMPT_LOST' })
    await scene.run(scene.cluster.addPartitionsToTxn(fast![0]!, [{ topic: 'out', partition: 0 }]))
  })

  test('is not given away to a zombie that initialises its id once more: the broker takes that for a repeated question', async () => {
    const [zombie] = await takeOver(transactions(1))
    const { producerId, producerEpoch } = zombie![0]!
    await takeOver(transactions(1, { cluster: scene.kafka.client('new leader') }))
    expect(
      await scene.failure(
        scene.kafka.client('zombie').initProducerId({
          transactionalId: `${PREFIX}.0.0`,
          transactionTimeoutMs: 1_000,
          expected: { producerId, producerEpoch },
        }),
      ),
    ).toMatchObject({ brokerCode: 90 })
  })

  test('an id whose facts are refused is not initialised on trust', async () => {
    await takeOver(transactions(1))
    const unauthorised = overriding(scene.cluster, {
      describeTransactions: async (ids) =>
        ids.map((id) => ({ ...scene.kafka.inside.transactions.describe(id), errorCode: 53 })),
    })
    expect(await scene.failure(transactions(1, { cluster: unauthorised }).observe([]))).toMatchObject({
      code: 'MILLRACE_KAFKA_UNAUTHORIZED',
    })
  })
})

describe('what is on record', () => {
  test('is at least as wide as it ever was, and sinks that are gone stay on it', () => {
    expect(transactions(3).records([record(5, 2), record(1, 1, 'millrace.job.gone')])).toEqual([
      record(5, 3),
      record(1, 1, 'millrace.job.gone'),
    ])
    expect(transactions(7, { slots: 2 }).records([record(5, 4)])).toEqual([record(7, 4)])
  })
})

describe('the end of a job', () => {
  test('aborts what is open, so that nothing holds readers back', async () => {
    const job = transactions(2)
    const leases = await takeOver(job)
    await scene.run(scene.cluster.addPartitionsToTxn(leases[1]![2]!, [{ topic: 'out', partition: 0 }]))
    await scene.run(job.abortOpen())
    await scene.time.advance(100)
    expect(stateOf(`${PREFIX}.1.2`)).toBe('CompleteAbort')
  })

  test('keeps what a completed checkpoint promises', async () => {
    const job = transactions(1)
    const [leases] = await takeOver(job)
    for (const lease of leases!)
      await scene.run(scene.cluster.addPartitionsToTxn(lease, [{ topic: 'out', partition: 0 }]))
    await scene.run(job.abortOpen({ keep: [`${PREFIX}.0.1`] }))
    await scene.time.advance(100)
    expect([0, 1, 2].map((slot) => stateOf(`${PREFIX}.0.${slot}`))).toEqual([
      'CompleteAbort',
      'Ongoing',
      'CompleteAbort',
    ])
  })

  test('touches nothing when leadership cannot be proved after looking: it may all be of another leader', async () => {
    const job = transactions(1)
    await takeOver(job)
    const [successor] = await takeOver(transactions(1))
    await scene.run(scene.cluster.addPartitionsToTxn(successor![0]!, [{ topic: 'out', partition: 0 }]))
    const proveLeadership = async () => {
      throw new Error('we do not lead')
    }
    expect(await scene.failure(job.abortOpen({ proveLeadership }))).toMatchObject({
      message: 'we do not lead',
    })
    await scene.time.advance(100)
    expect(stateOf(`${PREFIX}.0.0`)).toBe('Ongoing')
  })

  test('a leader that comes right after the proof is not hit either: its epochs are others', async () => {
    const job = transactions(1)
    const [own] = await takeOver(job)
    await scene.run(scene.cluster.addPartitionsToTxn(own![0]!, [{ topic: 'out', partition: 0 }]))
    let successor: ProducerIdentity | undefined
    const other = scene.kafka.client('successor')
    await scene.run(
      job.abortOpen({
        proveLeadership: async () => {
          successor = await other.initProducerId({
            transactionalId: `${PREFIX}.0.0`,
            transactionTimeoutMs: 1_000,
          })
          await other.addPartitionsToTxn(successor, [{ topic: 'out', partition: 0 }])
        },
      }),
    )
    expect(stateOf(`${PREFIX}.0.0`)).toBe('Ongoing')
    expect(scene.warnings().join()).toContain(`${PREFIX}.0.0`)
  })

  test('without sinks there is nothing to do', async () => {
    const job = new JobTransactions({
      cluster: scene.cluster,
      world: scene.world,
      sinks: [],
      slots: 3,
      defaultTimeoutMs: 1_000,
      assertAlive: () => alive(),
    })
    scene.kafka.intercept(() => {
      throw new Error('no call is needed')
    })
    await scene.run(job.observe([]))
    expect(await scene.run(job.lease())).toEqual(new Map())
    await scene.run(job.abortOpen())
  })
})
