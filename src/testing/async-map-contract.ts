/** The part of the state backend contract that is about async maps: declared by `stateBackendContract`. */
import { keyGroupOf } from '../core/graph/key-groups.ts'
import {
  AsyncMapStateDescriptor,
  type Key,
  type KeyedStateBackend,
  type KeyGroupImage,
  MapStateDescriptor,
  StateTtlConfig,
  ValueStateDescriptor,
} from '../core/state.ts'
import { isMillraceError } from '../errors.ts'
import { openEmpty, restoreImages } from './backend-images.ts'
import type { ContractBackendOptions, MakeBackend } from './state-backend-fuzz.ts'
import { allOf } from './state-backend-model.ts'

/** The parts of a test framework that are used. */
export interface AsyncMapFramework {
  test(name: string, run: () => void | Promise<void>): void
  expect(value: any): any
}

const now = { time: 0 }
const base: ContractBackendOptions = {
  range: { start: 0, end: 127 },
  maxParallelism: 128,
  operatorName: 'contract',
  clock: { now: () => now.time },
}

/** For large maps: a store is asked for each key group. */
const fewGroups: ContractBackendOptions = { ...base, range: { start: 0, end: 1 }, maxParallelism: 2 }

/** Runs work as the call for a record of `key`, in a vector of its own. */
async function inCall<R>(backend: KeyedStateBackend, key: Key, work: () => R | Promise<R>): Promise<R> {
  await backend.prefetch([key])
  backend.setCurrentKey(key)
  const result = await work()
  await backend.settle()
  return result
}

async function imagesOf(backend: KeyedStateBackend, checkpointId = 1): Promise<KeyGroupImage[]> {
  const frozen = backend.freeze(checkpointId)
  const images = await frozen.materialize(() => Promise.resolve())
  frozen.release()
  return images
}

async function codeOf(work: () => unknown): Promise<string> {
  try {
    await work()
  } catch (error) {
    if (isMillraceError(error)) return error.code
    throw error
  }
  return 'none'
}

const stock = () => new AsyncMapStateDescriptor<string | number, unknown>('stock')
const numbers = (count: number) => Array.from({ length: count }, (_, i) => i)
const byNumber = (a: unknown, b: unknown) => Number(a) - Number(b)

/** Declares the suite. `make` gives an empty backend; `keysOf` the keys that hold a state. */
export function asyncMapContract(
  { test, expect }: AsyncMapFramework,
  makeBackend: MakeBackend,
  keysOf: (backend: KeyedStateBackend, stateName: string) => Promise<readonly Key[]>,
): void {
  const make = async (options: ContractBackendOptions) => openEmpty(await makeBackend(options))
  const restoredFrom = async (images: readonly KeyGroupImage[], options = base) => {
    const backend = await makeBackend(options)
    await restoreImages(backend, images)
    return backend
  }

  test('an async map keeps entries apart by key, entry and state, whatever they look like', async () => {
    const backend = await make(base)
    const states = ['a', 'b'].map((name) =>
      backend.getAsyncMapState(new AsyncMapStateDescriptor<unknown, string>(name)),
    )
    const keys: Key[] = ['x', 1, ['x', 1], ['a', 'x', 1], new Uint8Array([9, 1]), '']
    const entries = ['1', 1, 1n, true, '', 0.5, '\ud800']
    const text = (...parts: unknown[]) => parts.map((part) => `${typeof part}${String(part)}`).join('/')
    for (const key of keys)
      await inCall(backend, key, () => {
        for (const [i, state] of states.entries())
          for (const entry of entries) state.put(entry, text(key, i, entry))
      })
    const restored = await restoredFrom(await imagesOf(backend))
    const again = ['a', 'b'].map((name) =>
      restored.getAsyncMapState(new AsyncMapStateDescriptor<unknown, string>(name)),
    )
    for (const [from, handles] of [
      [backend, states],
      [restored, again],
    ] as const)
      for (const key of keys)
        await inCall(from, key, async () => {
          for (const [i, state] of handles.entries()) {
            expect([...(await state.getAll([...entries, 2, 'no']))]).toEqual(
              entries.map((entry) => [entry, text(key, i, entry)]),
            )
            expect((await allOf(state.keys())).length).toBe(entries.length)
          }
        })
    expect((await keysOf(backend, 'a')).length).toBe(keys.length)
    for (const each of [backend, restored]) await each.close()
  })

  test('an async map reads, in the same call, what was put and removed without a read', async () => {
    const backend = await make(base)
    const map = backend.getAsyncMapState(stock())
    await inCall(backend, 'a', () => {
      for (const i of numbers(5)) map.put(i, i)
    })
    for (const i of numbers(30)) await inCall(backend, `other ${i}`, () => map.put('x', 'y'.repeat(50)))
    await inCall(backend, 'a', async () => {
      map.put(1, 'new')
      map.put('more', undefined)
      map.remove(2)
      map.remove('never there')
      expect(await map.get(1)).toBe('new')
      expect([await map.contains(2), await map.contains('more'), await map.contains(3)]).toEqual([
        false,
        true,
        true,
      ])
      expect(new Map(await allOf(map.entries()))).toEqual(
        new Map<unknown, unknown>([
          [0, 0],
          [1, 'new'],
          [3, 3],
          [4, 4],
          ['more', undefined],
        ]),
      )
    })
    await backend.close()
  })

  test('an async map grows to hundreds of entries and shrinks to none, and shows each entry once', async () => {
    const backend = await make(fewGroups)
    const map = backend.getAsyncMapState(stock())
    const all = async (from: KeyedStateBackend) =>
      inCall(from, 'big', async () => (await allOf(from.getAsyncMapState(stock()).keys())).sort(byNumber))
    for (let first = 0; first < 900; first += 300)
      await inCall(backend, 'big', () => {
        for (const i of numbers(300)) map.put(first + i, { n: first + i })
      })
    expect(await all(backend)).toEqual(numbers(900))
    const images = await imagesOf(backend)
    const restored = await restoredFrom(images, fewGroups)
    expect(await all(restored)).toEqual(numbers(900))
    const found = await inCall(restored, 'big', () => restored.getAsyncMapState(stock()).get(899))
    expect(found).toEqual({ n: 899 })
    await inCall(backend, 'big', () => {
      for (const i of numbers(890)) map.remove(i)
    })
    expect(await all(backend)).toEqual(numbers(900).slice(890))
    await inCall(backend, 'big', async () => {
      await map.clear()
      expect(await map.isEmpty()).toBe(true)
    })
    await inCall(restored, 'big', () => restored.getAsyncMapState(stock()).clear())
    expect(await imagesOf(backend, 2)).toEqual([])
    expect(await imagesOf(restored, 2)).toEqual([])
    for (const each of [backend, restored]) await each.close()
  })

  test('an entry that is changed after the freeze is not changed in the image', async () => {
    const backend = await make(base)
    const map = backend.getAsyncMapState(stock())
    await inCall(backend, 'a', () => {
      for (const i of numbers(100)) map.put(i, { count: 1 })
    })
    const frozen = backend.freeze(1)
    await inCall(backend, 'a', async () => {
      const total = (await map.get(5)) as { count: number }
      total.count = 99
      map.put(5, total)
      map.put(6, { count: 98 })
      map.put('new', { count: 97 })
      map.remove(7)
      for (const i of numbers(60)) map.put(1_000 + i, { count: 96 })
    })
    const restored = await restoredFrom(await frozen.materialize(() => Promise.resolve()))
    frozen.release()
    const again = restored.getAsyncMapState(stock())
    const read = await inCall(restored, 'a', () => allOf(again.entries()))
    expect(read.sort(([a], [b]) => byNumber(a, b))).toEqual(numbers(100).map((i) => [i, { count: 1 }]))
    for (const each of [backend, restored]) await each.close()
  })

  test('the entries of an async map move with their key', async () => {
    const backend = await make(base)
    const map = backend.getAsyncMapState(stock())
    const keys = numbers(40).map((i) => `user-${i}`)
    for (const [i, key] of keys.entries())
      await inCall(backend, key, () => {
        for (const n of numbers(i)) map.put(n, key)
      })
    const images = await imagesOf(backend)
    for (const range of [
      { start: 0, end: 63 },
      { start: 64, end: 127 },
    ]) {
      const inRange = (keyGroup: number) => keyGroup >= range.start && keyGroup <= range.end
      const half = await restoredFrom(
        images.filter(({ keyGroup }) => inRange(keyGroup)),
        { ...base, range },
      )
      const own = keys.filter((key) => inRange(keyGroupOf(key, 128)))
      const halfMap = half.getAsyncMapState(stock())
      for (const key of own) {
        const read = await inCall(half, key, () => allOf(halfMap.entries()))
        expect(read.sort(([a], [b]) => byNumber(a, b))).toEqual(
          numbers(keys.indexOf(key)).map((n) => [n, key]),
        )
      }
      await half.close()
    }
    await backend.close()
  })

  test('entries of an async map expire one by one, and its index does not grow by those that did', async () => {
    now.time = 1_000
    const descriptor = () => stock().enableTimeToLive(StateTtlConfig.of(100))
    const backend = await make(fewGroups)
    const map = backend.getAsyncMapState(descriptor())
    const bytes = async () => (await imagesOf(backend)).reduce((sum, image) => sum + image.bytes.length, 0)
    const sizes: number[] = []
    for (let round = 0; round < 6; round++) {
      await inCall(backend, 'a', () => {
        for (const i of numbers(150)) map.put(round * 150 + i, round)
      })
      now.time += 60
      sizes.push(await bytes())
    }
    const live = numbers(150).map((i) => 750 + i)
    expect((await inCall(backend, 'a', () => allOf(map.keys()))).sort(byNumber)).toEqual(live)
    await inCall(backend, 'a', async () => {
      expect(await map.get(749)).toBe(undefined)
      expect(await map.get(750)).toBe(5)
    })
    // Two rounds are alive at a time: what six left behind is less than one more.
    expect(Math.max(...sizes)).toBeLessThan(2 * sizes[1]!)
    now.time += 100
    await inCall(backend, 'a', async () => expect(await map.isEmpty()).toBe(true))
    expect(await imagesOf(backend, 2)).toEqual([])
    now.time = 0
    await backend.close()
  })

  test('an async map with a serde holds what only the serde can write', async () => {
    class Money {
      readonly cents: number
      constructor(cents: number) {
        this.cents = cents
      }
    }
    const money = {
      name: 'money',
      serialize: ({ cents }: Money) => new TextEncoder().encode(String(cents)),
      deserialize: (bytes: Uint8Array) => new Money(Number(new TextDecoder().decode(bytes))),
    }
    const priced = () => new AsyncMapStateDescriptor<string, Money>('prices', money)
    const backend = await make(base)
    expect(
      await codeOf(() =>
        inCall(backend, 'a', () => backend.getAsyncMapState(stock()).put('x', new Money(1))),
      ),
    ).toBe('MILLRACE_INVALID_STATE_VALUE')
    await inCall(backend, 'a', () => backend.getAsyncMapState(priced()).put('x', new Money(250)))
    const restored = await restoredFrom(await imagesOf(backend))
    const read = await inCall(restored, 'a', () => restored.getAsyncMapState(priced()).get('x'))
    expect(read).toEqual(new Money(250))
    for (const each of [backend, restored]) await each.close()
  })

  test('an async map refuses keys that are none, the namespace of a window, and the state of a map', async () => {
    const backend = await make(base)
    const map = backend.getAsyncMapState(stock())
    for (const key of [null, undefined, Number.NaN, {}, ['a']])
      expect(await codeOf(() => inCall(backend, 'a', () => map.put(key as string, 1)))).toBe(
        'MILLRACE_INVALID_STATE_VALUE',
      )
    const inWindow = async () => {
      backend.setCurrentNamespace('w')
      try {
        await map.get(1)
      } finally {
        backend.setCurrentNamespace('')
      }
    }
    expect(await codeOf(() => inCall(backend, 'a', inWindow))).toBe('MILLRACE_STATE_ACCESS')
    expect(await codeOf(() => backend.getMapState(new MapStateDescriptor('stock')))).toBe(
      'MILLRACE_STATE_INCOMPATIBLE',
    )
    await backend.close()
  })

  test('async maps leave the other states of their key alone', async () => {
    const backend = await make(base)
    const map = backend.getAsyncMapState(stock())
    const value = backend.getState(new ValueStateDescriptor<string>('value'))
    await inCall(backend, 'a', async () => {
      map.put(1, 1)
      expect(value.value()).toBe(null)
      value.update('kept')
      await map.clear()
    })
    const restored = await restoredFrom(await imagesOf(backend))
    const again = restored.getState(new ValueStateDescriptor<string>('value'))
    await inCall(restored, 'a', async () => {
      expect(again.value()).toBe('kept')
      expect(await restored.getAsyncMapState(stock()).isEmpty()).toBe(true)
    })
    expect(await keysOf(restored, 'stock')).toEqual([])
    for (const each of [backend, restored]) await each.close()
  })
}
