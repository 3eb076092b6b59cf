import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { SelfStoringState } from '../../src/checkpoint/keyed-snapshot.ts'
import { ValueStateDescriptor } from '../../src/core/state.ts'
import { CachedKeyedStateBackend } from '../../src/state/cached-backend.ts'
import type { CachedRecord } from '../../src/state/cached-record.ts'
import { MemoryBlobStore } from '../../src/state/memory-blob-store.ts'
import { recordingLogger } from '../../src/testing/recorded-log.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'
import { SimulatedColdDisk, SimulatedColdStore } from '../../src/testing/simulated-cold-store.ts'

interface Total {
  count: number
  items: number[]
}

const KEYS = 7
const logger = recordingLogger([], { now: () => 0 })
const descriptor = () => new ValueStateDescriptor<Total>('total')

/** User code changes what it read; between two calls a checkpoint begins, goes on by a slice, or is given up. */
const operation = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant('change' as const), key: fc.nat(KEYS - 1) }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constantFrom('read' as const, 'clear' as const), key: fc.nat(KEYS - 1) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constantFrom('freeze' as const, 'release' as const), key: fc.constant(0) }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('slice' as const), key: fc.constant(0) }) },
)
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never

interface Flight {
  readonly frozen: SelfStoringState
  readonly expected: string
  stored: Promise<void> | undefined
  go: (() => void) | undefined
  ended: boolean
}

type MakeBackend = typeof CachedKeyedStateBackend

function make(Backend: MakeBackend, disk: SimulatedColdDisk, durable: boolean, cacheMaxBytes: number) {
  return new Backend({
    range: { start: 0, end: 3 },
    maxParallelism: 4,
    operatorName: 'count',
    clock: { now: () => 0 },
    entriesPerSlice: 1,
    durableAs: durable ? 'simulated' : undefined,
    localCopy: false,
    incremental: true,
    cacheMaxBytes,
    logger,
    openStore: async (origins) => new SimulatedColdStore({ disk, random: new SeededRandom(1) }, origins),
  })
}

const contents = (totals: ReadonlyMap<number, Total>): string =>
  JSON.stringify([...totals].sort(([a], [b]) => a - b))

async function held(backend: CachedKeyedStateBackend): Promise<string> {
  const state = backend.getState(descriptor())
  const totals = new Map<number, Total>()
  for (let key = 0; key < KEYS; key++) {
    await backend.prefetch([key])
    backend.setCurrentKey(key)
    const total = state.value()
    if (total !== null) totals.set(key, structuredClone(total))
  }
  return contents(totals)
}

/** Checkpoints that do not hold the state at their freeze. */
async function differences(
  Backend: MakeBackend,
  operations: readonly Operation[],
  durable: boolean,
  cacheMaxBytes: number,
): Promise<string[]> {
  const disk = new SimulatedColdDisk()
  const blobs = new MemoryBlobStore()
  const backend = make(Backend, disk, durable, cacheMaxBytes)
  await backend.restoreFrom([], blobs)
  const state = backend.getState(descriptor())
  const totals = new Map<number, Total>()
  const flights: Flight[] = []
  const wrong: string[] = []
  let n = 0

  const start = async (flight: Flight): Promise<void> => {
    const pause = (): Promise<void> =>
      new Promise((resolve) => {
        flight.go = resolve
      })
    const handle = await flight.frozen.store({ n: ++n, blobs, name: `s${n}`, pause })
    const restored = make(CachedKeyedStateBackend, disk, durable, cacheMaxBytes)
    await restored.restoreFrom(handle === undefined ? [] : [handle], blobs)
    const actual = await held(restored)
    if (actual !== flight.expected) wrong.push(`${actual} is not ${flight.expected}`)
    await restored.close()
  }
  const slice = async (): Promise<void> => {
    const [flight] = flights
    if (flight === undefined) return
    flight.stored ??= start(flight).finally(() => {
      flight.ended = true
    })
    const { go } = flight
    flight.go = undefined
    go?.()
    while (!flight.ended && flight.go === undefined) await new Promise((turn) => setImmediate(turn))
    if (!flight.ended) return
    await flight.stored
    flights.shift()
  }

  for (const { do: what, key } of operations) {
    if (what === 'freeze') {
      if (flights.length < 3)
        flights.push({
          frozen: backend.freeze(1),
          expected: contents(totals),
          stored: undefined,
          go: undefined,
          ended: false,
        })
      continue
    }
    if (what === 'slice') {
      await slice()
      continue
    }
    if (what === 'release') {
      const last = flights.at(-1)
      if (last === undefined || last.stored !== undefined) continue
      last.frozen.release()
      flights.pop()
      continue
    }
    await backend.prefetch([key])
    backend.setCurrentKey(key)
    if (what === 'change') {
      const total = state.value() ?? { count: 0, items: [] }
      total.count++
      total.items.push(total.count)
      state.update(total)
      totals.set(key, structuredClone(total))
    } else if (what === 'clear') {
      state.clear()
      totals.delete(key)
    } else expect(state.value()).toEqual(totals.get(key) ?? null)
  }
  while (flights.length > 0) await slice()
  await backend.close()
  return wrong
}

const operations = fc.array(operation, { minLength: 20, maxLength: 80 })

for (const [name, durable, cacheMaxBytes] of [
  ['over a durable store, evicting all the time', true, 1],
  ['in layers, evicting all the time', false, 1],
  ['in layers, with room for all', false, 1 << 20],
] as const)
  test(`every checkpoint is the state at its freeze, whatever changes while it is written: ${name}`, async () => {
    await fc.assert(
      fc.asyncProperty(operations, async (list) => {
        expect(await differences(CachedKeyedStateBackend, list, durable, cacheMaxBytes)).toEqual([])
      }),
      { numRuns: 40 },
    )
  })

test('the property notices a cache that writes records only when their turn comes', async () => {
  class TurnsOnly extends CachedKeyedStateBackend {
    protected override captureBeforeTouch(record: CachedRecord): void {
      record.version = this.tables.version
    }
  }
  const found = await fc.check(
    fc.asyncProperty(
      operations,
      async (list) => (await differences(TurnsOnly as MakeBackend, list, true, 1 << 20)).length === 0,
    ),
    { numRuns: 60, endOnFailure: true },
  )
  expect(found.failed).toBe(true)
})
