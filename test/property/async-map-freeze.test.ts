import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { storesItself } from '../../src/checkpoint/keyed-snapshot.ts'
import {
  AsyncMapStateDescriptor,
  type FrozenKeyedState,
  type KeyedStateBackend,
} from '../../src/core/state.ts'
import { CachedKeyedStateBackend } from '../../src/state/cached-backend.ts'
import type { CachedRecord } from '../../src/state/cached-record.ts'
import { HeapKeyedStateBackend } from '../../src/state/heap-backend.ts'
import { MemoryBlobStore } from '../../src/state/memory-blob-store.ts'
import { openEmpty, restoreImages } from '../../src/testing/backend-images.ts'
import { recordingLogger } from '../../src/testing/recorded-log.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'
import { SimulatedColdDisk, SimulatedColdStore } from '../../src/testing/simulated-cold-store.ts'
import { allOf } from '../../src/testing/state-backend-model.ts'

interface Total {
  count: number
}

const KEYS = 3
const logger = recordingLogger([], { now: () => 0 })
const descriptor = () => new AsyncMapStateDescriptor<number, Total>('totals')

/** User code changes what it read, puts and removes without a read; between two calls a checkpoint begins, goes on, or is given up. */
const operation = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constantFrom('change' as const, 'put' as const, 'remove' as const),
      key: fc.nat(KEYS - 1),
      first: fc.nat(60),
      entries: fc.constantFrom(1, 2, 90),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('clear' as const),
      key: fc.nat(KEYS - 1),
      first: fc.constant(0),
      entries: fc.constant(0),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('freeze' as const, 'slice' as const, 'slice' as const, 'release' as const),
      key: fc.constant(0),
      first: fc.constant(0),
      entries: fc.constant(0),
    }),
  },
)
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never

type Model = Map<number, Map<number, Total>>
type Make = (disk: SimulatedColdDisk) => KeyedStateBackend

const base = {
  range: { start: 0, end: 1 },
  maxParallelism: 2,
  operatorName: 'count',
  clock: { now: () => 0 },
  entriesPerSlice: 1,
}
const cached =
  (cacheMaxBytes: number, durable: boolean, Backend = CachedKeyedStateBackend): Make =>
  (disk) =>
    new Backend({
      ...base,
      durableAs: durable ? 'simulated' : undefined,
      localCopy: false,
      incremental: true,
      cacheMaxBytes,
      logger,
      openStore: async (origins) => new SimulatedColdStore({ disk, random: new SeededRandom(1) }, origins),
    })
const heap: Make = () => new HeapKeyedStateBackend(base)

const contents = (model: Model): string =>
  JSON.stringify(
    Array.from({ length: KEYS }, (_, key) => [...(model.get(key) ?? [])].sort(([a], [b]) => a - b)),
  )

async function held(backend: KeyedStateBackend): Promise<string> {
  const map = backend.getAsyncMapState(descriptor())
  const model: Model = new Map()
  for (let key = 0; key < KEYS; key++) {
    await backend.prefetch([key])
    backend.setCurrentKey(key)
    model.set(key, new Map(await allOf(map.entries())))
    await backend.settle()
  }
  return contents(model)
}

/** A checkpoint in flight. */
class Flight {
  readonly frozen: FrozenKeyedState
  readonly expected: string
  go: (() => void) | undefined
  started = false
  ended = false

  constructor(frozen: FrozenKeyedState, expected: string) {
    this.frozen = frozen
    this.expected = expected
  }
}

/** Checkpoints that do not hold the state at their freeze. */
async function differences(make: Make, operations: readonly Operation[]): Promise<string[]> {
  const disk = new SimulatedColdDisk()
  const blobs = new MemoryBlobStore()
  const backend = await openEmpty(make(disk))
  const map = backend.getAsyncMapState(descriptor())
  const model: Model = new Map()
  const flights: Flight[] = []
  const wrong: string[] = []
  let n = 0

  const write = async (flight: Flight): Promise<void> => {
    const pause = (): Promise<void> =>
      new Promise((resolve) => {
        flight.go = resolve
      })
    const restored = make(disk)
    if (storesItself(backend) && storesItself(restored)) {
      const target = { n: ++n, blobs, name: `s${n}`, pause }
      const handle = await (flight.frozen as ReturnType<typeof backend.freeze>).store(target)
      await restored.restoreFrom(handle === undefined ? [] : [handle], blobs)
    } else await restoreImages(restored, await flight.frozen.materialize(pause))
    const actual = await held(restored)
    if (actual !== flight.expected) wrong.push(`${actual} is not ${flight.expected}`)
    await restored.close()
  }
  const slice = async (): Promise<void> => {
    const [flight] = flights
    if (flight === undefined) return
    if (!flight.started) {
      flight.started = true
      write(flight).then(
        () => {
          flight.ended = true
        },
        (error: unknown) => {
          wrong.push(String(error))
          flight.ended = true
        },
      )
    }
    const { go } = flight
    flight.go = undefined
    go?.()
    while (!flight.ended && flight.go === undefined) await new Promise((turn) => setImmediate(turn))
    if (flight.ended) flights.shift()
  }

  for (const each of operations) {
    if (each.do === 'freeze') {
      if (flights.length < 3) flights.push(new Flight(backend.freeze(1), contents(model)))
      continue
    }
    if (each.do === 'slice') {
      await slice()
      continue
    }
    if (each.do === 'release') {
      if (flights.at(-1)?.started !== false) continue
      flights.pop()!.frozen.release()
      continue
    }
    await backend.prefetch([each.key])
    backend.setCurrentKey(each.key)
    const totals = model.get(each.key) ?? new Map<number, Total>()
    model.set(each.key, totals)
    if (each.do === 'clear') {
      await map.clear()
      totals.clear()
    }
    for (let at = each.first; at < each.first + each.entries; at++) {
      if (each.do === 'remove') {
        map.remove(at)
        totals.delete(at)
        continue
      }
      const total = (each.do === 'change' ? await map.get(at) : undefined) ?? { count: 0 }
      total.count++
      map.put(at, total)
      totals.set(at, { ...total })
    }
    await backend.settle()
  }
  while (flights.length > 0) await slice()
  await backend.close()
  return wrong
}

const operations = fc.array(operation, { minLength: 10, maxLength: 40 })

for (const [name, make] of [
  ['on the heap', heap],
  ['over a durable store, evicting all the time', cached(1, true)],
  ['in layers, evicting all the time', cached(1, false)],
  ['in layers, with room for all', cached(1 << 20, false)],
] as const)
  test(`every checkpoint holds the entries at its freeze, whatever changes while it is written: ${name}`, async () => {
    await fc.assert(
      fc.asyncProperty(operations, async (list) => {
        expect(await differences(make, list)).toEqual([])
      }),
      { numRuns: 15 },
    )
  }, 60_000)

test('the property notices a cache that writes entries only when their turn comes', async () => {
  class TurnsOnly extends CachedKeyedStateBackend {
    protected override captureBeforeTouch(record: CachedRecord): void {
      record.version = this.tables.version
    }
  }
  const found = await fc.check(
    fc.asyncProperty(
      operations,
      async (list) => (await differences(cached(1 << 20, true, TurnsOnly), list)).length === 0,
    ),
    { numRuns: 60, endOnFailure: true },
  )
  expect(found.failed).toBe(true)
}, 60_000)
