/**
 * A keyed state backend as one would write it on a page: everything copied, nothing clever. What a real one is compared with.
 */
import { inspect } from 'node:util'
import type { Serde } from '../core/connector.ts'
import {
  AggregatingStateDescriptor,
  AsyncMapStateDescriptor,
  type DueTimer,
  type Key,
  type KeyedStateBackend,
  ListStateDescriptor,
  MapStateDescriptor,
  type Namespace,
  ReducingStateDescriptor,
  ValueStateDescriptor,
} from '../core/state.ts'

/** A value that jobs change in place before they store it again. */
export interface Total {
  count: number
  tags: string[]
}

interface Accumulator {
  sum: number
  parts: number[]
}

/** How the value state is written: JSON. */
export const TOTAL_SERDE: Serde<Total> = {
  name: 'total-json',
  serialize: (total) => Buffer.from(JSON.stringify(total)),
  deserialize: (bytes) => JSON.parse(Buffer.from(bytes).toString('utf8')) as Total,
}

/** The states that the suite uses; made anew for each backend, as a restarted job does. `serde` stands in for TOTAL_SERDE, under its name. */
export function contractDescriptors(serde: Serde<Total> = TOTAL_SERDE) {
  return {
    value: new ValueStateDescriptor<Total>('total', serde),
    list: new ListStateDescriptor<Total>('list'),
    map: new MapStateDescriptor<string | number, Total>('map'),
    asyncMap: new AsyncMapStateDescriptor<string | number, Total>('async-map'),
    reducing: new ReducingStateDescriptor<Total>('reducing', (a, b) => {
      a.count += b.count
      return a
    }),
    aggregating: new AggregatingStateDescriptor<number, Accumulator, string>('aggregating', {
      createAccumulator: () => ({ sum: 0, parts: [] }),
      add: (value, accumulator) => {
        accumulator.sum += value
        accumulator.parts.push(value)
        return accumulator
      },
      getResult: ({ sum, parts }) => `${sum}=${parts.join('+')}`,
      merge: (a, b) => ({ sum: a.sum + b.sum, parts: [...a.parts, ...b.parts] }),
    }),
  }
}

/** All that one key holds in one namespace. */
export interface ModelCell {
  value: Total | undefined
  list: Total[]
  map: Map<string | number, Total>
  /** In namespace '' only. */
  asyncMap: Map<string | number, Total>
  reducing: Total | undefined
  aggregating: number[]
}

interface ModelTimer {
  readonly domain: 'event' | 'processing'
  readonly key: Key
  readonly namespace: Namespace
  readonly time: number
}

const identity = (...parts: unknown[]): string =>
  inspect(parts, { depth: null, compact: true, breakLength: Number.POSITIVE_INFINITY })

/** The whole state by key and namespace, and the timers in the order of their registration. */
export class StateBackendModel {
  readonly cells = new Map<string, ModelCell>()
  timers: ModelTimer[] = []

  cell(key: Key, namespace: Namespace): ModelCell {
    const id = identity(key, namespace)
    let cell = this.cells.get(id)
    if (cell === undefined) {
      cell = {
        value: undefined,
        list: [],
        map: new Map(),
        asyncMap: new Map(),
        reducing: undefined,
        aggregating: [],
      }
      this.cells.set(id, cell)
    }
    return cell
  }

  register(timer: ModelTimer): void {
    const id = identity(timer)
    if (!this.timers.some((each) => identity(each) === id)) this.timers.push(timer)
  }

  delete(timer: ModelTimer): void {
    const id = identity(timer)
    this.timers = this.timers.filter((each) => identity(each) !== id)
  }

  /** Removes and returns the due timers, by time, then registration. */
  due(domain: 'event' | 'processing', time: number, limit: number): DueTimer[] {
    const due = this.timers
      .filter((each) => each.domain === domain && each.time <= time)
      .sort((a, b) => a.time - b.time)
      .slice(0, limit)
    this.timers = this.timers.filter((each) => !due.includes(each))
    return due.map(({ key, namespace, time: at }) => ({ key, namespace, time: at }))
  }

  copy(): StateBackendModel {
    const copy = new StateBackendModel()
    for (const [id, cell] of this.cells) copy.cells.set(id, structuredClone(cell))
    copy.timers = [...this.timers]
    return copy
  }

  /** The state of the given keys and namespaces as text, as `dumpBackend` writes it. */
  dump(keys: readonly Key[], namespaces: readonly Namespace[]): string {
    const lines: string[] = []
    for (const key of keys)
      for (const namespace of namespaces) {
        const { value, list, map, asyncMap, reducing, aggregating } = this.cell(key, namespace)
        const sum = aggregating.reduce((a, b) => a + b, 0)
        const aggregated = aggregating.length === 0 ? null : `${sum}=${aggregating.join('+')}`
        lines.push(dumpLine(key, namespace, value ?? null, list, map, reducing ?? null, aggregated))
        if (namespace === '') lines.push(dumpLine(key, 'async map', asyncMap))
      }
    for (const domain of ['event', 'processing'] as const) {
      const timers = this.timers.filter((timer) => timer.domain === domain)
      lines.push(
        dumpTimers(
          domain,
          timers.map(({ key, namespace, time }) => ({ key, namespace, time })),
        ),
      )
    }
    return lines.join('\n')
  }
}

function dumpLine(key: Key, namespace: Namespace, ...states: unknown[]): string {
  return inspect([key, namespace, ...states], {
    depth: null,
    maxArrayLength: null,
    compact: true,
    breakLength: Number.POSITIVE_INFINITY,
    sorted: true,
  })
}

/** Ties of time in no order: only one subtask's own timers keep theirs. */
function dumpTimers(domain: string, timers: readonly DueTimer[]): string {
  return `${domain}: ${timers
    .map((timer) => identity(timer.time, timer.key, timer.namespace))
    .sort()
    .join(', ')}`
}

/** What an iterator gives, as a list. */
export async function allOf<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

/** The state of a backend as text. Takes its timers out, so it is for a backend that was restored for this purpose. */
export async function dumpBackend(
  backend: KeyedStateBackend,
  keys: readonly Key[],
  namespaces: readonly Namespace[],
): Promise<string> {
  const descriptors = contractDescriptors()
  const value = backend.getState(descriptors.value)
  const list = backend.getListState(descriptors.list)
  const map = backend.getMapState(descriptors.map)
  const reducing = backend.getReducingState(descriptors.reducing)
  const aggregating = backend.getAggregatingState(descriptors.aggregating)
  const asyncMap = backend.getAsyncMapState(descriptors.asyncMap)
  const lines: string[] = []
  for (const key of keys) {
    await backend.prefetch([key])
    backend.setCurrentKey(key)
    for (const namespace of namespaces) {
      backend.setCurrentNamespace(namespace)
      lines.push(
        dumpLine(
          key,
          namespace,
          value.value(),
          list.get(),
          new Map(map.entries()),
          reducing.get(),
          aggregating.get(),
        ),
      )
      if (namespace === '') lines.push(dumpLine(key, 'async map', new Map(await allOf(asyncMap.entries()))))
    }
    backend.setCurrentNamespace('')
    await backend.settle()
  }
  backend.setCurrentNamespace('')
  await backend.prefetch(keys)
  const all = Number.MAX_SAFE_INTEGER
  lines.push(dumpTimers('event', backend.timers().dueEventTimers(all, all)))
  lines.push(dumpTimers('processing', backend.timers().dueProcessingTimers(all, all)))
  return lines.join('\n')
}
