/**
 * Reads the state in a snapshot without a job: images and incremental layers, key group by key group, so that no more than one blob of each
 * layer is in memory at a time. Values of a state with a serde stay bytes: only the job can read those.
 */
import type { ImagesHandle, KeyedStateHandle, StateHandle } from '../checkpoint/checkpoint-storage.ts'
import { unpackImages } from '../checkpoint/checkpoint-storage.ts'
import type { CompletedCheckpoint } from '../checkpoint/completed-checkpoint.ts'
import { lostStateOf } from '../checkpoint/lost-state.ts'
import { encodeKey } from '../core/key-encoding.ts'
import type { OperatorStateSnapshot } from '../core/operators/stream-operator.ts'
import type { Key, KeyGroupImage, Namespace, StateKind } from '../core/state.ts'
import type { TimeDomain } from '../core/time/timer-queues.ts'
import { KeyGroupImageReader } from './key-group-image.ts'
import { readPart } from './map-part.ts'
import { decodeOperatorState } from './operator-state-codec.ts'
import { type ListSlot, STORED_UNDEFINED, TtlCell } from './state-slot.ts'

/** The bytes of a handle, verified. */
export type ReadHandle = (handle: StateHandle) => Promise<Uint8Array>

/** One state of one key, in one namespace (a window's, or '' for plain state). */
export interface StoredValue {
  readonly state: string
  readonly kind: StateKind
  readonly namespace: Namespace
  /** Name of the serde whose bytes the values are; null: `value` holds them as they were. */
  readonly serde: string | null
  /** A list state's array, the Map of a map or an async map state, otherwise the value. */
  readonly value: unknown
}

export interface StoredTimer {
  readonly domain: TimeDomain
  readonly namespace: Namespace
  /** Epoch ms. */
  readonly time: number
}

/** All that a snapshot holds of one key of an operator. */
export interface StoredKey {
  readonly keyGroup: number
  readonly key: Key
  readonly values: readonly StoredValue[]
  readonly timers: readonly StoredTimer[]
}

/** Operator state of one subtask. */
export interface StoredOperatorState {
  readonly subtask: number
  readonly state: OperatorStateSnapshot
}

/**
 * The keyed state of an operator, in the order of its key groups within each subtask. State that lies in an outside store is left out.
 * @throws StateLostError naming the file, the operator and the key groups
 */
export async function* storedKeys(
  checkpoint: CompletedCheckpoint,
  uid: string,
  read: ReadHandle,
): AsyncGenerator<StoredKey> {
  const states = checkpoint.states
    .filter((state) => state.uid === uid)
    .toSorted((a, b) => a.subtask - b.subtask)
  for (const { keyed } of states) if (keyed !== undefined) yield* keysOf(keyed, uid, read)
}

/** Operator state of all subtasks. @throws StateLostError */
export async function storedOperatorState(
  checkpoint: CompletedCheckpoint,
  uid: string,
  read: ReadHandle,
): Promise<StoredOperatorState[]> {
  const found: StoredOperatorState[] = []
  for (const { uid: owner, subtask, operator } of checkpoint.states)
    if (owner === uid && operator !== undefined)
      found.push({ subtask, state: decodeOperatorState(await read(operator), uid) })
  return found.sort((a, b) => a.subtask - b.subtask)
}

async function* keysOf(keyed: KeyedStateHandle, uid: string, read: ReadHandle): AsyncGenerator<StoredKey> {
  if (keyed.kind === 'external') return
  const layers: KeyGroupImage[][] = []
  for (const layer of keyed.kind === undefined ? [keyed] : keyed.layers)
    layers.push(await imagesOf(layer, uid, read))
  const keyGroups = new Set(layers.flatMap((images) => images.map(({ keyGroup }) => keyGroup)))
  for (const keyGroup of [...keyGroups].sort((a, b) => a - b)) {
    const images = layers.flatMap((layer) => layer.filter((image) => image.keyGroup === keyGroup))
    yield* mergedRecords(images, uid)
  }
}

async function imagesOf(
  { handle, keyGroups }: ImagesHandle,
  uid: string,
  read: ReadHandle,
): Promise<KeyGroupImage[]> {
  try {
    return unpackImages(await read(handle), keyGroups)
  } catch (error) {
    throw lostStateOf(uid, keyGroups, error)
  }
}

/** A record as it is stored: of a key, or of a part of one. */
interface StoredRecord extends StoredKey {
  readonly part: string | undefined
}

/** Records of later images replace those of earlier ones; one without state and timers removes them. */
function mergedRecords(images: readonly KeyGroupImage[], uid: string): Iterable<StoredKey> {
  const records = new Map<string, StoredRecord>()
  for (const image of images)
    for (const record of recordsOf(image, uid)) {
      const name = record.part ?? canonical(record.key)
      if (record.values.length === 0 && record.timers.length === 0) records.delete(name)
      else records.set(name, record)
    }
  return withEntries(records)
}

function canonical(key: Key): string {
  return Buffer.from(encodeKey(key)).toString('latin1')
}

/** Keys with the entries of their async maps, which are records of their own. */
function withEntries(records: ReadonlyMap<string, StoredRecord>): Iterable<StoredKey> {
  const keys = new Map<string, StoredKey>()
  for (const [name, { part, values, ...record }] of records)
    if (part === undefined)
      keys.set(name, {
        ...record,
        values: values.map((each) => (each.kind === 'async-map' ? { ...each, value: new Map() } : each)),
      })
  for (const { part, values } of records.values()) {
    if (part === undefined) continue
    const { owner, state, kind, at } = readPart(part)
    const map = keys.get(canonical(owner))?.values.find((each) => each.state === state)?.value
    if (kind === 'entry') (map as Map<unknown, unknown> | undefined)?.set(at, values[0]?.value)
  }
  return keys.values()
}

function recordsOf(image: KeyGroupImage, uid: string): StoredRecord[] {
  const reader = new KeyGroupImageReader(image, uid)
  const records: StoredRecord[] = []
  let key: Key = ''
  let part: string | undefined
  let values: StoredValue[] = []
  let timers: StoredTimer[] = []
  reader.read({
    beginRecord: (next, nextPart) => {
      key = next
      part = nextPart
      values = []
      timers = []
    },
    slot: (index, namespace, slot) => {
      const { name, kind, serde } = reader.states[index]!
      values.push({ state: name, kind, namespace, serde, value: shown(slot, kind) })
    },
    timer: (domain, namespace, time) => timers.push({ domain, namespace, time }),
    endRecord: () => records.push({ keyGroup: image.keyGroup, key, part, values, timers }),
  })
  return records
}

/** What user code would see: without the times that a time to live keeps. */
function shown(slot: unknown, kind: StateKind): unknown {
  if (kind === 'list') return (slot as ListSlot).items.map(plain)
  if (kind === 'map')
    return new Map([...(slot as Map<unknown, unknown>)].map(([key, value]) => [key, plain(value)]))
  return plain(slot)
}

function plain(stored: unknown): unknown {
  const value = stored instanceof TtlCell ? stored.value : stored
  return value === STORED_UNDEFINED ? undefined : value
}
