import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Key, KeyedStateBackend } from '../../src/core/state.ts'
import { CachedKeyedStateBackend } from '../../src/state/cached-backend.ts'
import type { CachedBackendOptions } from '../../src/state/cached-parts.ts'
import type { RedisState } from '../../src/state/redis-state.ts'
import { stateBackendContract } from '../../src/testing/state-backend-contract.ts'
import type { ContractBackendOptions, FuzzLife } from '../../src/testing/state-backend-fuzz.ts'
import { RedisProcess, SAFE } from '../integration/redis/redis-process.ts'
import { RedisScene } from '../integration/redis/redis-scene.ts'

const scene = new RedisScene()
let server: RedisProcess
let state: RedisState
beforeAll(async () => {
  server = await RedisProcess.start({ ...SAFE, appendfsync: 'no' })
  state = await scene.state(server.url, { persistence: 'any' })
}, 60_000)
afterAll(async () => {
  await scene.close()
  await server.stop()
})

/** Each life of the suite is a run, each backend of it an attempt. A backend that only looks at a checkpoint is a run that copies it. */
const lives = new WeakMap<FuzzLife, { readonly run: string; attempt: number }>()
let runs = 0

function cacheOverRedis(options: ContractBackendOptions): CachedKeyedStateBackend {
  const { life } = options
  const resumed = life === undefined || life.probing ? undefined : lives.get(life)
  const own = resumed ?? { run: `run-${++runs}`, attempt: 0 }
  if (life !== undefined && !life.probing) lives.set(life, own)
  const attempt = ++own.attempt
  return new CachedKeyedStateBackend({
    ...mode,
    ...options,
    openStore: state.storeOf({ run: own.run, attempt, operator: options.operatorName, range: options.range }),
  })
}

const mode: CachedBackendOptions = {
  range: { start: 0, end: 127 },
  maxParallelism: 128,
  operatorName: 'contract',
  clock: { now: () => 0 },
  entriesPerSlice: 3,
  durableAs: 'redis',
  localCopy: false,
  incremental: true,
  // About three records of the suite, so that most of the state lies in Redis.
  cacheMaxBytes: 1_200,
  openStore: undefined,
  logger: scene.log,
}

/** The keys of all state, what lies in Redis included. */
async function keysOf(backend: KeyedStateBackend, stateName: string): Promise<Key[]> {
  const frozen = backend.freeze(1_000)
  const whole = new CachedKeyedStateBackend({
    ...mode,
    durableAs: undefined,
    cacheMaxBytes: Number.POSITIVE_INFINITY,
  })
  whole.restore(await frozen.materialize(() => Promise.resolve()))
  frozen.release()
  return [...whole.keys(stateName)]
}

stateBackendContract(
  'a cache over Redis',
  { describe, test: (name, run) => test(name, run, 120_000), expect },
  cacheOverRedis,
  { keysOf, countsEntries: false, seeds: 8 },
)
