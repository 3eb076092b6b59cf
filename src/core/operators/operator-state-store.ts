/**
 * Operator state: what a subtask keeps that belongs to no key. It is small and lives on the heap; each snapshot holds a deep copy.
 *
 *   list        restored in parts: each subtask gets some of all items
 *   union list  every subtask gets all items of all subtasks
 *   broadcast   every subtask holds the same map; its items are [key, value] pairs
 */
import { GraphError } from '../../errors.ts'
import type { Serde } from '../connector.ts'
import type {
  BroadcastState,
  ListState,
  ListStateDescriptor,
  MapStateDescriptor,
  OperatorStateStore,
  StateDescriptor,
} from '../state.ts'
import type { OperatorStateEntry, OperatorStateSnapshot, Redistribution } from './stream-operator.ts'
import { refuseForeign, structuredCopy } from './structured-copy.ts'

/** One named state: how it is given out again, and its items as a snapshot holds them. */
interface OperatorState {
  readonly redistribution: Redistribution
  items(): unknown[]
}

/** Makes items out of values: bytes if the descriptor has a serde, deep copies of structured values otherwise. */
class ItemCodec {
  private readonly name: string
  private readonly serde: Serde<any> | undefined

  constructor(descriptor: StateDescriptor) {
    this.name = descriptor.name
    this.serde = descriptor.serde
  }
  copy<T>(value: T): T {
    return structuredCopy(value, refuseForeign(this.name))
  }
  encode(value: unknown): unknown {
    return this.serde === undefined ? this.copy(value) : this.serde.serialize(value)
  }
  decode(item: unknown): any {
    if (this.serde === undefined) return this.copy(item)
    return item === null ? null : this.serde.deserialize(item as Uint8Array)
  }
}

class OperatorListState<T> implements ListState<T>, OperatorState {
  readonly redistribution: Redistribution
  private readonly codec: ItemCodec
  private values: T[]

  constructor(
    descriptor: ListStateDescriptor<T>,
    redistribution: Redistribution,
    restored: readonly unknown[],
  ) {
    this.redistribution = redistribution
    this.codec = new ItemCodec(descriptor)
    this.values = restored.map((item) => this.codec.decode(item))
  }
  get(): readonly T[] {
    return this.values
  }
  add(value: T): void {
    this.values.push(value)
  }
  addAll(values: Iterable<T>): void {
    for (const value of values) this.values.push(value)
  }
  update(values: Iterable<T>): void {
    this.values = [...values]
  }
  clear(): void {
    this.values = []
  }
  items(): unknown[] {
    return this.values.map((value) => this.codec.encode(value))
  }
}

class OperatorBroadcastState<K, V> implements BroadcastState<K, V>, OperatorState {
  readonly redistribution = 'broadcast'
  private readonly codec: ItemCodec
  private readonly map = new Map<K, V>()

  constructor(descriptor: MapStateDescriptor<K, V>, restored: readonly unknown[]) {
    this.codec = new ItemCodec(descriptor)
    for (const [key, item] of restored as readonly [K, unknown][]) this.map.set(key, this.codec.decode(item))
  }
  get(key: K): V | undefined {
    return this.map.get(key)
  }
  contains(key: K): boolean {
    return this.map.has(key)
  }
  entries(): IterableIterator<[K, V]> {
    return this.map.entries()
  }
  put(key: K, value: V): void {
    this.map.set(key, value)
  }
  remove(key: K): void {
    this.map.delete(key)
  }
  clear(): void {
    this.map.clear()
  }
  items(): unknown[] {
    return Array.from(this.map, ([key, value]) => [this.codec.copy(key), this.codec.encode(value)])
  }
}

/** What a store was restored with. */
export interface RestoredOperatorState {
  /** By name, already redistributed for this subtask. */
  readonly items: Readonly<Record<string, readonly unknown[]>>
  /** How each was given out. */
  readonly redistributions: Readonly<Record<string, Redistribution>>
  readonly subtaskIndex: number
}

/**
 * The operator state of one subtask. A state is restored when it is first asked for; one that nobody asks for yet goes on from snapshot to
 * snapshot as it was restored.
 */
export class DefaultOperatorStateStore implements OperatorStateStore {
  private readonly operatorName: string
  private readonly restored: RestoredOperatorState | undefined
  private readonly states = new Map<string, OperatorState>()

  constructor(operatorName: string, restored: RestoredOperatorState | undefined) {
    this.operatorName = operatorName
    this.restored = restored
  }

  getListState<T>(descriptor: ListStateDescriptor<T>): ListState<T> {
    return this.list(descriptor, 'split')
  }

  getUnionListState<T>(descriptor: ListStateDescriptor<T>): ListState<T> {
    return this.list(descriptor, 'union')
  }

  getBroadcastState<K, V>(descriptor: MapStateDescriptor<K, V>): BroadcastState<K, V> {
    const known = this.known(descriptor.name, 'broadcast')
    if (known !== undefined) return known as OperatorBroadcastState<K, V>
    const state = new OperatorBroadcastState(descriptor, this.itemsOf(descriptor.name))
    this.states.set(descriptor.name, state)
    return state
  }

  /** All states, deeply copied: what happens afterwards does not change it. @throws StateValueError for values that state cannot keep. */
  snapshot(): OperatorStateSnapshot {
    const entries: [string, OperatorStateEntry][] = this.unclaimed()
    for (const [name, state] of this.states)
      entries.push([name, { redistribution: state.redistribution, items: state.items() }])
    return Object.fromEntries(entries)
  }

  private list<T>(descriptor: ListStateDescriptor<T>, redistribution: 'split' | 'union'): ListState<T> {
    const known = this.known(descriptor.name, redistribution)
    if (known !== undefined) return known as OperatorListState<T>
    const state = new OperatorListState(descriptor, redistribution, this.itemsOf(descriptor.name))
    this.states.set(descriptor.name, state)
    return state
  }

  private itemsOf(name: string): readonly unknown[] {
    const items = this.restored?.items ?? {}
    return Object.hasOwn(items, name) ? items[name]! : []
  }

  /** Of a union list every subtask was given all items: one of them keeps them, or they would come back as many times. */
  private unclaimed(): [string, OperatorStateEntry][] {
    if (this.restored === undefined) return []
    const { items, redistributions, subtaskIndex } = this.restored
    return Object.entries(redistributions).flatMap(([name, redistribution]) => {
      const own = redistribution === 'union' && subtaskIndex > 0 ? [] : (items[name] ?? [])
      return this.states.has(name) || own.length === 0 ? [] : [[name, { redistribution, items: own }]]
    })
  }

  private known(name: string, redistribution: Redistribution): OperatorState | undefined {
    const state = this.states.get(name)
    if (state === undefined || state.redistribution === redistribution) return state
    throw new GraphError(
      'MILLRACE_INVALID_GRAPH',
      `Operator '${this.operatorName}' asks for state '${name}' as ${redistribution} and as ${state.redistribution}`,
      { details: { operator: this.operatorName, state: name } },
    )
  }
}
