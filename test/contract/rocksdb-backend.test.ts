import { randomUUID } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, jest, test } from '@jest/globals'
import type { IncrementalHandle, KeyedStateHandle } from '../../src/checkpoint/checkpoint-storage.ts'
import { type Key, type KeyedStateBackend, ValueStateDescriptor } from '../../src/core/state.ts'
import { CachedKeyedStateBackend } from '../../src/state/cached-backend.ts'
import { HeapKeyedStateBackend } from '../../src/state/heap-backend.ts'
import { MemoryBlobStore } from '../../src/state/memory-blob-store.ts'
import { rocksdbState } from '../../src/state/rocksdb-state.ts'
import { asyncMapContract } from '../../src/testing/async-map-contract.ts'
import { restoreImages } from '../../src/testing/backend-images.ts'
import { type LogLine, recordingLogger } from '../../src/testing/recorded-log.ts'
import { type ContractBackendOptions, fuzzStateBackend } from '../../src/testing/state-backend-fuzz.ts'

// Each backend is a database on the disk.
jest.setTimeout(120_000)

/** About three records. */
const TINY = 1_200
const root = mkdtempSync(join(tmpdir(), 'millrace-test-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

interface Life {
  readonly job: string
  readonly localRecovery: boolean
  readonly incremental: boolean
  readonly lines: LogLine[]
  /** Default: about three records, in slices of three. */
  readonly isLarge?: boolean
}

function backendOf(life: Life, options: Partial<ContractBackendOptions> = {}): CachedKeyedStateBackend {
  const logger = recordingLogger(life.lines, { now: () => 0 })
  return new CachedKeyedStateBackend({
    range: { start: 0, end: 7 },
    maxParallelism: 8,
    operatorName: 'count',
    clock: { now: () => 0 },
    ...options,
    durableAs: undefined,
    localCopy: life.localRecovery,
    incremental: life.incremental,
    cacheMaxBytes: life.isLarge === true ? 64 << 20 : TINY,
    entriesPerSlice: life.isLarge === true ? 10_000 : 3,
    logger,
    openStore: rocksdbState({
      roots: [root],
      jobName: life.job,
      uid: 'count',
      subtask: 0,
      operatorName: 'count',
      localRecovery: life.localRecovery,
      uuid: randomUUID,
      logger,
    }),
  })
}

const lifeOf = (job: string, localRecovery: boolean, incremental = true): Life => ({
  job,
  localRecovery,
  incremental,
  lines: [],
})

/** The keys of all state, what lies on the disk included. */
async function keysOf(backend: KeyedStateBackend, stateName: string): Promise<Key[]> {
  const frozen = backend.freeze(1_000)
  const whole = new HeapKeyedStateBackend({
    range: { start: 0, end: 127 },
    maxParallelism: 128,
    operatorName: 'count',
    clock: { now: () => 0 },
  })
  whole.restore(await frozen.materialize(() => Promise.resolve()))
  frozen.release()
  return [...whole.keys(stateName)]
}

describe('on RocksDB', () => {
  let jobs = 0
  asyncMapContract(
    { test, expect },
    (options) => backendOf(lifeOf(`async-${++jobs}`, false), options),
    keysOf,
  )
})

const KEYS = Array.from({ length: 40 }, (_, i) => `user-${i}`)
const descriptor = () => new ValueStateDescriptor<number>('count')

async function addAll(backend: CachedKeyedStateBackend, by: number): Promise<void> {
  const state = backend.getState(descriptor())
  for (const key of KEYS) {
    await backend.prefetch([key])
    backend.setCurrentKey(key)
    state.update((state.value() ?? 0) + by)
  }
}

async function counts(backend: CachedKeyedStateBackend): Promise<Set<number | null>> {
  const state = backend.getState(descriptor())
  const found = new Set<number | null>()
  for (const key of KEYS) {
    await backend.prefetch([key])
    backend.setCurrentKey(key)
    found.add(state.value())
  }
  return found
}

async function checkpoint(
  backend: CachedKeyedStateBackend,
  n: number,
  blobs: MemoryBlobStore,
): Promise<KeyedStateHandle> {
  const frozen = backend.freeze(n)
  const handle = await frozen.store({ n, blobs, name: `count-${n}`, pause: () => Promise.resolve() })
  frozen.release()
  return JSON.parse(JSON.stringify(handle)) as KeyedStateHandle
}

/** A blob store that gives nothing: what is read comes from the local disk. */
const nothing = { get: () => Promise.reject(new Error('the remote copy was read')) }

test.each([
  ['in layers', false, true],
  ['each checkpoint whole', false, false],
  ['with local recovery', true, true],
])('is the model after any operations, freezes and crashes: %s', async (name, localRecovery, incremental) => {
  let lives = 0
  await fuzzStateBackend(
    (options) => {
      // A backend that only looks must not take the folder of the one that runs.
      const probing = options.life?.probing === true
      const job = probing ? `${name} probe ${++lives}` : name
      return backendOf(lifeOf(job, localRecovery && !probing, incremental), options)
    },
    1,
    150,
  )
})

describe('local recovery', () => {
  test('goes on with the state on this machine without reading the checkpoint', async () => {
    const life = lifeOf('recovers', true)
    const blobs = new MemoryBlobStore()
    const first = backendOf(life)
    await first.restoreFrom([], blobs)
    await addAll(first, 1)
    await checkpoint(first, 1, blobs)
    await addAll(first, 10)
    const handle = await checkpoint(first, 2, blobs)
    await addAll(first, 100)
    await first.close()
    const second = backendOf(life)
    await second.restoreFrom([handle], nothing)
    expect(await counts(second)).toEqual(new Set([11]))
    const next = await checkpoint(second, 3, blobs)
    await second.close()
    const third = backendOf(life)
    await third.restoreFrom([next], nothing)
    expect(await counts(third)).toEqual(new Set([11]))
    await third.close()
  })

  test.each([
    ['is stale', (handle: IncrementalHandle) => ({ ...handle, local: edited(handle, { checksum: 1 }) })],
    [
      'is missing',
      (handle: IncrementalHandle) => ({ ...handle, local: edited(handle, { id: randomUUID() }) }),
    ],
    [
      'names a folder elsewhere',
      (handle: IncrementalHandle) => ({ ...handle, local: edited(handle, { id: '../x' }) }),
    ],
    ['is damaged', (handle: IncrementalHandle, job: string) => damage(job, handle)],
  ])('a copy that %s is not used; the checkpoint is', async (name, change) => {
    const life = lifeOf(name.replaceAll(' ', '-'), true)
    const blobs = new MemoryBlobStore()
    const first = backendOf(life)
    await first.restoreFrom([], blobs)
    await addAll(first, 1)
    const handle = (await checkpoint(first, 1, blobs)) as IncrementalHandle
    await first.close()
    const second = backendOf(life)
    await second.restoreFrom([change(handle, life.job)], blobs)
    expect(await counts(second)).toEqual(new Set([1]))
    expect(life.lines.map(({ message }) => message).join('\n')).toMatch(
      /not used|the checkpoint is read instead/,
    )
    await second.close()
  })

  const texts = () => new ValueStateDescriptor<string>('text')
  const textOf = (i: number) => `${i}-`.repeat(40)

  /** Keys with a text each: in one segment, or in the base after checkpoints that nobody asks for any more. */
  async function wroteTexts(
    life: Life,
    { count, folded, timers }: { count: number; folded: boolean; timers: boolean },
  ): Promise<{ readonly handle: KeyedStateHandle; readonly blobs: MemoryBlobStore }> {
    const blobs = new MemoryBlobStore()
    const first = backendOf(life)
    await first.restoreFrom([], blobs)
    const state = first.getState(texts())
    let n = 0
    let handle: KeyedStateHandle | undefined
    for (let at = 0; at < count; at++) {
      await first.prefetch([at])
      first.setCurrentKey(at)
      state.update(textOf(at))
      if (timers) first.timers().registerEventTimeTimer('', at)
      if (folded && at % (count / 5) === 0) handle = await checkpoint(first, ++n, blobs)
    }
    handle = await checkpoint(first, ++n, blobs)
    if (folded) first.retainedFrom(n)
    await first.close()
    // Opened once more, so that RocksDB makes files of its log.
    const second = backendOf(life)
    await second.restoreFrom([handle], nothing)
    await second.close()
    return { handle, blobs }
  }

  async function expectTexts(backend: CachedKeyedStateBackend, count: number): Promise<void> {
    const state = backend.getState(texts())
    for (const key of [0, 1, Math.floor(count / 2), count - 1]) {
      await backend.prefetch([key])
      backend.setCurrentKey(key)
      expect(state.value()).toBe(textOf(key))
    }
  }

  test.each([
    ['the base', { count: 2_000, folded: true, timers: false }],
    ['a segment that is too large to be counted', { count: 50_001, folded: false, timers: false }],
  ])(
    'a database that is damaged in %s ends the attempt; the next one reads the checkpoint',
    async (name, keys) => {
      const life = { ...lifeOf(name.replaceAll(' ', '-'), true), isLarge: true }
      const { handle, blobs } = await wroteTexts(life, keys)
      damageLargest(life.job, 0.2)
      const third = backendOf(life)
      await third.restoreFrom([handle], nothing)
      const failure = await (async () => {
        for (let key = 0; key < keys.count; key++) await third.prefetch([key])
      })().catch((error: unknown) => error)
      expect(failure).toMatchObject({ code: 'MILLRACE_LOCAL_STATE', retriable: true })
      await third.close()
      const fourth = backendOf(life)
      await fourth.restoreFrom([handle], blobs)
      await expectTexts(fourth, keys.count)
      expect(foldersOf(life.job)).toHaveLength(1)
      await fourth.close()
    },
  )

  test('a database whose timers are damaged is not used; the checkpoint is', async () => {
    const life = { ...lifeOf('damaged-timers', true), isLarge: true }
    const { handle, blobs } = await wroteTexts(life, { count: 1_000, folded: true, timers: true })
    damageLargest(life.job, 0)
    const third = backendOf(life)
    await third.restoreFrom([handle], blobs)
    expect(third.timers().size).toBe(1_000)
    await expectTexts(third, 1_000)
    expect(life.lines.map(({ message }) => message).join('\n')).toMatch(/the checkpoint is read instead/)
    await third.close()
  })

  test('without it the folder is gone when the backend is closed', async () => {
    const life = lifeOf('goes', false)
    const backend = backendOf(life)
    await backend.restoreFrom([], nothing)
    await addAll(backend, 1)
    expect(foldersOf(life.job)).toHaveLength(1)
    await backend.close()
    expect(foldersOf(life.job)).toEqual([])
  })
})

test('images of the heap restore on rocksdb, and those of rocksdb on the heap', async () => {
  const heap = new HeapKeyedStateBackend({
    range: { start: 0, end: 7 },
    maxParallelism: 8,
    operatorName: 'count',
    clock: { now: () => 0 },
  })
  const state = heap.getState(descriptor())
  for (const key of KEYS) {
    heap.setCurrentKey(key)
    state.update(5)
  }
  const frozen = heap.freeze(1)
  const rocksdb = backendOf(lifeOf('moves', false))
  await restoreImages(rocksdb, await frozen.materialize(() => Promise.resolve()))
  frozen.release()
  expect(await counts(rocksdb)).toEqual(new Set([5]))
  await addAll(rocksdb, 1)
  const back = rocksdb.freeze(2)
  const images = await back.materialize(() => Promise.resolve())
  back.release()
  await rocksdb.close()
  const again = new HeapKeyedStateBackend({
    range: { start: 0, end: 7 },
    maxParallelism: 8,
    operatorName: 'count',
    clock: { now: () => 0 },
  })
  again.restore(images)
  const restored = again.getState(descriptor())
  for (const key of KEYS) {
    again.setCurrentKey(key)
    expect(restored.value()).toBe(6)
  }
})

function foldersOf(job: string): string[] {
  return readdirSync(join(root, job, 'count-0'))
}

/** The local part of a handle with another seal. */
function edited(handle: IncrementalHandle, change: Readonly<Record<string, unknown>>): unknown {
  const local = handle.local as { readonly sealed: Readonly<Record<string, unknown>> }
  return { ...local, sealed: { ...local.sealed, ...change } }
}

/** Changes bytes of what RocksDB wrote; the handle stays as it is. */
function damage(job: string, handle: IncrementalHandle): IncrementalHandle {
  for (const id of foldersOf(job)) {
    const database = join(root, job, 'count-0', id, 'db')
    for (const name of readdirSync(database)) {
      if (!/\.(log|sst)$/.test(name)) continue
      const bytes = readFileSync(join(database, name))
      for (let at = 40; at < bytes.length; at += 97) bytes[at]! ^= 0x55
      writeFileSync(join(database, name), bytes)
    }
  }
  return handle
}

/** Changes bytes of the largest file that RocksDB wrote: a hundredth of it from `from` on, where 0 is its front and 1 its end. */
function damageLargest(job: string, from: number): void {
  const [id] = foldersOf(job)
  const database = join(root, job, 'count-0', id as string, 'db')
  const tables = readdirSync(database).filter((name) => name.endsWith('.sst'))
  const [largest] = tables
    .map((name) => ({ path: join(database, name), bytes: readFileSync(join(database, name)) }))
    .sort((a, b) => b.bytes.length - a.bytes.length)
  const { path, bytes } = largest!
  for (let at = Math.floor(from * bytes.length) + 40; at < (from + 0.01) * bytes.length + 400; at += 97)
    bytes[at]! ^= 0x55
  writeFileSync(path, bytes)
}
