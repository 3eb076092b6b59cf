/**
 * Where snapshot bytes go, as contracts: a handle names stored bytes in a completed checkpoint, a blob store puts and gets them.
 * Directory, topic and memory stores live in the leaves.
 */

import type { KeyGroupImage } from '../core/state.ts'
import { StateLostError } from '../errors.ts'

/**
 * Names stored bytes. Part of completed checkpoints as it is (JSON), so fields are never renamed.
 * `crc32` is CRC-32 (ISO-HDLC) of the bytes, `size` their number.
 */
export type StateHandle =
  /** Small bytes, in the metadata itself. */
  | { readonly kind: 'inline'; readonly bytes: string; readonly size: number }
  /** A file; `path` is relative to the root of the checkpoint storage, with '/'. */
  | { readonly kind: 'file'; readonly path: string; readonly size: number; readonly crc32: number }
  /** Records of the checkpoint topic. */
  | {
      readonly kind: 'topic'
      readonly name: string
      readonly chunks: number
      readonly size: number
      readonly crc32: number
    }
  /**
   * A file below a folder that belongs to a person: of a savepoint, or of a checkpoint that a run was started from. Never deleted.
   * `folder` is absolute as every worker sees it, `path` relative to it, with '/'.
   */
  | {
      readonly kind: 'kept'
      readonly folder: string
      readonly path: string
      readonly size: number
      readonly crc32: number
    }

/** Stores the blobs of one checkpoint. */
export interface BlobStore {
  /**
   * Stores bytes durably: when the promise resolves they survive a crash. `name` is unique within the checkpoint.
   * @throws MillraceError MILLRACE_CHECKPOINT_STORAGE if they could not be stored
   */
  put(name: string, bytes: Uint8Array): Promise<StateHandle>
  /** The bytes of a handle, verified. @throws StateLostError if they are missing or damaged */
  get(handle: StateHandle): Promise<Uint8Array>
  /** Deletes what the handle names, and nothing else. What is gone already is fine. */
  discard(handle: StateHandle): Promise<void>
}

/** Where the image of a key group lies in a blob. */
export type KeyGroupExtent = readonly [keyGroup: number, offset: number, length: number]

/** Images of key groups in one blob. */
export interface ImagesHandle {
  readonly kind?: undefined
  readonly handle: StateHandle
  readonly keyGroups: readonly KeyGroupExtent[]
}

/**
 * A base and what changed since, oldest first: records of a later layer replace those of earlier ones, a record without state and timers
 * removes them. Layers are shared with other checkpoints: a blob is deleted when no checkpoint names it any more.
 */
export interface IncrementalHandle {
  readonly kind: 'incremental'
  /** A layer may be several blobs, each with other key groups. */
  readonly layers: readonly ImagesHandle[]
  /** No other checkpoint names the layers, as of a checkpoint that is stored whole: they go with it when it is aborted. */
  readonly own?: boolean
  /** What the worker that wrote it needs to find the same state on its own disk. JSON-safe. */
  readonly local?: unknown
}

/** State that stays where it is, in a store outside (Redis). */
export interface ExternalHandle {
  readonly kind: 'external'
  /** Name of the state backend that can read it. */
  readonly backend: string
  /** First and last key group (both inclusive). */
  readonly range: readonly [number, number]
  /** What finds and verifies it. JSON-safe. */
  readonly state: unknown
  /** Bytes written for this checkpoint. */
  readonly size: number
}

/** The keyed state of one operator subtask in one checkpoint. */
export type KeyedStateHandle = ImagesHandle | IncrementalHandle | ExternalHandle

/** Blobs that a keyed handle names; none for state that stays outside. */
export function blobsOf(keyed: KeyedStateHandle): readonly StateHandle[] {
  if (keyed.kind === 'external') return []
  return keyed.kind === 'incremental' ? keyed.layers.map(({ handle }) => handle) : [keyed.handle]
}

/** Blobs of a snapshot that no other one names: what may be deleted when it is aborted. Layers of a chain are not among them. */
export function ownBlobsOf(keyed: KeyedStateHandle): readonly StateHandle[] {
  return keyed.kind === 'incremental' && keyed.own !== true ? [] : blobsOf(keyed)
}

/** Puts images into one blob. The extents belong into the `KeyedStateHandle`. */
export function packImages(images: readonly KeyGroupImage[]): {
  readonly bytes: Uint8Array
  readonly keyGroups: KeyGroupExtent[]
} {
  const bytes = new Uint8Array(images.reduce((sum, image) => sum + image.bytes.length, 0))
  const keyGroups: KeyGroupExtent[] = []
  let offset = 0
  for (const { keyGroup, bytes: image } of [...images].sort((a, b) => a.keyGroup - b.keyGroup)) {
    bytes.set(image, offset)
    keyGroups.push([keyGroup, offset, image.length])
    offset += image.length
  }
  return { bytes, keyGroups }
}

/**
 * The images of the listed key groups, as views into the blob.
 * @throws StateLostError if an extent lies outside of the blob
 */
export function unpackImages(bytes: Uint8Array, keyGroups: readonly KeyGroupExtent[]): KeyGroupImage[] {
  return keyGroups.map(([keyGroup, offset, length]) => {
    if (!(offset >= 0 && length >= 0 && offset + length <= bytes.length))
      throw new StateLostError(
        'MILLRACE_STATE_LOST',
        `Key group ${keyGroup} should lie at bytes ${offset}–${offset + length} of a blob that has ${bytes.length}`,
        { details: { keyGroup } },
      )
    return { keyGroup, bytes: bytes.subarray(offset, offset + length) }
  })
}
