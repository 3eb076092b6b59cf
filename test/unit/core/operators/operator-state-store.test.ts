import { expect, test } from '@jest/globals'
import type { Serde } from '../../../../src/core/connector.ts'
import { DefaultOperatorStateStore } from '../../../../src/core/operators/operator-state-store.ts'
import type { Redistribution } from '../../../../src/core/operators/stream-operator.ts'
import { ListStateDescriptor, MapStateDescriptor } from '../../../../src/core/state.ts'

const restoredWith = (
  items: Readonly<Record<string, readonly unknown[]>>,
  redistributions: Readonly<Record<string, Redistribution>> = {},
  subtaskIndex = 0,
) => new DefaultOperatorStateStore('op', { items, redistributions, subtaskIndex })

const buffered = new ListStateDescriptor<any>('buffered')
const rules = new MapStateDescriptor<string, any>('rules')

test('a snapshot holds a deep copy of every state, with how it is given out again', () => {
  const store = new DefaultOperatorStateStore('op', undefined)
  const item = { list: [1], when: new Date(5), big: 7n }
  store.getListState(buffered).add(item)
  store.getUnionListState(new ListStateDescriptor('all')).addAll([1, 2])
  store.getBroadcastState(rules).put('a', { on: true })
  const snapshot = store.snapshot()
  item.list.push(2)
  store.getListState(buffered).add('later')
  store.getBroadcastState(rules).get('a').on = false
  expect(snapshot).toEqual({
    buffered: { redistribution: 'split', items: [{ list: [1], when: new Date(5), big: 7n }] },
    all: { redistribution: 'union', items: [1, 2] },
    rules: { redistribution: 'broadcast', items: [['a', { on: true }]] },
  })
})

test('restored items are there when the state is asked for, and belong to the store alone', () => {
  const restored = { buffered: [{ n: 1 }], rules: [['a', { on: true }]] }
  const store = restoredWith(restored)
  store.getListState(buffered).get()[0].n = 2
  store.getBroadcastState(rules).put('b', 1)
  expect(restored).toEqual({ buffered: [{ n: 1 }], rules: [['a', { on: true }]] })
  expect([...store.getBroadcastState(rules).entries()]).toEqual([
    ['a', { on: true }],
    ['b', 1],
  ])
})

test('lists can be replaced and cleared', () => {
  const list = restoredWith({ buffered: [1, 2] }).getListState(buffered)
  list.update([3])
  expect(list.get()).toEqual([3])
  list.clear()
  expect(list.get()).toEqual([])
})

test('a state with a serde is kept as bytes', () => {
  class Point {
    readonly x: number
    constructor(x: number) {
      this.x = x
    }
  }
  const serde: Serde<Point> = {
    name: 'point',
    serialize: (point) => Uint8Array.of(point.x),
    deserialize: (bytes) => new Point(bytes[0]!),
  }
  const descriptor = new ListStateDescriptor<Point>('points', serde)
  const store = new DefaultOperatorStateStore('op', undefined)
  store.getListState(descriptor).add(new Point(3))
  const { points } = store.snapshot()
  expect(points!.items).toEqual([Uint8Array.of(3)])
  const again = restoredWith({ points: points!.items }).getListState(descriptor).get()
  expect(again[0]).toBeInstanceOf(Point)
  expect(again[0]!.x).toBe(3)
})

test('a class instance without a serde is refused with the state and the path', () => {
  class Owner {}
  const store = new DefaultOperatorStateStore('op', undefined)
  store.getListState(buffered).add({ items: [{ owner: new Owner() }] })
  expect(() => store.snapshot()).toThrow(
    expect.objectContaining({
      code: 'MILLRACE_INVALID_STATE_VALUE',
      message: "State 'buffered' cannot keep an instance of Owner, at .items[0].owner",
    }),
  )
})

test('one name cannot be two kinds of state', () => {
  const store = new DefaultOperatorStateStore('op', undefined)
  store.getListState(buffered)
  expect(() => store.getUnionListState(buffered)).toThrow(/asks for state 'buffered' as union and as split/)
})

test('restored state that nobody asks for goes on as it was; of a union list one subtask keeps the items', () => {
  const items = { buffered: [1], all: [1, 2], rules: [['a', 1]], none: [] }
  const redistributions = { buffered: 'split', all: 'union', rules: 'broadcast', none: 'split' } as const
  const [first, second] = [restoredWith(items, redistributions, 0), restoredWith(items, redistributions, 1)]
  expect(first.snapshot()).toEqual({
    buffered: { redistribution: 'split', items: [1] },
    all: { redistribution: 'union', items: [1, 2] },
    rules: { redistribution: 'broadcast', items: [['a', 1]] },
  })
  expect(Object.keys(second.snapshot())).toEqual(['buffered', 'rules'])
  second.getListState(buffered).clear()
  expect(second.snapshot()['buffered']).toEqual({ redistribution: 'split', items: [] })
  expect(second.getUnionListState(new ListStateDescriptor('all')).get()).toEqual([1, 2])
})
