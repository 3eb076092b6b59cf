import { describe, expect, test } from '@jest/globals'
import { type Key, type KeyedStateBackend, ValueStateDescriptor } from '../../src/core/state.ts'
import { CachedKeyedStateBackend } from '../../src/state/cached-backend.ts'
import type { CachedBackendOptions } from '../../src/state/cached-parts.ts'
import type { CachedRecord } from '../../src/state/cached-record.ts'
import { recordingLogger } from '../../src/testing/recorded-log.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'
import { SimulatedColdDisk, SimulatedColdStore } from '../../src/testing/simulated-cold-store.ts'
import { stateBackendContract } from '../../src/testing/state-backend-contract.ts'
import {
  type ContractBackendOptions,
  type FuzzLife,
  fuzzStateBackend,
} from '../../src/testing/state-backend-fuzz.ts'

const logger = recordingLogger([], { now: () => 0 })

/** About three records of the suite. */
const TINY = 1_200

type Mode = Pick<CachedBackendOptions, 'durableAs' | 'localCopy' | 'incremental' | 'cacheMaxBytes'>

const disks = new WeakMap<FuzzLife, SimulatedColdDisk>()
const anyLife: FuzzLife = { seed: 1, probing: false }

function diskOf(life: FuzzLife): SimulatedColdDisk {
  let disk = disks.get(life)
  if (disk === undefined) {
    disk = new SimulatedColdDisk()
    disks.set(life, disk)
  }
  return disk
}

/** Makes backends over the simulated store. */
function over(mode: Mode, Backend = CachedKeyedStateBackend, failures?: number) {
  return (options: ContractBackendOptions) => {
    const life = options.life ?? anyLife
    const random = new SeededRandom(life.seed)
    const chance = life.probing || failures === undefined ? undefined : () => failures
    return new Backend({
      ...options,
      ...mode,
      entriesPerSlice: 3,
      logger,
      openStore: async (origins) =>
        new SimulatedColdStore(
          { disk: diskOf(life), random, ...(chance === undefined ? {} : { failures: chance }) },
          origins,
        ),
    })
  }
}

const modes: Record<string, Mode> = {
  'a cache over a durable store': {
    durableAs: 'simulated',
    localCopy: false,
    incremental: true,
    cacheMaxBytes: TINY,
  },
  'a cache over a local store, in layers': {
    durableAs: undefined,
    localCopy: false,
    incremental: true,
    cacheMaxBytes: TINY,
  },
  'a cache over a local store, each checkpoint whole': {
    durableAs: undefined,
    localCopy: false,
    incremental: false,
    cacheMaxBytes: TINY,
  },
  'a cache over a local store that can be recovered': {
    durableAs: undefined,
    localCopy: true,
    incremental: true,
    cacheMaxBytes: TINY,
  },
  'a cache that is large enough': {
    durableAs: 'simulated',
    localCopy: false,
    incremental: true,
    cacheMaxBytes: 1 << 20,
  },
}

/** The keys of all state, the cold part included. */
async function keysOf(backend: KeyedStateBackend, stateName: string): Promise<Key[]> {
  const frozen = backend.freeze(1_000)
  const whole = new CachedKeyedStateBackend({
    ...withoutStore,
    range: { start: 0, end: 127 },
    maxParallelism: 128,
  })
  whole.restore(await frozen.materialize(() => Promise.resolve()))
  frozen.release()
  return [...whole.keys(stateName)]
}

const withoutStore: CachedBackendOptions = {
  range: { start: 0, end: 7 },
  maxParallelism: 8,
  operatorName: 'contract',
  clock: { now: () => 0 },
  entriesPerSlice: 3,
  durableAs: undefined,
  localCopy: false,
  incremental: true,
  cacheMaxBytes: Number.POSITIVE_INFINITY,
  openStore: undefined,
  logger,
}

for (const [name, mode] of Object.entries(modes))
  stateBackendContract(name, { describe, test, expect }, over(mode), {
    keysOf,
    countsEntries: false,
    seeds: 4,
    steps: 180,
  })

stateBackendContract(
  'a cache without a store',
  { describe, test, expect },
  (options) => new CachedKeyedStateBackend({ ...withoutStore, ...options }),
  { seeds: 4, steps: 180 },
)

describe('the contract itself', () => {
  test('notices a cache that hands out frozen records without writing them first', async () => {
    class HandsOutFrozenRecords extends CachedKeyedStateBackend {
      protected override captureBeforeTouch(record: CachedRecord): void {
        record.version = this.tables.version
      }
    }
    const { durableAs, ...rest } = modes['a cache that is large enough']!
    const run = fuzzStateBackend(over({ durableAs, ...rest }, HandsOutFrozenRecords), 2, 250)
    await expect(run).rejects.toThrow(/Seed 2, .*image and state at the freeze/)
  })

  test('state that was not loaded is refused, naming the operator', async () => {
    const backend = over(modes['a cache over a durable store']!)({ ...withoutStore, operatorName: 'count' })
    await backend.restoreFrom([], { get: () => Promise.reject(new Error('nothing is read')) })
    const state = backend.getState(new ValueStateDescriptor<string>('v'))
    const keys = Array.from({ length: 20 }, (_, i) => `user-${i}`)
    for (const key of keys) {
      await backend.prefetch([key])
      backend.setCurrentKey(key)
      state.update('x'.repeat(100))
    }
    expect(() => {
      for (const key of keys) {
        backend.setCurrentKey(key)
        state.value()
      }
    }).toThrow(/'count'.*not loaded/)
    await backend.prefetch(keys)
    for (const key of keys) {
      backend.setCurrentKey(key)
      expect(state.value()).toBe('x'.repeat(100))
    }
    await backend.close()
  })
})

describe('with a store and checkpoint storage that fail now and then', () => {
  for (const [name, mode] of Object.entries(modes))
    for (let seed = 1; seed <= 2; seed++)
      test(`${name} loses nothing (seed ${seed})`, () =>
        fuzzStateBackend(over(mode, CachedKeyedStateBackend, 0.05), seed, 180, { failures: 0.1 }))
  for (let seed = 1; seed <= 14; seed++)
    test(`a cache without a store loses nothing (seed ${seed})`, () =>
      fuzzStateBackend((options) => new CachedKeyedStateBackend({ ...withoutStore, ...options }), seed, 900, {
        failures: 0.1,
      }))
})
