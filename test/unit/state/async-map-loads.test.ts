import { describe, expect, jest, test } from '@jest/globals'
import { AsyncMapStateDescriptor, StateTtlConfig, ValueStateDescriptor } from '../../../src/core/state.ts'
import { CachedKeyedStateBackend } from '../../../src/state/cached-backend.ts'
import type { ColdKey } from '../../../src/state/cold-store.ts'
import { recordingLogger } from '../../../src/testing/recorded-log.ts'
import { SeededRandom } from '../../../src/testing/seeded-random.ts'
import { SimulatedColdDisk, SimulatedColdStore } from '../../../src/testing/simulated-cold-store.ts'

// The largest map has a hundred thousand records, and the store takes a turn for a call.
jest.setTimeout(60_000)

/** What was asked of the store. */
class Loads {
  calls = 0
  rows = 0
  bytes = 0

  take(): { readonly calls: number; readonly rows: number; readonly bytes: number } {
    const { calls, rows, bytes } = this
    this.calls = this.rows = this.bytes = 0
    return { calls, rows, bytes }
  }
}

class CountingStore extends SimulatedColdStore {
  loads: Loads | undefined

  override async load(keys: readonly ColdKey[]): Promise<(Uint8Array | undefined)[]> {
    const found = await super.load(keys)
    if (this.loads !== undefined) {
      this.loads.calls++
      this.loads.rows += keys.length
      for (const value of found) this.loads.bytes += value?.length ?? 0
    }
    return found
  }
}

const stock = () => new AsyncMapStateDescriptor<number, string>('stock')
const PER_VECTOR = 2_000

/** A backend whose cache holds a fraction of the map of `entries` entries under the key 'shop', 20 bytes each, put without a read. */
async function withLargeMap(entries: number, descriptor = stock()) {
  const loads = new Loads()
  const time = { now: 0 }
  const backend = new CachedKeyedStateBackend({
    range: { start: 0, end: 7 },
    maxParallelism: 8,
    operatorName: 'count',
    clock: { now: () => time.now },
    durableAs: 'simulated',
    localCopy: false,
    incremental: true,
    cacheMaxBytes: 1 << 20,
    logger: recordingLogger([], { now: () => 0 }),
    openStore: async (origins) => {
      const store = new CountingStore({ disk: new SimulatedColdDisk(), random: new SeededRandom(1) }, origins)
      store.loads = loads
      return store
    },
  })
  await backend.restoreFrom([], { get: () => Promise.reject(new Error('nothing is read')) })
  const map = backend.getAsyncMapState(descriptor)
  const call = async <R>(work: () => R | Promise<R>): Promise<R> => {
    await backend.prefetch(['shop'])
    backend.setCurrentKey('shop')
    const result = await work()
    await backend.settle()
    return result
  }
  for (let first = 0; first < entries; first += PER_VECTOR)
    await call(() => {
      for (let i = first; i < Math.min(first + PER_VECTOR, entries); i++)
        map.put(i, `item ${i} `.padEnd(20, '.'))
    })
  // The hand passes over what is not used any more.
  const other = backend.getState(new ValueStateDescriptor<string>('other'))
  for (let i = 0; i < 40; i++) {
    const keys = Array.from({ length: 150 }, (_, n) => `other-${i}-${n}`)
    await backend.prefetch(keys)
    for (const key of keys) {
      backend.setCurrentKey(key)
      other.update('x'.repeat(50))
    }
    await backend.settle()
  }
  loads.take()
  return { backend, map, call, loads, time }
}

/** A row of an entry, a header or a name, and what belongs to it. */
const ROW = 64

describe('an async map of 100,000 entries under one key', () => {
  test('costs one row for one entry, one round trip for many, and one bucket for a new one', async () => {
    const { backend, map, call, loads } = await withLargeMap(100_000)
    expect(backend.cacheBytes).toBeLessThan(2 << 20)

    expect(await call(() => map.get(77))).toBe('item 77 ............'.slice(0, 20))
    const one = loads.take()
    expect(one.calls).toBeLessThanOrEqual(2)
    expect(one.rows).toBeLessThanOrEqual(2)
    expect(one.bytes).toBeGreaterThan(20)
    expect(one.bytes).toBeLessThan(2 * ROW)

    const keys = Array.from({ length: 50 }, (_, i) => 1_000 + i)
    expect((await call(() => map.getAll(keys))).size).toBe(50)
    const many = loads.take()
    expect(many.calls).toBe(1)
    expect(many.bytes).toBeLessThan(50 * ROW)

    await call(async () => map.put(77, `${await map.get(77)}!`))
    expect(loads.take()).toEqual({ calls: 0, rows: 0, bytes: 0 })

    await call(() => map.put(-1, 'new'))
    const added = loads.take()
    expect(added.rows).toBeLessThanOrEqual(4)
    expect(added.bytes).toBeLessThan(10_000)

    await call(async () => expect(await map.isEmpty()).toBe(false))
    expect(loads.take().rows).toBe(0)
    await backend.close()
  })

  test('can be looked through and emptied in a cache that holds a part of it', async () => {
    const { backend, map, call, loads } = await withLargeMap(10_000)
    let most = 0
    let sum = 0
    await call(async () => {
      for await (const [key] of map.entries()) {
        sum += key
        most = Math.max(most, backend.cacheBytes)
      }
    })
    expect(sum).toBe((10_000 * 9_999) / 2)
    expect(most).toBeLessThan(1.5 * (1 << 20))
    // Two round trips for a page of some hundred entries.
    expect(loads.take().calls).toBeLessThan(100)
    await call(() => map.clear())
    // No entry is read to be removed.
    expect(loads.take().rows).toBeLessThan(500)
    await call(async () => expect(await map.get(5)).toBe(undefined))
    const frozen = backend.freeze(1)
    const images = await frozen.materialize(() => Promise.resolve())
    frozen.release()
    const text = images.map(({ bytes }) => Buffer.from(bytes).toString('latin1')).join('')
    expect(text).toContain('other-39-149')
    expect(text).not.toContain('item ')
    await backend.close()
  })

  test('loses the entries that have expired when it grows, not only when it is looked through', async () => {
    const descriptor = stock().enableTimeToLive(StateTtlConfig.of(100))
    const { backend, map, call, time, loads } = await withLargeMap(2_000, descriptor)
    for (let round = 1; round <= 12; round++) {
      time.now = round * 101
      await call(() => {
        for (let i = 0; i < 500; i++) map.put(round * 10_000 + i, 'again')
      })
    }
    loads.take()
    await call(async () => {
      let shown = 0
      for await (const _ of map.keys()) shown++
      expect(shown).toBe(500)
    })
    // The 500 that live, and what is left of the others: 8,000 were put.
    expect(loads.take().rows).toBeLessThan(3_000)
    await backend.close()
  })
})
