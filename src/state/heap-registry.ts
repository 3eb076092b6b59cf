/**
 * The states of one operator subtask by name. States come from two sides: restored images declare what they hold, later the user's code
 * declares what it wants. Restored state that nobody declares is kept and goes into later checkpoints as it is.
 *
 *   (unknown) ── restored ──▶ restored ── declared, fits ──▶ declared
 *       └───────── declared ───────────────────────────────────▲
 */
import type { Serde } from '../core/connector.ts'
import type { StateDescriptor, StateKind, StateTtlOptions } from '../core/state.ts'
import { MillraceError } from '../errors.ts'
import { ValueCheck } from './heap-states.ts'
import type { ImageState } from './key-group-image.ts'
import { mapSlot, type SlotFormat, STORED_UNDEFINED, TtlCell } from './state-slot.ts'

/** One state: how its slots are stored, and where they are. */
export class HeapState implements SlotFormat {
  readonly name: string
  readonly kind: StateKind
  /** Index of its slot. */
  readonly number: number
  timed: boolean
  ttl: StateTtlOptions | undefined
  serde: Serde<any> | undefined
  /** False while it is known from an image only. */
  declared: boolean
  /** Looks at values that are stored without a serde. */
  readonly check: ValueCheck

  constructor(number: number, format: SlotFormat, declared: boolean) {
    this.name = format.name
    this.kind = format.kind
    this.number = number
    this.timed = format.timed
    this.ttl = format.ttl
    this.serde = format.serde
    this.declared = declared
    this.check = new ValueCheck(format.name)
  }
}

/** A state that an image holds. */
export interface RestoredState {
  readonly state: HeapState
  /** Makes slots of the image fit what the user's code has declared; undefined: they fit. */
  readonly change: ((slot: unknown) => unknown) | undefined
}

/** Values of a serde that is not known yet stay bytes. */
function rawSerde(name: string): Serde<Uint8Array> {
  return { name, serialize: (bytes) => bytes, deserialize: (bytes) => bytes }
}

/** States by name and number. */
export class HeapRegistry {
  readonly #operatorName: string
  readonly #states: HeapState[] = []
  readonly #byName = new Map<string, HeapState>()
  /** Grows when a state is added or changes its form. */
  generation = 0

  constructor(operatorName: string) {
    this.#operatorName = operatorName
  }

  get count(): number {
    return this.#states.length
  }

  get(name: string): HeapState | undefined {
    return this.#byName.get(name)
  }

  /** True if any state expires. */
  get hasTtl(): boolean {
    return this.#states.some((state) => state.ttl !== undefined)
  }

  /** The formats at this moment, by number. Later declarations do not change them. */
  formats(): SlotFormat[] {
    return this.#states.map(({ name, kind, timed, ttl, serde }) => ({ name, kind, timed, ttl, serde }))
  }

  /** The states as an image declares them. */
  imageStates(): ImageState[] {
    return this.#states.map(({ name, kind, timed, serde }) => ({
      name,
      kind,
      timed,
      serde: serde?.name ?? null,
    }))
  }

  at(number: number): HeapState {
    return this.#states[number]!
  }

  /**
   * The state that a descriptor declares. `convert` is called if restored slots of it must change their form.
   * @throws MillraceError MILLRACE_STATE_INCOMPATIBLE if a state of that name has another kind, or other bytes
   */
  declare(
    descriptor: StateDescriptor,
    convert: (state: HeapState, change: (slot: unknown) => unknown) => void,
    now: number,
  ): HeapState {
    const { name, kind, serde, ttl } = descriptor
    const known = this.#byName.get(name)
    if (known === undefined) return this.#add({ name, kind, serde, ttl, timed: ttl !== undefined }, true)
    this.#checkKind(known, kind)
    if (known.declared) return known
    this.#checkSerde(known, serde)
    const change = changeOf(known, { serde, timed: ttl !== undefined }, this.#operatorName, now)
    if (change !== undefined) convert(known, change)
    this.generation++
    known.serde = serde
    known.ttl = ttl
    known.timed = ttl !== undefined
    known.declared = true
    return known
  }

  /**
   * The state that an image holds, and how its slots must be changed to fit what the user's code has declared already.
   * @throws MillraceError MILLRACE_STATE_INCOMPATIBLE
   */
  restored(image: ImageState, now: number): RestoredState {
    const serde = image.serde === null ? undefined : rawSerde(image.serde)
    const format: SlotFormat = {
      name: image.name,
      kind: image.kind,
      timed: image.timed,
      ttl: undefined,
      serde,
    }
    const known = this.#byName.get(image.name)
    if (known === undefined) return { state: this.#add(format, false), change: undefined }
    this.#checkKind(new HeapState(-1, format, false), known.kind)
    this.#checkSerde(new HeapState(-1, format, false), known.serde)
    const target = known.declared ? known : { ...known, serde }
    return { state: known, change: changeOf(format, target, this.#operatorName, now) }
  }

  #add(format: SlotFormat, declared: boolean): HeapState {
    const state = new HeapState(this.#states.length, format, declared)
    this.generation++
    this.#states.push(state)
    this.#byName.set(state.name, state)
    return state
  }

  #checkKind(state: HeapState, kind: StateKind): void {
    if (state.kind === kind) return
    throw this.#incompatible(
      state.name,
      state.declared
        ? `it is declared as ${state.kind} state and as ${kind} state`
        : `the checkpoint holds ${state.kind} state, the job declares ${kind} state`,
    )
  }

  #checkSerde(restored: HeapState, serde: Serde<any> | undefined): void {
    if ((restored.serde === undefined) === (serde === undefined)) return
    throw this.#incompatible(
      restored.name,
      serde === undefined
        ? `the checkpoint holds bytes of serde '${restored.serde!.name}', the job declares no serde`
        : `the checkpoint holds structured values, the job declares serde '${serde.name}'`,
    )
  }

  #incompatible(name: string, why: string): MillraceError {
    return new MillraceError(
      'MILLRACE_STATE_INCOMPATIBLE',
      `Operator '${this.#operatorName}', state '${name}': ${why}`,
      {
        details: { operator: this.#operatorName, state: name },
      },
    )
  }
}

/** How slots of one form become slots of another; undefined if they stay as they are. */
function changeOf(
  from: SlotFormat,
  to: { readonly serde: Serde<any> | undefined; readonly timed: boolean },
  operatorName: string,
  now: number,
): ((slot: unknown) => unknown) | undefined {
  const { serde, timed } = to
  if (serde === undefined && timed === from.timed) return undefined
  const decode = (value: unknown): unknown => {
    if (serde === undefined) return value
    try {
      return serde.deserialize(value as Uint8Array)
    } catch (cause) {
      throw new MillraceError(
        'MILLRACE_STATE_INCOMPATIBLE',
        `Operator '${operatorName}', state '${from.name}': serde '${serde.name}' cannot read a stored value`,
        { cause },
      )
    }
  }
  const change = (stored: unknown): unknown => {
    const cell = from.timed ? (stored as TtlCell) : undefined
    let value = decode(cell === undefined ? stored : cell.value)
    if (timed) return new TtlCell(value === STORED_UNDEFINED ? undefined : value, cell?.lastAccess ?? now)
    if (value === undefined && from.kind !== 'list' && from.kind !== 'map') value = STORED_UNDEFINED
    return value
  }
  return (slot) => mapSlot(slot, from.kind, change)
}
