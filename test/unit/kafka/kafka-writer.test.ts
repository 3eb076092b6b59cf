import { beforeEach, describe, expect, test } from '@jest/globals'
import type { CommitPermit } from '../../../src/core/connector.ts'
import { recordVector } from '../../../src/core/element.ts'
import type { ProducerIdentity } from '../../../src/kafka/kafka-cluster.ts'
import type { KafkaCommittable } from '../../../src/kafka/kafka-committable.ts'
import { KafkaCommitter } from '../../../src/kafka/kafka-committer.ts'
import type { KafkaSinkOptions } from '../../../src/kafka/kafka-sink-options.ts'
import { KafkaWriter } from '../../../src/kafka/kafka-writer.ts'
import { string } from '../../../src/serdes/serdes.ts'
import { SimulatedScene } from './simulated-scene.ts'

const TIMEOUT_MS = 600_000

let scene: SimulatedScene
let leases: ProducerIdentity[]
let alive: () => void

beforeEach(async () => {
  scene = new SimulatedScene()
  alive = () => undefined
  await scene.topic('out', 4)
  leases = []
  for (let slot = 0; slot < 3; slot++)
    leases.push(
      await scene.run(
        scene.cluster.initProducerId({ transactionalId: `t.0.${slot}`, transactionTimeoutMs: TIMEOUT_MS }),
      ),
    )
})

const vector = <T>(...values: T[]) =>
  recordVector(
    values,
    values.map(() => Number.NaN),
  )
const permit = (checkpointId: number, confirmed = -1) => ({ checkpointId, confirmed }) as CommitPermit

async function writer<T = string>(
  sink: Partial<KafkaSinkOptions<T>> = {},
  change: { transactional?: boolean; acks?: -1 | 1 } = {},
): Promise<KafkaWriter<T>> {
  const made = new KafkaWriter<T>({
    sink: { topic: 'out', value: string() as never, partition: () => 0, ...sink },
    cluster: scene.cluster,
    leases: change.transactional === false ? undefined : leases,
    acks: change.acks ?? -1,
    transactionTimeoutMs: TIMEOUT_MS,
    assertAlive: () => alive(),
    context: scene.sinkContext(),
  })
  await scene.run(made.open())
  return made
}

/** A sink as its runtime drives it. */
class Driven {
  readonly writer: KafkaWriter<string>
  readonly #committer = new KafkaCommitter(scene.cluster, scene.world, () => {
    throw new Error('nothing is to be healed')
  })
  prepared: readonly KafkaCommittable[] = []

  constructor(made: KafkaWriter<string>) {
    this.writer = made
  }

  async write(...values: string[]): Promise<void> {
    await scene.run(this.writer.write(vector(...values)))
  }

  async barrier(n: number): Promise<readonly KafkaCommittable[]> {
    await scene.run(this.writer.flush())
    this.prepared = this.writer.prepareCommit(n)
    return this.prepared
  }

  async complete(n: number, confirmed = true): Promise<void> {
    this.writer.notifyCheckpointComplete(n)
    await scene.run(this.#committer.commit(permit(n), this.prepared))
    await scene.time.advance(50)
    if (confirmed) await this.confirm(n)
  }

  async confirm(n: number): Promise<void> {
    this.writer.notifyCheckpointConfirmed(n)
    await scene.time.advance(50)
  }
}

describe('a writer in transactions', () => {
  let sink: Driven
  beforeEach(async () => {
    sink = new Driven(await writer())
  })

  test('nothing is seen before the commit, everything after it', async () => {
    await sink.write('a', 'b')
    await sink.barrier(1)
    expect(await scene.values('out')).toEqual([])
    await sink.complete(1)
    expect(await scene.values('out')).toEqual(['a', 'b'])
  })

  test('records after a barrier are in another transaction than those before it', async () => {
    await sink.write('a')
    const [first] = await sink.barrier(1)
    await sink.write('b')
    await sink.complete(1)
    expect(await scene.values('out')).toEqual(['a'])
    const [second] = await sink.barrier(2)
    expect(second!.transactionalId).not.toBe(first!.transactionalId)
    await sink.complete(2)
    expect(await scene.values('out')).toEqual(['a', 'b'])
  })

  test('a committable says whose it is, until when it can be committed, and what it wrote where', async () => {
    const at = scene.time.now()
    await sink.write('a', 'bb')
    await scene.time.advance(5_000)
    const [committable] = await sink.barrier(7)
    expect(committable).toEqual({
      transactionalId: 't.0.0',
      producerId: String(leases[0]!.producerId),
      producerEpoch: 0,
      attempt: 1,
      n: 7,
      deadline: at + TIMEOUT_MS,
      ranges: [
        {
          topic: 'out',
          topicId: scene.kafka.inside.topics.get('out')!.topicId,
          partition: 0,
          firstOffset: '0',
          lastOffset: '1',
          count: 2,
          digest: expect.any(String),
        },
      ],
    })
    expect(JSON.parse(JSON.stringify(committable))).toEqual(committable)
  })

  test('an interval without records has no committable', async () => {
    expect(await sink.barrier(1)).toEqual([])
    await sink.write('a')
    expect(await sink.barrier(2)).toHaveLength(1)
    await sink.complete(2)
    expect(await sink.barrier(3)).toEqual([])
    expect(scene.ends('out')).toEqual({ stable: 2n, high: 2n })
  })

  test('what was prepared for an aborted checkpoint is in every later one until one completes', async () => {
    await sink.write('a')
    await sink.barrier(1)
    sink.writer.notifyCheckpointAborted(1)
    await sink.write('b')
    expect((await sink.barrier(2)).map(({ n }) => n)).toEqual([1, 2])
    sink.writer.notifyCheckpointAborted(2)
    expect((await sink.barrier(3)).map(({ n }) => n)).toEqual([1, 2])
    await sink.complete(3)
    expect(await scene.values('out')).toEqual(['a', 'b'])
    await sink.write('c')
    expect((await sink.barrier(4)).map(({ n }) => n)).toEqual([4])
  })

  test('five aborts in a row: the smallest pool is enough, and every record comes out once', async () => {
    for (let n = 1; n <= 5; n++) {
      await sink.write(`r${n}`)
      await sink.barrier(n)
      sink.writer.notifyCheckpointAborted(n)
    }
    await sink.write('r6')
    expect(await sink.barrier(6)).toHaveLength(3)
    expect(await scene.values('out')).toEqual([])
    await sink.complete(6)
    expect(await scene.values('out')).toEqual(['r1', 'r2', 'r3', 'r4', 'r5', 'r6'])
    await sink.write('r7')
    await sink.barrier(7)
    await sink.complete(7)
    expect(await scene.values('out')).toHaveLength(7)
  })

  test('a transaction that was opened again has one committable, with all its records', async () => {
    for (let n = 1; n <= 3; n++) {
      await sink.write(`r${n}`)
      await sink.barrier(n)
      sink.writer.notifyCheckpointAborted(n)
    }
    await sink.write('r4')
    const committables = await sink.barrier(4)
    expect(committables.map(({ n, ranges }) => [n, ranges[0]!.count])).toEqual([
      [1, 1],
      [2, 1],
      [4, 2],
    ])
    expect(committables[2]!.ranges[0]).toMatchObject({ firstOffset: '2', lastOffset: '3' })
  })

  test('with no id free records are held back until the newest checkpoint is decided: aborted, they go on in it', async () => {
    for (let n = 1; n <= 3; n++) {
      await sink.write(`r${n}`)
      await sink.barrier(n)
    }
    sink.writer.notifyCheckpointAborted(1)
    sink.writer.notifyCheckpointAborted(2)
    let done = false
    const held = Promise.resolve(sink.writer.write(vector('r4'))).then(() => {
      done = true
    })
    await scene.time.advance(5_000)
    expect(done).toBe(false)
    sink.writer.notifyCheckpointAborted(3)
    await scene.run(held)
    await sink.barrier(4)
    await sink.complete(4)
    expect(await scene.values('out')).toEqual(['r1', 'r2', 'r3', 'r4'])
  })

  test('with no id free records are held back until the newest checkpoint is decided: confirmed, they get a free id', async () => {
    for (let n = 1; n <= 3; n++) {
      await sink.write(`r${n}`)
      await sink.barrier(n)
    }
    const held = Promise.resolve(sink.writer.write(vector('r4')))
    await sink.complete(3, false)
    expect(await scene.values('out')).toEqual(['r1', 'r2', 'r3'])
    sink.writer.notifyCheckpointConfirmed(3)
    await scene.run(held)
    const [committable] = await sink.barrier(4)
    expect(committable).toMatchObject({ n: 4, producerEpoch: 1 })
    await sink.complete(4)
    expect(await scene.values('out')).toEqual(['r1', 'r2', 'r3', 'r4'])
  })

  test('an abort that comes while the barrier is being flushed does not strand the records after it', async () => {
    for (let n = 1; n <= 2; n++) {
      await sink.write(`r${n}`)
      await sink.barrier(n)
      sink.writer.notifyCheckpointAborted(n)
    }
    await sink.write('r3')
    const flushing = scene.run(sink.writer.flush())
    sink.writer.notifyCheckpointAborted(3)
    await flushing
    sink.writer.prepareCommit(3)
    await sink.write('r4')
    await sink.barrier(4)
    await sink.complete(4)
    expect(await scene.values('out')).toEqual(['r1', 'r2', 'r3', 'r4'])
  })

  test('an id and epoch never serves two transactions, also under late duplicates of EndTxn', async () => {
    // An old connection repeats every EndTxn ten seconds later: it must not commit what was written since.
    scene.kafka.intercept(({ api, clientId }) =>
      api === 'EndTxn' && clientId === 'worker' ? { duplicateAfterMs: 10_000 } : 'pass',
    )
    const used = new Set<string>()
    for (let n = 1; n <= 8; n++) {
      await sink.write(`r${n}`)
      const committables = await sink.barrier(n)
      for (const { transactionalId, producerEpoch } of committables) {
        const name = `${transactionalId}/${producerEpoch}`
        expect(used.has(name)).toBe(false)
        used.add(name)
      }
      await sink.complete(n)
    }
    await sink.write('not committed')
    await scene.run(sink.writer.flush())
    await scene.time.advance(30_000)
    expect(await scene.values('out')).toHaveLength(8)
  })

  test('an id is not initialised again before its commit is confirmed: a commit may still be repeated', async () => {
    await sink.write('a')
    await sink.barrier(1)
    await sink.complete(1, false)
    await sink.complete(1, false)
    expect(await scene.values('out')).toEqual(['a'])
    await sink.confirm(1)
    expect(scene.kafka.inside.transactions.describe('t.0.0').producerEpoch).toBe(1)
  })

  test('an id that another leader took fails the writer at its next record', async () => {
    await sink.write('a')
    await sink.barrier(1)
    await sink.complete(1, false)
    await scene.run(
      scene.kafka
        .client('thief')
        .initProducerId({ transactionalId: 't.0.0', transactionTimeoutMs: TIMEOUT_MS }),
    )
    await sink.confirm(1)
    expect(() => sink.writer.write(vector('b'))).toThrow(
      expect.objectContaining({
        code: 'MILLRACE_TRANSACTION_FENCED',
        message: expect.stringContaining('t.0.0'),
      }),
    )
  })

  test('a fenced writer cannot write', async () => {
    await scene.run(
      scene.kafka
        .client('thief')
        .initProducerId({ transactionalId: 't.0.0', transactionTimeoutMs: TIMEOUT_MS }),
    )
    const failing = Promise.resolve(sink.writer.write(vector('a'))).then(() => sink.writer.flush())
    expect(await scene.failure(failing)).toMatchObject({ retriable: expect.any(Boolean) })
    expect(await scene.values('out')).toEqual([])
  })

  test('a worker that was silent for too long sends nothing, also of what it had taken already', async () => {
    await sink.write('a')
    const flushing = sink.writer.write(vector('b'))
    alive = () => {
      throw Object.assign(new Error('silent for 12,000 ms'), { code: 'MILLRACE_ATTEMPT_LOST' })
    }
    const high = scene.ends('out').high
    expect(await scene.failure(Promise.resolve(flushing).then(() => sink.writer.flush()))).toMatchObject({
      code: 'MILLRACE_ATTEMPT_LOST',
    })
    await scene.time.advance(1_000)
    expect(scene.ends('out').high).toBe(high)
    expect(() => sink.writer.write(vector('c'))).toThrow('silent for 12,000 ms')
  })

  test('nor does it initialise an id again: though refused, that would abort what its successor has open', async () => {
    await sink.write('a')
    await sink.barrier(1)
    await sink.complete(1, false)
    let sent = 0
    scene.kafka.intercept(({ api }) => {
      if (api === 'InitProducerId') sent++
      return 'pass'
    })
    alive = () => {
      throw Object.assign(new Error('silent for 12,000 ms'), { code: 'MILLRACE_ATTEMPT_LOST' })
    }
    sink.writer.notifyCheckpointConfirmed(1)
    await scene.time.advance(1_000)
    expect(sent).toBe(0)
    expect(() => sink.writer.write(vector('b'))).toThrow('silent for 12,000 ms')
  })

  test('close ends whoever is held back', async () => {
    for (let n = 1; n <= 3; n++) {
      await sink.write(`r${n}`)
      await sink.barrier(n)
    }
    const held = Promise.resolve(sink.writer.write(vector('r4')))
    const failed = scene.failure(held)
    await sink.writer.close()
    expect(await failed).toMatchObject({ code: 'MILLRACE_ATTEMPT_LOST' })
  })

  test('after close nothing begins a transaction: what the end of the job aborts stays aborted', async () => {
    void sink.writer.write(vector('a'))
    await scene.run(sink.writer.close())
    await scene.time.advance(60_000)
    const { state } = scene.kafka.inside.transactions.describe('t.0.0')
    if (state === 'Ongoing') await scene.run(scene.cluster.endTxn(leases[0]!, 'abort'))
    await scene.time.advance(60_000)
    expect(scene.kafka.inside.transactions.describe('t.0.0').state).not.toBe('Ongoing')
  })

  test('close waits for requests on their way, but not for ever', async () => {
    let requests = 0
    scene.kafka.intercept(({ api }) => {
      if (api !== 'AddPartitionsToTxn') return 'pass'
      requests++
      return { responseDelayMs: 300 }
    })
    void sink.writer.write(vector('a'))
    sink.writer.flush().catch(() => undefined)
    await scene.time.advance(20)
    expect(requests).toBe(1)
    const at = scene.time.now()
    await scene.run(sink.writer.close())
    expect(scene.time.now() - at).toBeGreaterThan(250)
    expect(scene.time.now() - at).toBeLessThanOrEqual(1_000)
  })
})
