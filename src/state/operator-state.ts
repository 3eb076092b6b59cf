/**
 * Operator state of one subtask: lists, union lists and broadcast maps that belong to no key. Small by nature, so a snapshot copies it.
 */
import type { Serde } from '../core/connector.ts'
import type {
  OperatorStateEntry,
  OperatorStateSnapshot,
  Redistribution,
} from '../core/operators/stream-operator.ts'
import type {
  BroadcastState,
  ListState,
  ListStateDescriptor,
  MapStateDescriptor,
  OperatorStateStore,
} from '../core/state.ts'
import { MillraceError, StateValueError } from '../errors.ts'
import { refusalOf } from './refused-value.ts'
import { StructuredValueReader } from './structured-reader.ts'
import { MAX_DEPTH, StructuredValueWriter } from './structured-value.ts'

/** Something that can be stored and put back as a list of structured values. */
interface Stored {
  readonly redistribution: Redistribution
  items(): unknown[]
}

function encodeWith(serde: Serde<any> | undefined, value: unknown, name: string): unknown {
  if (serde === undefined) return value
  const bytes = serde.serialize(value)
  if (bytes !== null) return bytes
  throw new StateValueError(
    'MILLRACE_INVALID_STATE_VALUE',
    `State '${name}': serde '${serde.name}' gave null for a value`,
  )
}

function decodeWith(serde: Serde<any> | undefined, item: unknown): any {
  return serde === undefined ? item : serde.deserialize(item as Uint8Array)
}

/** @throws StateValueError for a value that could not be stored at the next checkpoint */
function checkValue(serde: Serde<any> | undefined, value: unknown, name: string): void {
  const refusal = serde === undefined ? refusalOf(value, name, MAX_DEPTH) : undefined
  if (refusal !== undefined) throw refusal
}

/** A list of one subtask. What `get` returned does not change when elements are added. */
class OperatorListState<T> implements ListState<T>, Stored {
  readonly redistribution: Redistribution
  readonly #name: string
  readonly #serde: Serde<T> | undefined
  #values: readonly T[]

  constructor(
    descriptor: ListStateDescriptor<T>,
    redistribution: Redistribution,
    restored: readonly unknown[],
  ) {
    this.redistribution = redistribution
    this.#name = descriptor.name
    this.#serde = descriptor.serde
    this.#values = restored.map((item) => decodeWith(this.#serde, item))
  }

  get(): readonly T[] {
    return this.#values
  }

  add(value: T): void {
    this.addAll([value])
  }

  addAll(values: Iterable<T>): void {
    this.update([...this.#values, ...values])
  }

  update(values: Iterable<T>): void {
    const updated = [...values]
    for (const value of updated) checkValue(this.#serde, value, this.#name)
    this.#values = updated
  }

  clear(): void {
    this.#values = []
  }

  items(): unknown[] {
    return this.#values.map((value) => encodeWith(this.#serde, value, this.#name))
  }
}

/** A map that every subtask holds whole. */
class OperatorBroadcastState<K, V> implements BroadcastState<K, V>, Stored {
  readonly redistribution = 'broadcast'
  readonly #name: string
  readonly #serde: Serde<V> | undefined
  readonly #map = new Map<K, V>()

  constructor(descriptor: MapStateDescriptor<K, V>, restored: readonly unknown[]) {
    this.#name = descriptor.name
    this.#serde = descriptor.serde
    for (const item of restored) {
      const [key, value] = item as [K, unknown]
      this.#map.set(key, decodeWith(this.#serde, value))
    }
  }

  get(key: K): V | undefined {
    return this.#map.get(key)
  }

  contains(key: K): boolean {
    return this.#map.has(key)
  }

  entries(): IterableIterator<[K, V]> {
    return this.#map.entries()
  }

  put(key: K, value: V): void {
    checkValue(undefined, key, this.#name)
    checkValue(this.#serde, value, this.#name)
    this.#map.set(key, value)
  }

  remove(key: K): void {
    this.#map.delete(key)
  }

  clear(): void {
    this.#map.clear()
  }

  items(): unknown[] {
    return [...this.#map].map(([key, value]) => [key, encodeWith(this.#serde, value, this.#name)])
  }
}

/**
 * The operator states of one subtask. `restored` is what `OperatorRestore.operatorState` gives: already redistributed for this subtask.
 * A state takes its restored items when it is first asked for; restored states that nobody asks for are dropped (see `undeclared`).
 */
export class HeapOperatorStateStore implements OperatorStateStore {
  readonly #operatorName: string
  readonly #restored: Map<string, readonly unknown[]>
  readonly #states = new Map<string, Stored>()

  constructor(options: {
    readonly operatorName: string
    readonly restored?: Readonly<Record<string, readonly unknown[]>> | undefined
  }) {
    this.#operatorName = options.operatorName
    this.#restored = new Map(Object.entries(options.restored ?? {}))
  }

  getListState<T>(descriptor: ListStateDescriptor<T>): ListState<T> {
    return this.#list(descriptor, 'split')
  }

  getUnionListState<T>(descriptor: ListStateDescriptor<T>): ListState<T> {
    return this.#list(descriptor, 'union')
  }

  getBroadcastState<K, V>(descriptor: MapStateDescriptor<K, V>): BroadcastState<K, V> {
    return this.#state(
      descriptor.name,
      'broadcast',
      (restored) => new OperatorBroadcastState<K, V>(descriptor, restored),
    )
  }

  /** Names of restored states that nobody has asked for. */
  undeclared(): string[] {
    return [...this.#restored.keys()]
  }

  /**
   * A deep copy of all states, by structured values: what the user code changes afterwards is not in it.
   * @throws StateValueError naming the state and the place of a value that cannot be stored
   */
  snapshot(): OperatorStateSnapshot {
    const snapshot: Record<string, OperatorStateEntry> = {}
    for (const [name, state] of this.#states)
      snapshot[name] = { redistribution: state.redistribution, items: copyOf(state.items(), name) }
    return snapshot
  }

  #list<T>(descriptor: ListStateDescriptor<T>, redistribution: Redistribution): ListState<T> {
    return this.#state(
      descriptor.name,
      redistribution,
      (restored) => new OperatorListState<T>(descriptor, redistribution, restored),
    )
  }

  #state<S extends Stored>(
    name: string,
    redistribution: Redistribution,
    make: (restored: readonly unknown[]) => S,
  ): S {
    const known = this.#states.get(name)
    if (known === undefined) {
      const made = make(this.#restored.get(name) ?? [])
      this.#restored.delete(name)
      this.#states.set(name, made)
      return made
    }
    if (known.redistribution === redistribution) return known as S
    throw new MillraceError(
      'MILLRACE_STATE_INCOMPATIBLE',
      `Operator '${this.#operatorName}', state '${name}': it is declared as ${known.redistribution} and as ${redistribution} state`,
    )
  }
}

function copyOf(items: readonly unknown[], name: string): unknown[] {
  const writer = new StructuredValueWriter()
  for (const item of items) writer.write(item, name)
  const reader = new StructuredValueReader(writer.finish(), `operator state '${name}'`)
  return items.map(() => reader.read())
}
