/**
 * Keys of a RocksDB store. All numbers are big-endian, so that keys lie in the order of their parts.
 *
 *   'b' key group(2) key                 a value of the base              'B' …   its timers
 *   's' segment(4) key group(2) key      a value of a segment             'S' …   its timers
 *   'm' name                             a marker, JSON
 *
 * In a segment an empty value says that the key has none; in the base it has no row then.
 */
import type { ColdKey } from './cold-store.ts'

/** What a row holds. */
export type RowKind = 'value' | 'timers'

const BASE = { value: 0x62, timers: 0x42 } as const
const SEGMENT = { value: 0x73, timers: 0x53 } as const
const MARKER = 0x6d
/** Bytes in front of a key in the base, and in a segment. */
const BASE_HEAD = 3
const SEGMENT_HEAD = 7

/** What a segment's row holds when the key has none. */
export const NONE = new Uint8Array(0)

export function baseKey(kind: RowKind, { keyGroup, key }: ColdKey): Buffer {
  const bytes = Buffer.allocUnsafe(BASE_HEAD + key.length)
  bytes[0] = BASE[kind]
  bytes.writeUInt16BE(keyGroup, 1)
  bytes.set(key, BASE_HEAD)
  return bytes
}

export function segmentKey(kind: RowKind, segment: number, { keyGroup, key }: ColdKey): Buffer {
  const bytes = Buffer.allocUnsafe(SEGMENT_HEAD + key.length)
  bytes[0] = SEGMENT[kind]
  bytes.writeUInt32BE(segment, 1)
  bytes.writeUInt16BE(keyGroup, 5)
  bytes.set(key, SEGMENT_HEAD)
  return bytes
}

export function markerKey(name: string): Buffer {
  return Buffer.concat([Buffer.from([MARKER]), Buffer.from(name)])
}

/** A range of keys: from the first to before the second. */
export type KeyRange = readonly [Buffer, Buffer]

/** Rows of the base, of one key group or all. */
export function baseRange(kind: RowKind, keyGroup?: number): KeyRange {
  if (keyGroup === undefined) return [Buffer.from([BASE[kind]]), Buffer.from([BASE[kind] + 1])]
  return [
    baseKey(kind, { keyGroup, key: NONE }),
    keyGroup < 0xffff ? baseKey(kind, { keyGroup: keyGroup + 1, key: NONE }) : Buffer.from([BASE[kind] + 1]),
  ]
}

/** Rows of one segment, of one key group or all. */
export function segmentRange(kind: RowKind, segment: number, keyGroup?: number): KeyRange {
  const from = segmentKey(kind, segment, { keyGroup: keyGroup ?? 0, key: NONE })
  return [
    from,
    keyGroup === undefined || keyGroup === 0xffff
      ? segmentKey(kind, segment + 1, { keyGroup: 0, key: NONE })
      : segmentKey(kind, segment, { keyGroup: keyGroup + 1, key: NONE }),
  ]
}

/** All segments from one on. */
export function segmentsFrom(kind: RowKind, segment: number): KeyRange {
  return [segmentKey(kind, segment, { keyGroup: 0, key: NONE }), Buffer.from([SEGMENT[kind] + 1])]
}

/** The key that a row of the base belongs to. */
export function keyOfBaseRow(row: Uint8Array): ColdKey {
  return { keyGroup: (row[1]! << 8) | row[2]!, key: row.subarray(BASE_HEAD) }
}

/** The key that a row of a segment belongs to. */
export function keyOfSegmentRow(row: Uint8Array): ColdKey {
  return { keyGroup: (row[5]! << 8) | row[6]!, key: row.subarray(SEGMENT_HEAD) }
}
