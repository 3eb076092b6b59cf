/** What snapshots and caches do to the record path of a job and to its memory. */
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { SavepointScene } from '../runtime/savepoint-scene.ts'
import { FedSource } from './fed-source.ts'
import { type Counted, counting } from './local-jobs.ts'

jest.setTimeout(30_000)

let scene: SavepointScene
let source: FedSource<number>
let counted: Counted[]
beforeEach(async () => {
  scene = await SavepointScene.open()
  source = new FedSource()
  counted = []
})
afterEach(() => scene.close())

const keys = (count: number): number[] => Array.from({ length: count }, (_, i) => i)

async function until(what: string, isTrue: () => boolean): Promise<void> {
  const deadline = Date.now() + 20_000
  while (!isTrue()) {
    if (Date.now() > deadline) throw new Error(`not within 20 s: ${what}\n${scene.logged.join('\n')}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** So many turns of the event loop: more than any record takes that nothing holds up. */
async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve))
}

describe('state.backend.async', () => {
  test.each([true, false])('%s: whether records go on while a snapshot is stored', async (async) => {
    const storing = Promise.withResolvers<void>()
    const stored = Promise.withResolvers<void>()
    const master = await scene.start({
      declare: counting(source, (each) => counted.push(each)),
      config: { 'state.backend': 'filesystem', 'state.backend.async': async },
      storage: (storage) => ({
        ...storage,
        begin: async (run, attempt) => {
          const own = await storage.begin(run, attempt)
          return {
            ...own,
            blobs: (n) => ({
              ...own.blobs(n),
              put: async (name, bytes) => {
                if (!name.includes('keyed')) return own.blobs(n).put(name, bytes)
                storing.resolve()
                await stored.promise
                return own.blobs(n).put(name, bytes)
              },
            }),
          }
        },
      }),
    })
    const end = master.run()
    source.feed(...keys(10))
    await until('all is counted', () => counted.length === 10)
    const checkpoint = master.triggerCheckpoint()
    await storing.promise
    source.feed(1)
    await turns(200)
    expect(counted).toHaveLength(async ? 11 : 10)
    stored.resolve()
    expect(await checkpoint).toBe(1)
    await until('the record is counted', () => counted.length === 11)
    await master.cancel()
    await end
  })
})

describe('state.backend.cache.max-bytes', () => {
  const MB = 1 << 20
  const KEYS = 6_000

  const gauge = (name: string): number =>
    scene.metrics.read().reduce((sum, reading) => sum + (reading.name === name ? reading.value : 0), 0)

  test.each([
    ['1 mb', true],
    ['256 mb', false],
  ])('%s: whether keys beyond it are read from the disk when they come again', async (size, evicts) => {
    const master = await scene.start({
      declare: counting(source, (each) => counted.push(each)),
      config: { 'state.backend': 'rocksdb', 'state.backend.cache.max-bytes': size },
    })
    const end = master.run()
    source.feed(...keys(KEYS))
    await until('all is counted', () => counted.length === KEYS)
    await master.triggerCheckpoint()
    const before = gauge('state_cache_misses')
    source.feed(...keys(KEYS))
    await until('all is counted again', () => counted.length === 2 * KEYS)
    expect(gauge('state_cache_misses') > before).toBe(evicts)
    expect(gauge('state_cache_bytes') < 1.6 * MB).toBe(evicts)
    expect(counted.at(-1)).toEqual({ key: KEYS - 1, count: 2 })
    await master.cancel()
    await end
  })
})
