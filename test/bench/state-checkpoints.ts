/**
 * Checkpoints and restores of one keyed operator's state, without brokers, in a process of its own: `node test/bench/state-checkpoints.ts
 * <variant> <keys> <cache bytes> [redis url]`. The last line is a `CheckpointFigures` as JSON. What is restored is compared with what was
 * there, key by key.
 */
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setImmediate as turn } from 'node:timers/promises'
import { type BlobStore, type KeyedStateHandle, packImages } from '../../src/checkpoint/checkpoint-storage.ts'
import { type SelfStoringState, storesItself } from '../../src/checkpoint/keyed-snapshot.ts'
import { type KeyedStateBackend, ValueStateDescriptor } from '../../src/core/state.ts'
import { MetricRegistry } from '../../src/metrics/metrics.ts'
import { realWorld } from '../../src/runtime/real-world.ts'
import { loadState } from '../../src/runtime/restore.ts'
import { JobDirectory } from '../../src/state/job-directory.ts'
import { keyedBackends } from '../../src/state/keyed-backends.ts'
import { RedisState } from '../../src/state/redis-state.ts'

/** A backend with the settings that matter. */
export type Variant = 'filesystem' | 'filesystem-incremental' | 'rocksdb' | 'rocksdb-local' | 'redis'

/** One checkpoint. */
export interface CheckpointFigure {
  readonly ms: number
  readonly bytes: number
  /** The freeze, during which no record is processed. */
  readonly freezeMs: number
  /** The longest time for which the event loop stood still while it was taken and written: no record is processed then either. */
  readonly pauseMs: number
}

/** What one run gives. */
export interface CheckpointFigures {
  readonly variant: Variant
  readonly keys: number
  readonly full: CheckpointFigure
  /** 1 % of the keys had changed. */
  readonly few: CheckpointFigure
  /** All had. */
  readonly all: CheckpointFigure
  /** Until a new backend had given the state of its first vectors. */
  readonly restoreMs: number
  readonly right: boolean
  readonly peakRssMb: number
}

interface Total {
  user: string
  count: number
  sum: number
}

const MAX_PARALLELISM = 128
const VECTOR = 256
const RUN = 'bench'
const FIRST_VECTORS = 4
const LOOP_RESOLUTION_MS = 1

const [variant, keyCount, cacheBytes, redisUrl] = process.argv.slice(2) as [Variant, string, string, string?]
const keys = Number(keyCount)
const silent = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent }
const world = realWorld(silent, new MetricRegistry())
const folder = await mkdtemp(join(tmpdir(), 'millrace-bench-state-'))
const directory = new JobDirectory({ root: join(folder, 'checkpoints'), job: RUN, memoryThreshold: 0 })
const job = `bench-${randomUUID().slice(0, 8)}`
const redis =
  variant === 'redis'
    ? await RedisState.open({
        url: redisUrl as string,
        timeoutMs: 60_000,
        persistence: 'any',
        replicas: 1,
        job,
        logger: silent,
      })
    : undefined

function backend(attempt: number): KeyedStateBackend {
  return keyedBackends({
    backend: variant === 'redis' ? 'redis' : variant.startsWith('rocksdb') ? 'rocksdb' : 'filesystem',
    incremental: variant !== 'filesystem',
    localRecovery: variant === 'rocksdb-local',
    localRoots: [join(folder, 'local')],
    cacheMaxBytes: Number(cacheBytes),
    world,
    redis,
  })({
    run: RUN,
    range: { start: 0, end: MAX_PARALLELISM - 1 },
    maxParallelism: MAX_PARALLELISM,
    info: { jobName: job, operatorName: 'count', uid: 'count', subtaskIndex: 0, parallelism: 1, attempt },
  })
}

/** Calls `visit` for each key of the range, in vectors, as an operator does. */
async function eachKey(
  on: KeyedStateBackend,
  from: number,
  to: number,
  visit: (user: string) => void,
): Promise<void> {
  for (let at = from; at < to; at += VECTOR) {
    const users = Array.from({ length: Math.min(VECTOR, to - at) }, (_, i) => `u${at + i}`)
    await on.prefetch(users)
    for (const user of users) {
      on.setCurrentKey(user)
      visit(user)
    }
    if ((at / VECTOR) % 16 === 0) await turn()
  }
}

const descriptor = () => new ValueStateDescriptor<Total>('total')

async function count(on: KeyedStateBackend, from: number, to: number): Promise<void> {
  const state = on.getState(descriptor())
  await eachKey(on, from, to, (user) => {
    const total = state.value() ?? { user, count: 0, sum: 0 }
    total.count++
    total.sum += 1.25
    state.update(total)
  })
}

/** Takes a checkpoint as a subtask does. */
async function checkpoint(
  on: KeyedStateBackend,
  n: number,
  blobs: BlobStore,
): Promise<{ figure: CheckpointFigure; handle: KeyedStateHandle }> {
  let bytes = 0
  const counting: BlobStore = {
    get: (handle) => blobs.get(handle),
    discard: (handle) => blobs.discard(handle),
    put: (name, content) => {
      bytes += content.length
      return blobs.put(name, content)
    },
  }
  const loop = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS })
  loop.enable()
  const started = performance.now()
  const frozen = on.freeze(n)
  const frozenAt = performance.now()
  const pause = (): Promise<void> => turn()
  let handle: KeyedStateHandle | undefined
  if ('store' in frozen)
    handle = await (frozen as SelfStoringState).store({
      n,
      blobs: counting,
      name: `count-${n}`,
      pause,
    })
  else {
    const packed = packImages(await frozen.materialize(pause))
    handle = { handle: await counting.put(`count-${n}`, packed.bytes), keyGroups: packed.keyGroups }
  }
  frozen.release()
  loop.disable()
  if (handle === undefined) throw new Error('there was no state to store')
  if (handle.kind === 'external') bytes += handle.size
  return {
    handle: JSON.parse(JSON.stringify(handle)) as KeyedStateHandle,
    figure: {
      ms: performance.now() - started,
      bytes,
      freezeMs: frozenAt - started,
      pauseMs: Math.max(0, loop.max / 1e6 - LOOP_RESOLUTION_MS),
    },
  }
}

async function restored(attempt: number, handle: KeyedStateHandle): Promise<KeyedStateBackend> {
  const next = backend(attempt)
  if (storesItself(next)) {
    await next.restoreFrom([handle], directory)
    return next
  }
  const shape = { uid: 'count', name: 'count', parallelism: 1, maxParallelism: MAX_PARALLELISM }
  const graph = {
    vertices: [{ operators: [{ uid: 'count' }], parallelism: 1, maxParallelism: MAX_PARALLELISM }],
  }
  const state = await loadState(
    { n: 1, operators: [shape], states: [{ uid: 'count', subtask: 0, keyed: handle }] } as never,
    graph as never,
    directory,
    undefined as never,
    false,
  )
  next.restore(await state.operator('count')!.images(0))
  return next
}

try {
  const first = backend(1)
  if (storesItself(first)) await first.restoreFrom([], directory)
  const storage = await directory.begin(RUN, 1)
  await count(first, 0, keys)
  const full = await checkpoint(first, 1, storage.blobs(1))
  const fewKeys = Math.ceil(keys / 100)
  await count(first, 0, fewKeys)
  const few = await checkpoint(first, 2, storage.blobs(2))
  if (storesItself(first)) first.retainedFrom(2)
  await count(first, 0, keys)
  const all = await checkpoint(first, 3, storage.blobs(3))
  if (storesItself(first)) first.retainedFrom(3)
  await first.close()
  const began = performance.now()
  const second = await restored(2, all.handle)
  const state = second.getState(descriptor())
  let wrong = 0
  const compare = (user: string): void => {
    const expected = Number(user.slice(1)) < fewKeys ? 3 : 2
    const total = state.value()
    if (total?.count !== expected || total.sum !== expected * 1.25 || total.user !== user) wrong++
  }
  await eachKey(second, 0, Math.min(keys, FIRST_VECTORS * VECTOR), compare)
  const restoreMs = performance.now() - began
  await eachKey(second, 0, keys, compare)
  await second.close()
  const figures: CheckpointFigures = {
    variant,
    keys,
    full: full.figure,
    few: few.figure,
    all: all.figure,
    restoreMs,
    right: wrong === 0,
    peakRssMb: Math.round(process.resourceUsage().maxRSS / 1_024),
  }
  console.log(JSON.stringify(figures))
} finally {
  await redis?.discard()
  await redis?.close()
  await rm(folder, { recursive: true, force: true })
}
