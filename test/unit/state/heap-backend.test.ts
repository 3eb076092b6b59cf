import { describe, expect, test } from '@jest/globals'
import type { Serde } from '../../../src/core/connector.ts'
import {
  AggregatingStateDescriptor,
  type Key,
  type KeyGroupImage,
  ListStateDescriptor,
  MapStateDescriptor,
  ReducingStateDescriptor,
  StateTtlConfig,
  ValueStateDescriptor,
} from '../../../src/core/state.ts'
import { HeapKeyedStateBackend } from '../../../src/state/heap-backend.ts'

const time = { now: 0 }
const make = (entriesPerSlice = 10) =>
  new HeapKeyedStateBackend({
    range: { start: 0, end: 127 },
    maxParallelism: 128,
    operatorName: 'count',
    clock: { now: () => time.now },
    entriesPerSlice,
  })
const noPause = () => Promise.resolve()
const imagesOf = (backend: HeapKeyedStateBackend): Promise<KeyGroupImage[]> =>
  backend.freeze(1).materialize(noPause)
const restored = async (backend: HeapKeyedStateBackend): Promise<HeapKeyedStateBackend> => {
  const other = make()
  other.restore(await imagesOf(backend))
  return other
}

describe('states', () => {
  test('value state keeps undefined apart from nothing, and null clears', () => {
    const backend = make()
    const state = backend.getState(new ValueStateDescriptor<unknown>('v'))
    backend.setCurrentKey('a')
    expect(state.value()).toBeNull()
    state.update(undefined)
    expect(state.value()).toBeUndefined()
    expect(backend.entries).toBe(1)
    state.update(null)
    expect(state.value()).toBeNull()
    expect(backend.entries).toBe(0)
  })

  test('the list that get returned does not change when elements are added', () => {
    const backend = make()
    const list = backend.getListState(new ListStateDescriptor<number>('l'))
    backend.setCurrentKey('a')
    list.add(1)
    const read = list.get()
    list.add(2)
    expect(read).toEqual([1])
    expect(list.get()).toEqual([1, 2])
    list.update([])
    expect(backend.entries).toBe(0)
  })

  test('map state without entries holds nothing, and refuses keys that are objects', () => {
    const backend = make()
    const map = backend.getMapState(new MapStateDescriptor<unknown, number>('m'))
    backend.setCurrentKey('a')
    map.putAll([
      ['x', 1],
      [1n, 2],
    ])
    expect([...map.keys(), ...map.values()]).toEqual(['x', 1n, 1, 2])
    map.remove('x')
    map.remove(1n)
    expect([map.isEmpty(), backend.entries]).toEqual([true, 0])
    expect(() => map.put({}, 1)).toThrow(expect.objectContaining({ code: 'MILLRACE_INVALID_STATE_VALUE' }))
  })

  test('reducing and aggregating state combine, and clear', () => {
    const backend = make()
    backend.setCurrentKey('a')
    const sum = backend.getReducingState(new ReducingStateDescriptor<number>('r', (a, b) => a + b))
    sum.add(1)
    sum.add(2)
    expect(sum.get()).toBe(3)
    sum.clear()
    expect(sum.get()).toBeNull()
  })

  test('namespaces of one key are apart, many of them too', () => {
    const backend = make()
    const state = backend.getState(new ValueStateDescriptor<number>('v'))
    backend.setCurrentKey('a')
    const namespaces = ['', '1', ...Array.from({ length: 40 }, (_, i) => i)]
    for (const [i, namespace] of namespaces.entries()) {
      backend.setCurrentNamespace(namespace)
      state.update(i)
    }
    for (const [i, namespace] of namespaces.entries()) {
      backend.setCurrentNamespace(namespace)
      expect(state.value()).toBe(i)
    }
    for (const namespace of namespaces) {
      backend.setCurrentNamespace(namespace)
      state.clear()
    }
    expect([backend.entries, [...backend.keys('v')]]).toEqual([0, []])
  })

  test('without a current key an access says so', () => {
    const state = make().getState(new ValueStateDescriptor<number>('v'))
    expect(() => state.value()).toThrow(expect.objectContaining({ code: 'MILLRACE_STATE_ACCESS' }))
    expect(() => make().getCurrentKey()).toThrow(/no current key/)
  })

  test('one name for two kinds of state is refused', () => {
    const backend = make()
    backend.getState(new ValueStateDescriptor('v'))
    expect(() => backend.getListState(new ListStateDescriptor('v'))).toThrow(
      /declared as value state and as list state/,
    )
  })

  test('merging an aggregate without merge, or value state, is a coded error', () => {
    const backend = make()
    backend.setCurrentKey('a')
    const aggregate = new AggregatingStateDescriptor<number, number, number>('a', {
      createAccumulator: () => 0,
      add: (value, sum) => value + sum,
      getResult: (sum) => sum,
    })
    for (const descriptor of [aggregate, new ValueStateDescriptor('v')])
      expect(() => backend.mergeNamespaces(descriptor, 1, [2])).toThrow(
        expect.objectContaining({ code: 'MILLRACE_STATE_ACCESS' }),
      )
  })
})

class Money {
  readonly cents: number
  constructor(cents: number) {
    this.cents = cents
  }
}
const money: Serde<Money> = {
  name: 'money',
  serialize: ({ cents }) => Uint8Array.of(cents),
  deserialize: (bytes) => new Money(bytes[0]!),
}

describe('a serde', () => {
  test('keeps class instances, over a restore whose state is declared later or never', async () => {
    const backend = make()
    backend.setCurrentKey('a')
    backend.getState(new ValueStateDescriptor('v', money)).update(new Money(7))
    backend.getListState(new ListStateDescriptor('l', money)).add(new Money(8))
    backend.getMapState(new MapStateDescriptor<string, Money>('m', money)).put('x', new Money(9))
    const last = await restored(await restored(backend))
    last.setCurrentKey('a')
    expect(last.getState(new ValueStateDescriptor('v', money)).value()).toEqual(new Money(7))
    expect(last.getListState(new ListStateDescriptor('l', money)).get()).toEqual([new Money(8)])
    expect(last.getMapState(new MapStateDescriptor<string, Money>('m', money)).get('x')).toEqual(new Money(9))
  })

  test('that is given up, or new, is refused by name', async () => {
    const backend = make()
    backend.setCurrentKey('a')
    backend.getState(new ValueStateDescriptor('coded', money)).update(new Money(7))
    backend.getState(new ValueStateDescriptor<number>('plain')).update(1)
    const other = await restored(backend)
    expect(() => other.getState(new ValueStateDescriptor('coded'))).toThrow(
      /bytes of serde 'money'.*no serde/,
    )
    expect(() => other.getState(new ValueStateDescriptor('plain', money))).toThrow(
      expect.objectContaining({ code: 'MILLRACE_STATE_INCOMPATIBLE' }),
    )
  })

  test('that cannot read a stored value is named, with its error', async () => {
    const backend = make()
    backend.setCurrentKey('a')
    backend.getState(new ValueStateDescriptor('v', money)).update(new Money(7))
    const other = await restored(backend)
    const broken: Serde<Money> = {
      ...money,
      deserialize: () => {
        throw new Error('bad bytes')
      },
    }
    expect(() => other.getState(new ValueStateDescriptor('v', broken))).toThrow(
      /state 'v': serde 'money' cannot read/,
    )
  })
})

describe('a time to live', () => {
  const ttl = (config = StateTtlConfig.of(100)) =>
    new ValueStateDescriptor<number>('v').enableTimeToLive(config)

  test('is prolonged by reads only if asked for', () => {
    time.now = 0
    for (const [config, expected] of [
      [StateTtlConfig.of(100), null],
      [StateTtlConfig.of(100).updateTtlOnReadAndWrite(), 1],
    ] as const) {
      const backend = make()
      backend.setCurrentKey('a')
      const state = backend.getState(ttl(config))
      time.now = 0
      state.update(1)
      time.now = 60
      state.value()
      time.now = 120
      expect(state.value()).toBe(expected)
    }
  })

  test('shows an expired value once more if asked to, then it is gone', () => {
    time.now = 0
    const backend = make()
    backend.setCurrentKey('a')
    const state = backend.getState(ttl(StateTtlConfig.of(100).returnExpiredIfNotCleanedUp()))
    state.update(1)
    time.now = 100
    expect([state.value(), state.value(), backend.entries]).toEqual([1, null, 0])
  })

  test('snapshots take expired state out of memory too', async () => {
    time.now = 0
    const backend = make()
    for (const key of ['a', 'b']) {
      backend.setCurrentKey(key)
      backend.getState(ttl()).update(1)
      time.now = 60
    }
    time.now = 130
    expect([...backend.keys('v')]).toEqual(['b'])
    const images = await imagesOf(backend)
    expect([images.length, backend.entries]).toEqual([1, 1])
  })

  test('that is new or gone after a restore keeps the values', async () => {
    time.now = 0
    const plain = make()
    plain.setCurrentKey('a')
    plain.getState(new ValueStateDescriptor<number>('v')).update(1)
    time.now = 500
    const expiring = await restored(plain)
    expiring.setCurrentKey('a')
    expect(expiring.getState(ttl()).value()).toBe(1)
    time.now = 550
    const plainAgain = await restored(expiring)
    plainAgain.setCurrentKey('a')
    expect(plainAgain.getState(new ValueStateDescriptor<number>('v')).value()).toBe(1)
  })
})

describe('freezing', () => {
  test('a value that cannot be written fails that checkpoint, not the user code that touches it', async () => {
    const backend = make()
    const state = backend.getState(new ValueStateDescriptor<{ a: unknown }>('v'))
    backend.setCurrentKey('a')
    const value = { a: 1 as unknown }
    state.update(value)
    value.a = () => 1
    const frozen = backend.freeze(1)
    backend.setCurrentKey('a')
    expect(state.value()).toBe(value)
    await expect(frozen.materialize(noPause)).rejects.toThrow(/State 'v' cannot keep a function, at \.a/)
    value.a = 2
    expect(await imagesOf(backend)).toHaveLength(1)
  })

  test('several freezes in flight each hold their own moment', async () => {
    const backend = make(1)
    const state = backend.getState(new ValueStateDescriptor<{ n: number }>('v'))
    const change = (key: Key) => {
      backend.setCurrentKey(key)
      const value = state.value() ?? { n: 0 }
      value.n++
      state.update(value)
    }
    const freezes = []
    for (let n = 1; n <= 3; n++) {
      change('a')
      change(`only ${n}`)
      freezes.push(backend.freeze(n))
    }
    change('a')
    for (const [i, frozen] of freezes.entries()) {
      const other = make()
      other.restore(await frozen.materialize(noPause))
      other.setCurrentKey('a')
      expect(other.getState(new ValueStateDescriptor<{ n: number }>('v')).value()).toEqual({ n: i + 1 })
      expect([...other.keys('v')]).toHaveLength(i + 2)
    }
  })

  test('writing pauses after each slice', async () => {
    const backend = make(10)
    const state = backend.getState(new ValueStateDescriptor<number>('v'))
    for (let key = 0; key < 100; key++) {
      backend.setCurrentKey(key)
      state.update(key)
    }
    let pauses = 0
    await backend.freeze(1).materialize(async () => {
      pauses++
    })
    expect(pauses).toBeGreaterThanOrEqual(15)
  })

  test('writing stops when the freeze is released meanwhile', async () => {
    const backend = make(1)
    const state = backend.getState(new ValueStateDescriptor<number>('v'))
    for (let key = 0; key < 10; key++) {
      backend.setCurrentKey(key)
      state.update(key)
    }
    const frozen = backend.freeze(4)
    const written = frozen.materialize(async () => frozen.release())
    await expect(written).rejects.toThrow(/checkpoint 4 was released/)
    expect(await imagesOf(backend)).not.toHaveLength(0)
  })

  test('a key outside of the range is a defect that names its key group', async () => {
    const backend = new HeapKeyedStateBackend({
      range: { start: 0, end: 0 },
      maxParallelism: 32_768,
      operatorName: 'count',
      clock: { now: () => 0 },
    })
    backend.setCurrentKey('a')
    backend.getState(new ValueStateDescriptor<number>('v')).update(1)
    await expect(imagesOf(backend)).rejects.toThrow(expect.objectContaining({ code: 'MILLRACE_INTERNAL' }))
  })

  test('an image that was written with another max parallelism is refused', async () => {
    const backend = make()
    for (const key of ['a', 'b', 'c', 'd']) {
      backend.setCurrentKey(key)
      backend.getState(new ValueStateDescriptor<number>('v')).update(1)
    }
    const images = await imagesOf(backend)
    const other = new HeapKeyedStateBackend({
      range: { start: 0, end: 255 },
      maxParallelism: 256,
      operatorName: 'count',
      clock: { now: () => 0 },
    })
    expect(() => other.restore(images)).toThrow(/not written with max parallelism 256/)
  })
})
