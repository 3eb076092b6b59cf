/**
 * What any KeyedStateBackend must do, as a suite for whatever test framework is handed in:
 *
 *   stateBackendContract('heap', { describe, test, expect }, options => new HeapKeyedStateBackend(options))
 */
import { keyGroupOf } from '../core/graph/key-groups.ts'
import {
  type Key,
  type KeyedStateBackend,
  type KeyGroupImage,
  ListStateDescriptor,
  MapStateDescriptor,
  StateTtlConfig,
  ValueStateDescriptor,
} from '../core/state.ts'
import { isMillraceError } from '../errors.ts'
import { asyncMapContract } from './async-map-contract.ts'
import { openEmpty, restoreImages } from './backend-images.ts'
import {
  type ContractBackendOptions,
  type FuzzOptions,
  fuzzStateBackend,
  type MakeBackend,
} from './state-backend-fuzz.ts'

/** The parts of a test framework that the suite uses; jest, vitest and node:test with an expect fit. */
export interface ContractFramework {
  describe(name: string, define: () => void): void
  test(name: string, run: () => void | Promise<void>): void
  expect(value: any): any
}

/** How much to fuzz. */
export interface StateBackendContractOptions {
  /** Each seed is one run. */
  readonly seeds?: number
  readonly firstSeed?: number
  readonly steps?: number
  /** Keys that hold a state; by default those that the backend knows at once. */
  readonly keysOf?: (backend: KeyedStateBackend, stateName: string) => Promise<readonly Key[]>
  /** False for a backend that counts what is on the heap only. */
  readonly countsEntries?: boolean
  readonly fuzz?: FuzzOptions
}

const now = { time: 0 }
const base: ContractBackendOptions = {
  range: { start: 0, end: 127 },
  maxParallelism: 128,
  operatorName: 'contract',
  clock: { now: () => now.time },
}

/** Runs work as the call for a record of `key`. */
async function withKey<R>(backend: KeyedStateBackend, key: Key, work: () => R): Promise<R> {
  await backend.prefetch([key])
  backend.setCurrentKey(key)
  return work()
}

async function imagesOf(backend: KeyedStateBackend, checkpointId = 1): Promise<KeyGroupImage[]> {
  const frozen = backend.freeze(checkpointId)
  const images = await frozen.materialize(() => Promise.resolve())
  frozen.release()
  return images
}

/** The error of a call that must fail. */
async function failureOf(work: () => unknown): Promise<{ code: string; message: string }> {
  try {
    await work()
  } catch (error) {
    if (isMillraceError(error)) return { code: error.code, message: error.message }
    throw error
  }
  return { code: 'none', message: 'nothing was thrown' }
}

const count = () => new ValueStateDescriptor<number>('count')

/** Declares the suite. `make` gives an empty backend; each test uses new ones. */
export function stateBackendContract(
  name: string,
  { describe, test, expect }: ContractFramework,
  makeBackend: MakeBackend,
  {
    seeds = 12,
    firstSeed = 1,
    steps = 250,
    keysOf = async (backend, stateName) => [...backend.keys(stateName)],
    countsEntries = true,
    fuzz = {},
  }: StateBackendContractOptions = {},
): void {
  const make = async (options: ContractBackendOptions) => openEmpty(await makeBackend(options))
  describe(`keyed state on ${name}`, () => {
    test('keeps keys apart that look alike', async () => {
      const backend = await make(base)
      const state = backend.getState(count())
      const keys: Key[] = [
        1,
        1n,
        '1',
        true,
        'true',
        new Uint8Array([49]),
        ['1'],
        [1],
        [['1']],
        ['1', '1'],
        '',
        [],
      ]
      for (const [i, key] of keys.entries()) await withKey(backend, key, () => state.update(i))
      const read: (number | null)[] = []
      for (const key of keys) read.push(await withKey(backend, key, () => state.value()))
      expect(read).toEqual(keys.map((_, i) => i))
      if (countsEntries) expect(backend.entries).toBe(keys.length)
      expect((await keysOf(backend, 'count')).length).toBe(keys.length)
      await backend.close()
    })

    test('finds a composite key again when the array that it was set with has changed', async () => {
      const backend = await make(base)
      const state = backend.getState(count())
      const key = ['a', 1]
      await withKey(backend, key, () => state.update(7))
      key[1] = 2
      expect(await withKey(backend, ['a', 1], () => state.value())).toBe(7)
      expect(await withKey(backend, ['a', 2], () => state.value())).toBe(null)
      await backend.close()
    })

    test('refuses what is no key, naming the operator', async () => {
      const backend = await make(base)
      for (const key of [null, undefined, Number.NaN, {}, [null]]) {
        const failure = await failureOf(() => withKey(backend, key as unknown as Key, () => undefined))
        expect(failure.code).toBe('MILLRACE_INVALID_KEY')
        expect(failure.message).toContain("'contract'")
      }
      await backend.close()
    })

    test('refuses a class instance where it is stored, naming state and path', async () => {
      class Owner {}
      const backend = await make(base)
      const state = backend.getState(new ValueStateDescriptor<unknown>('total'))
      const failure = await failureOf(() =>
        withKey(backend, 'a', () => state.update({ items: [{ owner: new Owner() }] })),
      )
      expect(failure.code).toBe('MILLRACE_INVALID_STATE_VALUE')
      expect(failure.message).toContain("'total'")
      expect(failure.message).toContain('.items[0].owner')
      await backend.close()
    })

    test('gives back structured values as they were, through an image', async () => {
      const value = {
        undefined: undefined,
        numbers: [Number.NaN, -0, 2 ** 53, Number.NEGATIVE_INFINITY],
        big: [1n, -(10n ** 40n)],
        date: new Date(5),
        map: new Map<unknown, unknown>([[1, new Set(['é😀', '\ud800'])]]),
        bytes: new Uint8Array([1, 2]),
      }
      const backend = await make(base)
      await withKey(backend, 'a', () =>
        backend.getState(new ValueStateDescriptor<unknown>('v')).update(value),
      )
      const restored = await makeBackend(base)
      await restoreImages(restored, await imagesOf(backend))
      const state = restored.getState(new ValueStateDescriptor<unknown>('v'))
      expect(await withKey(restored, 'a', () => state.value())).toEqual(value)
      await backend.close()
      await restored.close()
    })

    test('an object that is changed after the freeze is not changed in the image', async () => {
      const backend = await make(base)
      const state = backend.getState(new ValueStateDescriptor<{ count: number }>('total'))
      await withKey(backend, 'a', () => state.update({ count: 1 }))
      const frozen = backend.freeze(1)
      await withKey(backend, 'a', () => {
        const total = state.value()!
        total.count = 99
        state.update(total)
      })
      await withKey(backend, 'b', () => state.update({ count: 5 }))
      const restored = await makeBackend(base)
      await restoreImages(restored, await frozen.materialize(() => Promise.resolve()))
      const again = restored.getState(new ValueStateDescriptor<{ count: number }>('total'))
      expect(await withKey(restored, 'a', () => again.value())).toEqual({ count: 1 })
      expect(await withKey(restored, 'b', () => again.value())).toBe(null)
      frozen.release()
      await backend.close()
      await restored.close()
    })

    test('images of one subtask restore in two, each with its own key groups', async () => {
      const backend = await make(base)
      const state = backend.getState(count())
      const keys = Array.from({ length: 300 }, (_, i) => `user-${i}`)
      for (const [i, key] of keys.entries()) await withKey(backend, key, () => state.update(i))
      const images = await imagesOf(backend)
      for (const range of [
        { start: 0, end: 63 },
        { start: 64, end: 127 },
      ]) {
        const half = await makeBackend({ ...base, range })
        await restoreImages(
          half,
          images.filter(({ keyGroup }) => keyGroup >= range.start && keyGroup <= range.end),
        )
        const own = keys.filter(
          (key) => keyGroupOf(key, 128) >= range.start && keyGroupOf(key, 128) <= range.end,
        )
        expect([...(await keysOf(half, 'count'))].sort()).toEqual([...own].sort())
        const halfState = half.getState(count())
        for (const key of own)
          expect(await withKey(half, key, () => halfState.value())).toBe(keys.indexOf(key))
        await half.close()
      }
      await backend.close()
    })

    test('an empty key group has no image, and cleared state leaves none', async () => {
      const backend = await make(base)
      const state = backend.getState(count())
      await withKey(backend, 'a', () => state.update(1))
      expect((await imagesOf(backend)).map(({ keyGroup }) => keyGroup)).toEqual([keyGroupOf('a', 128)])
      await withKey(backend, 'a', () => state.clear())
      expect(await imagesOf(backend, 2)).toEqual([])
      if (countsEntries) expect(backend.entries).toBe(0)
      await backend.close()
    })

    test('clears all states of a key and namespace but one, also those that nobody declared yet', async () => {
      const before = await make(base)
      const write = (namespace: string) => {
        before.setCurrentNamespace(namespace)
        before.getState(count()).update(1)
        before.getListState(new ListStateDescriptor<number>('list')).add(1)
        before.getMapState(new MapStateDescriptor<string, number>('map')).put('x', 1)
        before.setCurrentNamespace('')
      }
      for (const key of ['a', 'b'])
        await withKey(before, key, () => {
          write('')
          write('w')
        })
      const images = await imagesOf(before)
      await before.close()
      const backend = await makeBackend(base)
      await restoreImages(backend, images)
      await withKey(backend, 'a', () => {
        backend.setCurrentNamespace('w')
        backend.clearNamespace('list')
        backend.setCurrentNamespace('')
      })
      const held = (key: Key, namespace: string) =>
        withKey(backend, key, () => {
          backend.setCurrentNamespace(namespace)
          const read = [
            backend.getState(count()).value(),
            [...backend.getListState(new ListStateDescriptor<number>('list')).get()],
            [...backend.getMapState(new MapStateDescriptor<string, number>('map')).keys()],
          ]
          backend.setCurrentNamespace('')
          return read
        })
      expect(await held('a', 'w')).toEqual([null, [1], []])
      for (const [key, namespace] of [
        ['a', ''],
        ['b', 'w'],
        ['b', ''],
      ] as const)
        expect(await held(key, namespace)).toEqual([1, [1], ['x']])
      await backend.close()
    })

    test('knows all keys that hold a state, also those whose state is not at hand', async () => {
      const backend = await make(base)
      const state = backend.getState(count())
      const other = backend.getState(new ValueStateDescriptor<number>('other'))
      const keys: Key[] = Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? `user-${i}` : ['pair', i]))
      for (const key of keys) {
        await withKey(backend, key, () => state.update(1))
        await backend.settle()
      }
      await withKey(backend, 'gone', () => state.update(1))
      await withKey(backend, 'gone', () => state.clear())
      await withKey(backend, 'other', () => other.update(1))
      const known = [...(await backend.keysWith('count'))]
      const held: Key[] = []
      for (const key of known) if ((await withKey(backend, key, () => state.value())) !== null) held.push(key)
      const texts = (all: readonly Key[]) => all.map((key) => JSON.stringify(key)).sort()
      expect(texts(held)).toEqual(texts(keys))
      expect(known).not.toContain('gone')
      await backend.close()
    })

    test('a damaged image is refused, naming operator and key group', async () => {
      const backend = await make(base)
      await withKey(backend, 'a', () => backend.getState(count()).update(1))
      const image = (await imagesOf(backend))[0]!
      for (let at = 0; at < image.bytes.length; at++) {
        const bytes = Uint8Array.from(image.bytes)
        bytes[at]! ^= 0x10
        const other = await makeBackend(base)
        const failure = await failureOf(() => restoreImages(other, [{ keyGroup: image.keyGroup, bytes }]))
        expect(`${at} ${failure.code}`).toBe(`${at} MILLRACE_STATE_LOST`)
        expect(failure.message).toContain("'contract'")
        expect(failure.message).toContain(`key group ${image.keyGroup}`)
        await other.close()
      }
      await backend.close()
    })

    test('state that comes back as another kind is refused, whether it is declared before or after the restore', async () => {
      const backend = await make(base)
      await withKey(backend, 'a', () => backend.getState(count()).update(1))
      const images = await imagesOf(backend)
      const late = await makeBackend(base)
      await restoreImages(late, images)
      expect((await failureOf(() => late.getListState(new ListStateDescriptor('count')))).code).toBe(
        'MILLRACE_STATE_INCOMPATIBLE',
      )
      const early = await makeBackend(base)
      early.getListState(new ListStateDescriptor('count'))
      expect((await failureOf(() => restoreImages(early, images))).code).toBe('MILLRACE_STATE_INCOMPATIBLE')
      for (const each of [backend, late, early]) await each.close()
    })

    test('restored state that nobody declares is in the next image', async () => {
      const backend = await make(base)
      await withKey(backend, 'a', () => backend.getState(count()).update(1))
      const between = await makeBackend(base)
      await restoreImages(between, await imagesOf(backend))
      const last = await makeBackend(base)
      await restoreImages(last, await imagesOf(between))
      const state = last.getState(count())
      expect(await withKey(last, 'a', () => state.value())).toBe(1)
      for (const each of [backend, between, last]) await each.close()
    })

    test('a released freeze gives no images', async () => {
      const backend = await make(base)
      await withKey(backend, 'a', () => backend.getState(count()).update(1))
      const frozen = backend.freeze(1)
      frozen.release()
      expect((await failureOf(() => frozen.materialize(() => Promise.resolve()))).code).toBe(
        'MILLRACE_CHECKPOINT_FAILED',
      )
      await backend.close()
    })

    test('values, list elements and map entries expire, one by one, and are not in later images', async () => {
      now.time = 1_000
      const ttl = StateTtlConfig.of(100)
      const value = () => new ValueStateDescriptor<number>('value').enableTimeToLive(ttl)
      const list = () => new ListStateDescriptor<number>('list').enableTimeToLive(ttl)
      const map = () => new MapStateDescriptor<string, number>('map').enableTimeToLive(ttl)
      const backend = await make(base)
      const read = (from: KeyedStateBackend) =>
        withKey(from, 'a', () => [
          from.getState(value()).value(),
          from.getListState(list()).get(),
          [...from.getMapState(map()).entries()],
        ])
      await withKey(backend, 'a', () => {
        backend.getState(value()).update(1)
        backend.getListState(list()).add(1)
        backend.getMapState(map()).put('x', 1)
      })
      now.time = 1_050
      await withKey(backend, 'a', () => {
        backend.getListState(list()).add(2)
        backend.getMapState(map()).put('y', 2)
      })
      expect(await read(backend)).toEqual([
        1,
        [1, 2],
        [
          ['x', 1],
          ['y', 2],
        ],
      ])
      now.time = 1_120
      const images = await imagesOf(backend)
      expect(await read(backend)).toEqual([null, [2], [['y', 2]]])
      const restored = await makeBackend(base)
      await restoreImages(restored, images)
      now.time = 1_060 // A clock that went back shows that what had expired at the snapshot is really gone.
      expect(await read(restored)).toEqual([null, [2], [['y', 2]]])
      now.time = 1_200
      expect(await read(restored)).toEqual([null, [], []])
      if (countsEntries) expect(restored.entries).toBe(0)
      for (const each of [backend, restored]) await each.close()
    })

    asyncMapContract({ test, expect }, makeBackend, keysOf)

    for (let seed = firstSeed; seed < firstSeed + seeds; seed++)
      test(`is the model after any operations, freezes and restores (seed ${seed})`, () =>
        fuzzStateBackend(makeBackend, seed, steps, fuzz))
  })
}
