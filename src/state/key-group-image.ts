/**
 * The image of a key group: all state and timers of its keys as self-contained bytes. Every backend writes this format into savepoints
 * and rescaled checkpoints, so state moves between backends. Formats 1 and 2, held by test/compat/state/.
 *
 *   offset  bytes
 *   0       4D 52 4B 47 ("MRKG")
 *   4       format version: 01, or 02 if it declares a state of kind async-map, which releases before did not know
 *   5       key group, u16 big-endian
 *   7       number of records, u32 big-endian
 *   11      CRC-32 (ISO-HDLC) of bytes 0–10 and of everything from 15 on, u32 big-endian
 *   15      one block of structured values (see structured-value.ts):
 *           the list of states { name, kind, timed, serde }, then each record:
 *             key; in format 2 also null, then the bytes of the name of a part of a key (see map-part.ts)
 *             for each value: count 1 + number of the state, namespace, slot (see state-slot.ts); then count 0
 *             event-time timers: count, then for each: namespace, time (double), sequence (double)
 *             processing-time timers: the same
 */
import { types } from 'node:util'
import { crc32 } from '@node-rs/crc32'
import type { Key, KeyGroupImage, Namespace, StateKind } from '../core/state.ts'
import type { TimeDomain } from '../core/time/timer-queues.ts'
import { MillraceError, StateLostError } from '../errors.ts'
import { bytesOfPart, recordNameOf } from './map-part.ts'
import { readSlot, type SlotFormat, writeSlot } from './state-slot.ts'
import { StructuredValueReader } from './structured-reader.ts'
import { StructuredValueWriter } from './structured-value.ts'

const MAGIC = 0x4d524b47
const VERSION = 1
/** With parts of keys. */
const VERSION_WITH_PARTS = 2
const CRC_AT = 11
const HEADER_BYTES = 15
const KINDS: readonly string[] = [
  'value',
  'list',
  'map',
  'reducing',
  'aggregating',
  'async-map',
] satisfies StateKind[]
const DOMAINS: readonly TimeDomain[] = ['event', 'processing']

/** A state as an image declares it. */
export interface ImageState {
  readonly name: string
  readonly kind: StateKind
  /** True if each value carries the time of its last access. */
  readonly timed: boolean
  /** Name of the serde that wrote the values; null: structured values. */
  readonly serde: string | null
}

/** Timers of a record, in the order of their registration. */
export interface ImageTimers {
  inOrder(
    domain: TimeDomain,
  ): readonly { readonly namespace: Namespace; readonly time: number; readonly sequence: number }[]
}

/** Takes what an image holds, in order: a record begins, its values and timers follow, it ends. Nothing is made for a record but this. */
export interface ImageVisitor {
  /** `part` is the name of a part of what `key` holds, undefined for the key itself. */
  beginRecord(key: Key, part: string | undefined): void
  /** `state` is an index into the image's states; a serde's values are still bytes in `slot`. */
  slot(state: number, namespace: Namespace, slot: unknown): void
  timer(domain: TimeDomain, namespace: Namespace, time: number, sequence: number): void
  endRecord(): void
}

/** Writes the image of one key group, record by record. */
export class KeyGroupImageWriter {
  readonly keyGroup: number
  readonly #formats: readonly SlotFormat[]
  readonly #out = new StructuredValueWriter({ headroom: HEADER_BYTES })
  #records = 0
  /** Fewer than `#records` once a record was left half-way: the image is spoilt. */
  #ended = 0

  constructor(keyGroup: number, formats: readonly SlotFormat[]) {
    this.keyGroup = keyGroup
    this.#formats = formats
    this.#out.write(
      formats.map(
        ({ name, kind, timed, serde }) =>
          ({ name, kind, timed, serde: serde?.name ?? null }) satisfies ImageState,
      ),
    )
  }

  get length(): number {
    return this.#out.length
  }

  /** Begins a record of a key, or of the part of it that `part` names; `slot` calls, then `endRecord` must follow. */
  beginRecord(key: Key, part?: string): void {
    this.#records++
    if (part === undefined) {
      this.#out.write(key)
      return
    }
    this.#out.write(null)
    this.#out.write(bytesOfPart(part))
  }

  /** One value of the record. @throws StateValueError if it cannot be kept; whatever a serde throws. The image is then spoilt */
  slot(state: number, namespace: Namespace, slot: unknown): void {
    this.#out.writeCount(state + 1)
    this.#out.write(namespace)
    writeSlot(this.#out, slot, this.#formats[state]!)
  }

  /** Ends the record with the key's timers. */
  endRecord(timers: ImageTimers | undefined): void {
    this.#out.writeCount(0)
    if (timers === undefined) {
      for (let domain = 0; domain < DOMAINS.length; domain++) this.#out.writeCount(0)
      this.#ended++
      return
    }
    for (const domain of DOMAINS) {
      const owned = timers.inOrder(domain)
      this.#out.writeCount(owned.length)
      for (const timer of owned) {
        this.#out.write(timer.namespace)
        this.#out.writeDouble(timer.time)
        this.#out.writeDouble(timer.sequence)
      }
    }
    this.#ended++
  }

  /** The image, or undefined if it has no records. @throws Error if a record was begun and not ended: half of it is in the bytes */
  finish(): KeyGroupImage | undefined {
    if (this.#records === 0) return undefined
    if (this.#ended !== this.#records)
      throw new MillraceError(
        'MILLRACE_INTERNAL',
        `The image of key group ${this.keyGroup} is spoilt: one of its records could not be written`,
      )
    const bytes = this.#out.finish()
    const header = new DataView(bytes.buffer, bytes.byteOffset, HEADER_BYTES)
    header.setUint32(0, MAGIC)
    header.setUint8(4, this.#formats.some(({ kind }) => kind === 'async-map') ? VERSION_WITH_PARTS : VERSION)
    header.setUint16(5, this.keyGroup)
    header.setUint32(7, this.#records)
    header.setUint32(CRC_AT, checksum(bytes))
    return { keyGroup: this.keyGroup, bytes }
  }
}

function checksum(bytes: Uint8Array): number {
  return crc32(bytes.subarray(HEADER_BYTES), crc32(bytes.subarray(0, CRC_AT)))
}

/** Reads an image. All checks of the container are done by the constructor. */
export class KeyGroupImageReader {
  readonly states: readonly ImageState[]
  readonly recordCount: number
  readonly #input: StructuredValueReader
  readonly #where: string

  /** @throws StateLostError naming the operator and the key group if the bytes are not a whole image of that key group */
  constructor(image: KeyGroupImage, operatorName: string) {
    this.#where = `operator '${operatorName}', key group ${image.keyGroup}`
    const { bytes } = image
    const header = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
    if (bytes.length < HEADER_BYTES || header.getUint32(0) !== MAGIC)
      this.#lost('it does not begin as an image')
    const version = header.getUint8(4)
    if (version !== VERSION && version !== VERSION_WITH_PARTS)
      this.#lost(`format version ${version} is unknown to this release`)
    if (header.getUint32(CRC_AT) !== checksum(bytes)) this.#lost('its checksum does not match its bytes')
    if (header.getUint16(5) !== image.keyGroup) this.#lost(`it belongs to key group ${header.getUint16(5)}`)
    this.recordCount = header.getUint32(7)
    this.#input = new StructuredValueReader(bytes, this.#where, HEADER_BYTES)
    this.states = this.#readStates()
  }

  /** Shows all records to `visitor`. @throws StateLostError, possibly after some records were shown */
  read(visitor: ImageVisitor): void {
    const input = this.#input
    for (let i = 0; i < this.recordCount; i++) {
      this.#beginRecord(visitor)
      for (let number = input.readCount(); number > 0; number = input.readCount()) {
        const state = this.states[number - 1]
        if (state === undefined) this.#lost(`a record names state ${number - 1}, which it does not declare`)
        const namespace = this.#namespace()
        visitor.slot(number - 1, namespace, readSlot(input, state.kind, state.timed))
      }
      for (const domain of DOMAINS)
        for (let count = input.readCount(17); count > 0; count--)
          visitor.timer(domain, this.#namespace(), input.readDouble(), input.readDouble())
      visitor.endRecord()
    }
    if (!input.atEnd) this.#lost('bytes are left after the last record')
  }

  #beginRecord(visitor: ImageVisitor): void {
    const key = this.#input.read()
    if (key !== null) {
      visitor.beginRecord(key as Key, undefined)
      return
    }
    const bytes = this.#input.read()
    if (!types.isUint8Array(bytes)) this.#lost('the name of a part is no bytes')
    const name = recordNameOf(bytes)
    if (name.part === undefined) this.#lost('the name of a part is that of a key')
    visitor.beginRecord(name.key, name.part)
  }

  #namespace(): Namespace {
    const namespace = this.#input.read()
    if (typeof namespace !== 'string' && typeof namespace !== 'number')
      this.#lost('a namespace is neither text nor number')
    return namespace
  }

  #readStates(): ImageState[] {
    const states = this.#input.read()
    if (!Array.isArray(states) || !states.every(isImageState)) this.#lost('its list of states cannot be read')
    return states
  }

  #lost(what: string): never {
    throw new StateLostError(
      'MILLRACE_STATE_LOST',
      `The stored state of ${this.#where} is damaged: ${what}`,
      {
        details: { where: this.#where },
      },
    )
  }
}

function isImageState(value: unknown): value is ImageState {
  if (typeof value !== 'object' || value === null) return false
  const { name, kind, timed, serde } = value as Partial<ImageState>
  return (
    typeof name === 'string' &&
    typeof kind === 'string' &&
    KINDS.includes(kind) &&
    typeof timed === 'boolean' &&
    (serde === null || typeof serde === 'string')
  )
}
