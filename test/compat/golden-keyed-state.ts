import type { Serde } from '../../src/core/connector.ts'
import {
  AggregatingStateDescriptor,
  AsyncMapStateDescriptor,
  ListStateDescriptor,
  MapStateDescriptor,
  ReducingStateDescriptor,
  StateTtlConfig,
  ValueStateDescriptor,
} from '../../src/core/state.ts'
import { HeapKeyedStateBackend } from '../../src/state/heap-backend.ts'

/** A serde of a class, as a user would write it. */
export const upperCase: Serde<string> = {
  name: 'upper-case',
  serialize: (text) => new TextEncoder().encode(text.toLowerCase()),
  deserialize: (bytes) => new TextDecoder().decode(bytes).toUpperCase(),
}

/** The states of the golden operator. */
export const goldenStates = () => ({
  value: new ValueStateDescriptor<unknown>('value'),
  list: new ListStateDescriptor<number>('list'),
  map: new MapStateDescriptor<string | number, { n: number }>('map'),
  reducing: new ReducingStateDescriptor<number>('reducing', (a, b) => a + b),
  aggregating: new AggregatingStateDescriptor<number, number, string>('aggregating', {
    createAccumulator: () => 0,
    add: (value, sum) => sum + value,
    getResult: (sum) => `sum ${sum}`,
  }),
  expiring: new ValueStateDescriptor<string>('expiring').enableTimeToLive(StateTtlConfig.of(1_000)),
  coded: new ValueStateDescriptor<string>('coded', upperCase),
})

/** The async maps of the golden operator, which only images of format 2 hold. */
export const goldenAsyncMaps = () => ({
  plain: new AsyncMapStateDescriptor<string | number, unknown>('plain'),
  expiring: new AsyncMapStateDescriptor<string, string>('expiring-map', upperCase).enableTimeToLive(
    StateTtlConfig.of(1_000),
  ),
})

/** An empty backend of the golden operator; time stands at 5,000. */
export function emptyGoldenBackend(): HeapKeyedStateBackend {
  return new HeapKeyedStateBackend({
    range: { start: 0, end: 127 },
    maxParallelism: 128,
    operatorName: 'golden',
    clock: { now: () => 5_000 },
  })
}

/** A backend with the state that test/compat/state/key-group-images-1.json holds. */
export function goldenBackend(): HeapKeyedStateBackend {
  const backend = emptyGoldenBackend()
  const states = goldenStates()
  backend.setCurrentKey('u1')
  backend.getState(states.value).update({ at: new Date(7), big: 1n, none: undefined })
  backend.getListState(states.list).addAll([1, 2, 3])
  backend.getMapState(states.map).put('a', { n: 1 })
  backend.getMapState(states.map).put(1, { n: 2 })
  backend.getReducingState(states.reducing).add(4)
  backend.getAggregatingState(states.aggregating).add(5)
  backend.getState(states.expiring).update('soon gone')
  backend.getState(states.coded).update('LOUD')
  backend.setCurrentNamespace(60_000)
  backend.getListState(states.list).add(9)
  backend.timers().registerEventTimeTimer(60_000, 70_000)
  backend.setCurrentNamespace('')
  backend.setCurrentKey(['eu', 7n])
  backend.getState(states.value).update('composite')
  backend.timers().registerProcessingTimeTimer('', 6_000)
  backend.timers().registerEventTimeTimer('w', 65_000)
  return backend
}

/** A backend with the state that test/compat/state/key-group-images-2.json holds: that of format 1, and async maps. */
export function goldenBackendWithAsyncMaps(): HeapKeyedStateBackend {
  const backend = goldenBackend()
  const maps = goldenAsyncMaps()
  backend.setCurrentKey('u1')
  for (let i = 0; i < 70; i++) backend.getAsyncMapState(maps.plain).put(i, `item ${i}`)
  backend.getAsyncMapState(maps.plain).put('none', undefined)
  backend.setCurrentKey(['eu', 7n])
  backend.getAsyncMapState(maps.plain).put('a', { n: 1 })
  backend.getAsyncMapState(maps.expiring).put('b', 'LOUD')
  backend.settle()
  return backend
}
