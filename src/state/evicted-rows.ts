/**
 * Rows that are kept for a later layer, oldest first: as bytes in chunks, because hundreds of thousands of them as objects would take several
 * times the room of what they hold. A row is a header of four 32-bit numbers (key group, lengths of key, value and timers; NONE = undefined),
 * then the bytes of the three.
 */
import { MillraceError } from '../errors.ts'
import type { ColdRecord } from './cold-store.ts'

const HEADER_BYTES = 16
const CHUNK_BYTES = 256 * 1024
const NONE = 0xffffffff

/** A part of the rows; full once a row did not fit. */
interface Chunk {
  readonly bytes: Buffer
  readonly view: DataView
  end: number
}

/** A list of rows that are added at its end and taken from its front. */
export class EvictedRows {
  #chunks: Chunk[] = []
  /** Where in the first chunk the next row begins. */
  #at = 0
  #length = 0
  #bytes = 0

  /** Number of rows. */
  get length(): number {
    return this.#length
  }

  /** Bytes of the rows that were added. */
  get bytes(): number {
    return this.#bytes
  }

  add({ keyGroup, key, value, timers }: ColdRecord): void {
    const size = HEADER_BYTES + key.length + (value?.length ?? 0) + (timers?.length ?? 0)
    const chunk = this.#chunk(size)
    const { bytes, view, end } = chunk
    view.setUint32(end, keyGroup)
    view.setUint32(end + 4, key.length)
    view.setUint32(end + 8, value?.length ?? NONE)
    view.setUint32(end + 12, timers?.length ?? NONE)
    let at = end + HEADER_BYTES
    for (const part of [key, value, timers]) {
      if (part === undefined) continue
      bytes.set(part, at)
      at += part.length
    }
    chunk.end = at
    this.#length++
    this.#bytes += size
  }

  /** The oldest row, as views that stay valid; undefined if there is none. It is not in the list any more. */
  take(): ColdRecord | undefined {
    while (this.#chunks.length > 0 && this.#at === this.#chunks[0]!.end) {
      this.#chunks.shift()
      this.#at = 0
    }
    const chunk = this.#chunks[0]
    if (chunk === undefined) return undefined
    const { bytes, view } = chunk
    const start = this.#at
    let at = start + HEADER_BYTES
    const part = (field: number): Uint8Array | undefined => {
      const length = view.getUint32(start + field)
      if (length === NONE) return undefined
      at += length
      return bytes.subarray(at - length, at)
    }
    const row: ColdRecord = {
      keyGroup: view.getUint32(start),
      key: part(4)!,
      value: part(8),
      timers: part(12),
    }
    this.#at = at
    this.#length--
    return row
  }

  /** Puts the rows of another list before those of this one; the other one is empty afterwards. */
  prepend(older: EvictedRows): void {
    if (older.#length === 0) return
    if (this.#at > 0)
      throw new MillraceError('MILLRACE_INTERNAL', 'Evicted rows were taken before older ones came')
    this.#chunks = [...older.#chunks, ...this.#chunks]
    this.#at = older.#at
    this.#length += older.#length
    this.#bytes += older.#bytes
    older.#chunks = []
    older.#at = 0
    older.#length = 0
    older.#bytes = 0
  }

  #chunk(size: number): Chunk {
    const last = this.#chunks.at(-1)
    if (last !== undefined && last.bytes.length - last.end >= size) return last
    const bytes = Buffer.allocUnsafeSlow(Math.max(size, CHUNK_BYTES))
    const chunk = { bytes, view: new DataView(bytes.buffer), end: 0 }
    this.#chunks.push(chunk)
    return chunk
  }
}
