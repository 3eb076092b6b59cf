/**
 * Names of records that hold a part of what a key holds: an entry of an async map, or a bucket of its index. They lie in the key group of
 * the key and move with it.
 *
 *   entry    09, then the elements of the array [state's name, key, key of the entry] as in core/key-encoding.ts
 *   bucket   0a, then the elements of [state's name, key, number of the bucket]
 *
 * No key begins with 09 or 0a, so no key of a user can be taken for a part. Format 1, held by test/compat/state/.
 */
import { decodeKey, withEncodedKey } from '../core/key-encoding.ts'
import type { Key } from '../core/state.ts'
import { StateLostError } from '../errors.ts'

const ARRAY_TAG = 8
const ENTRY_TAG = 9
const BUCKET_TAG = 10

/** Key of an entry: what map states take. */
export type MapKey = string | number | bigint | boolean

/** Names a record: a key, or with `part` a part of what that key holds. */
export interface RecordName {
  readonly key: Key
  /** The bytes of the part's name, one a character; undefined for the key itself. */
  readonly part: string | undefined
}

/** What a part is. */
export interface MapPart {
  readonly owner: Key
  readonly state: string
  readonly kind: 'entry' | 'bucket'
  /** Key of the entry, or number of the bucket. */
  readonly at: MapKey
}

/** The name of an entry. @throws MillraceError MILLRACE_INVALID_KEY */
export function entryName(owner: Key, state: string, key: MapKey, operatorName: string): RecordName {
  return { key: owner, part: nameOf(ENTRY_TAG, owner, state, key, operatorName) }
}

/** The name of a bucket. @throws MillraceError MILLRACE_INVALID_KEY */
export function bucketName(owner: Key, state: string, number: number, operatorName: string): RecordName {
  return { key: owner, part: nameOf(BUCKET_TAG, owner, state, number, operatorName) }
}

function nameOf(tag: number, owner: Key, state: string, at: MapKey, operatorName: string): string {
  return withEncodedKey([state, owner, at], operatorName, (bytes, length) => {
    bytes[0] = tag
    return Buffer.from(bytes.buffer, bytes.byteOffset, length).toString('latin1')
  })
}

/** True if the place of a record in its tables is the name of a part. */
export function isPart(canonical: string | undefined): canonical is string {
  if (canonical === undefined) return false
  const tag = canonical.charCodeAt(0)
  return tag === ENTRY_TAG || tag === BUCKET_TAG
}

/** The bytes of a part's name. */
export function bytesOfPart(part: string): Uint8Array {
  const bytes = Buffer.from(part, 'latin1')
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length)
}

/** Names the record that stored bytes stand for. @throws StateLostError if they are no name */
export function recordNameOf(bytes: Uint8Array): RecordName {
  if (bytes[0] !== ENTRY_TAG && bytes[0] !== BUCKET_TAG) return { key: decodeKey(bytes), part: undefined }
  const part = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
  return { key: readPart(part).owner, part }
}

/** What the name of a part says. @throws StateLostError if it is none */
export function readPart(part: string): MapPart {
  const bytes = bytesOfPart(part)
  const isEntry = bytes[0] === ENTRY_TAG
  bytes[0] = ARRAY_TAG
  const elements = decodeKey(bytes)
  if (Array.isArray(elements) && elements.length === 3 && typeof elements[0] === 'string') {
    const [state, owner, at] = elements as [string, Key, Key]
    if (isEntry ? typeof at !== 'object' : typeof at === 'number')
      return { owner, state, kind: isEntry ? 'entry' : 'bucket', at: at as MapKey }
  }
  throw new StateLostError('MILLRACE_STATE_LOST', 'The stored name of a part of an async map is damaged')
}
