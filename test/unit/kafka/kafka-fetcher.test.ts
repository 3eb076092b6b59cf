import { beforeEach, describe, expect, test } from '@jest/globals'
import type { FetchRequest } from '../../../src/kafka/kafka-cluster.ts'
import { type FetchedSplit, type FetcherOptions, KafkaFetcher } from '../../../src/kafka/kafka-fetcher.ts'
import { overriding, SimulatedScene } from './simulated-scene.ts'

let scene: SimulatedScene
let errors: unknown[]
let wakes: number

beforeEach(async () => {
  scene = new SimulatedScene()
  errors = []
  wakes = 0
  await scene.topic('in', 4)
})

const split = (partition: number, change: Partial<FetchedSplit> = {}): FetchedSplit => ({
  topic: 'in',
  partition,
  fetchOffset: 0n,
  stop: undefined,
  buffers: [],
  maxBytes: 10_000,
  highWatermark: -1n,
  lastStableOffset: -1n,
  ...change,
})

function fetcher(change: Partial<FetcherOptions> = {}): KafkaFetcher {
  return new KafkaFetcher({
    cluster: scene.cluster,
    isolation: 'read_committed',
    maxBytes: 10_000,
    maxWaitMs: 500,
    world: scene.world,
    onData: () => {
      wakes++
    },
    onPartitionError: async () => undefined,
    onError: (error) => errors.push(error),
    ...change,
  })
}

function fetches(): FetchRequest[] {
  const seen: FetchRequest[] = []
  scene.kafka.intercept(({ api, clientId, args }) => {
    if (api === 'Fetch' && clientId === 'worker') seen.push(args[0] as FetchRequest)
    return 'pass'
  })
  return seen
}

describe('the fetcher', () => {
  test('asks one leader once for all its splits, and again only when they have room', async () => {
    const seen = fetches()
    const splits = [0, 1, 2, 3].map((partition) => split(partition))
    const made = fetcher()
    for (const s of splits) made.add(s)
    await scene.time.advance(20)
    expect(seen.map(({ partitions }) => partitions.length)).toEqual([4])
    made.pump()
    await scene.time.advance(20)
    expect(seen).toHaveLength(1)
  })

  test('keeps at most two buffers a split, whatever the lag, and moves on when one is used up', async () => {
    for (let i = 0; i < 20; i++) await scene.produce('in', ['x'.repeat(9_000)])
    const one = split(0)
    const made = fetcher()
    made.add(one)
    await scene.time.advance(5_000)
    expect(one.buffers).toHaveLength(2)
    expect(one.fetchOffset).toBe(2n)
    expect([one.highWatermark, one.lastStableOffset]).toEqual([20n, 20n])
    one.buffers.shift()
    made.pump()
    await scene.time.advance(1_000)
    expect(one.buffers).toHaveLength(2)
    expect(one.fetchOffset).toBe(3n)
  })

  test('room that comes free while fetches are being assigned is seen: nobody would ask again', async () => {
    for (let i = 0; i < 6; i++) await scene.produce('in', [`${i}`.repeat(9_000)])
    const one = split(0)
    let taken = 0
    const made: KafkaFetcher = fetcher({
      // Uses everything up at once, as a reader does with batches that have no record for it.
      onData: () => {
        taken += one.buffers.splice(0).length
        made.pump()
        void Promise.resolve().then(() => {
          taken += one.buffers.splice(0).length
          made.pump()
        })
      },
    })
    made.add(one)
    await scene.time.advance(10_000)
    expect(taken).toBe(6)
    expect(one.fetchOffset).toBe(6n)
  })

  test('room that comes free while a leader is looked for is seen, too', async () => {
    for (let i = 0; i < 6; i++) await scene.produce('in', [`${i}`.repeat(9_000)])
    const one = split(0)
    const made = fetcher({
      cluster: overriding(scene.cluster, {
        leaderOf: (topic, partition) =>
          partition === 1 ? new Promise(() => undefined) : scene.cluster.leaderOf(topic, partition),
      }),
    })
    made.add(one)
    await scene.time.advance(2_000)
    expect(one.buffers).toHaveLength(2)
    made.add(split(1))
    await scene.time.advance(5)
    one.buffers.splice(0)
    made.pump()
    await scene.time.advance(2_000)
    expect(one.fetchOffset).toBe(4n)
  })

  test('a split that has reached its stop is not asked for', async () => {
    await scene.produce('in', ['a', 'b'])
    const seen = fetches()
    const made = fetcher()
    made.add(split(0, { stop: 2n, fetchOffset: 2n }))
    const other = split(1)
    made.add(other)
    await scene.time.advance(20)
    expect(seen.map(({ partitions }) => partitions.map(({ partition }) => partition))).toEqual([[1]])
  })

  test('a batch larger than the limit is taken whole', async () => {
    await scene.produce('in', ['x'.repeat(50_000)])
    const one = split(0)
    fetcher().add(one)
    await scene.time.advance(1_000)
    expect(one.buffers).toHaveLength(1)
    expect(wakes).toBe(1)
  })

  test('the list of aborted transactions is kept for read_committed only', async () => {
    await scene.transact('in', ['x'], 'abort')
    const [committed, uncommitted] = [split(0), split(0)]
    fetcher().add(committed)
    fetcher({ isolation: 'read_uncommitted' }).add(uncommitted)
    await scene.time.advance(1_000)
    expect(committed.buffers[0]!.aborted).toHaveLength(1)
    expect(uncommitted.buffers[0]!.aborted).toBeUndefined()
  })

  test('an error of one partition does not hold back the records of another', async () => {
    await scene.produce('in', ['a'], 1)
    const refused: number[] = []
    const made = fetcher({
      onPartitionError: async ({ partition }) => {
        refused.push(partition)
        await scene.time.sleep(60_000)
      },
    })
    made.add(split(0, { fetchOffset: 99n }))
    const good = split(1)
    made.add(good)
    await scene.time.advance(1_000)
    expect(refused).toEqual([0])
    expect(good.buffers).toHaveLength(1)
    expect(wakes).toBe(1)
  })

  test('lost connections are tried again with growing pauses, and that is said', async () => {
    const made = fetcher()
    scene.kafka.isolate('worker')
    const one = split(0)
    made.add(one)
    await scene.time.advance(120_000)
    scene.kafka.reconnect('worker')
    await scene.produce('in', ['a'])
    await scene.time.advance(120_000)
    expect(one.buffers).toHaveLength(1)
    expect(errors).toEqual([])
    expect(scene.warnings().length).toBeGreaterThan(0)
  })

  test('what cannot be helped by trying again is handed over', async () => {
    const made = fetcher({
      onPartitionError: async () => {
        throw new Error('gone')
      },
    })
    made.add(split(0, { fetchOffset: 99n }))
    await scene.time.advance(1_000)
    expect(errors).toEqual([expect.objectContaining({ message: 'gone' })])
  })

  test('after close nothing is asked for and nothing is taken', async () => {
    const one = split(0)
    const made = fetcher()
    made.add(one)
    await scene.time.advance(20)
    made.close()
    const seen = fetches()
    await scene.produce('in', ['a'])
    made.pump()
    await scene.time.advance(5_000)
    expect(one.buffers).toEqual([])
    expect(seen).toEqual([])
  })
})
