import { describe, expect, test } from '@jest/globals'
import { ListStateDescriptor, MapStateDescriptor } from '../../../src/core/state.ts'
import { HeapOperatorStateStore } from '../../../src/state/operator-state.ts'

const list = () => new ListStateDescriptor<unknown>('offsets')
const rules = () => new MapStateDescriptor<string, { n: number }>('rules')

describe('operator state', () => {
  test('comes back from a snapshot, lists and broadcast maps', () => {
    const store = new HeapOperatorStateStore({ operatorName: 'source' })
    store.getListState(list()).addAll([1, { at: new Date(3) }])
    store.getUnionListState(new ListStateDescriptor('all')).add(2n)
    store.getBroadcastState(rules()).put('a', { n: 1 })
    const snapshot = store.snapshot()
    expect(snapshot['offsets']!.redistribution).toBe('split')
    expect(snapshot['all']!.redistribution).toBe('union')
    const items = Object.fromEntries(Object.entries(snapshot).map(([name, entry]) => [name, entry.items]))
    const again = new HeapOperatorStateStore({ operatorName: 'source', restored: { ...items, old: [1] } })
    expect(again.getListState(list()).get()).toEqual([1, { at: new Date(3) }])
    expect(again.getUnionListState(new ListStateDescriptor('all')).get()).toEqual([2n])
    expect([...again.getBroadcastState(rules()).entries()]).toEqual([['a', { n: 1 }]])
    expect(again.undeclared()).toEqual(['old'])
  })

  test('a snapshot is not changed by what happens after it', () => {
    const store = new HeapOperatorStateStore({ operatorName: 'source' })
    const value = { n: 1 }
    store.getListState(list()).add(value)
    store.getBroadcastState(rules()).put('a', value)
    const snapshot = store.snapshot()
    value.n = 2
    store.getListState(list()).add(3)
    expect(snapshot['offsets']!.items).toEqual([{ n: 1 }])
    expect(snapshot['rules']!.items).toEqual([['a', { n: 1 }]])
  })

  test('the list that get returned does not change when elements are added', () => {
    const state = new HeapOperatorStateStore({ operatorName: 'source' }).getListState(list())
    state.add(1)
    const read = state.get()
    state.add(2)
    expect(read).toEqual([1])
    state.clear()
    expect(state.get()).toEqual([])
  })

  test('a serde codes the values', () => {
    const serde = {
      name: 'text',
      serialize: (text: string) => Buffer.from(text),
      deserialize: (bytes: Uint8Array) => Buffer.from(bytes).toString(),
    }
    const store = new HeapOperatorStateStore({ operatorName: 'source' })
    store.getListState(new ListStateDescriptor<string>('texts', serde)).add('abc')
    const { items } = store.snapshot()['texts']!
    expect(items).toEqual([Buffer.from('abc')])
    const again = new HeapOperatorStateStore({ operatorName: 'source', restored: { texts: items } })
    expect(again.getListState(new ListStateDescriptor<string>('texts', serde)).get()).toEqual(['abc'])
  })

  test('a class instance is refused where it is added', () => {
    class Owner {}
    const store = new HeapOperatorStateStore({ operatorName: 'source' })
    expect(() => store.getListState(list()).add([new Owner()])).toThrow(
      /State 'offsets' cannot keep an instance of Owner, at \[0\]/,
    )
    expect(() => store.getBroadcastState(rules()).put('a', new Owner() as { n: number })).toThrow(
      /'rules'.*Owner/,
    )
  })

  test('one name for two kinds of redistribution is refused', () => {
    const store = new HeapOperatorStateStore({ operatorName: 'source' })
    store.getListState(list())
    expect(() => store.getUnionListState(list())).toThrow(
      expect.objectContaining({ code: 'MILLRACE_STATE_INCOMPATIBLE' }),
    )
  })
})
