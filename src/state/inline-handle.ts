/**
 * Handles that carry their bytes: small state needs no file of its own.
 */
import type { StateHandle } from '../checkpoint/checkpoint-storage.ts'
import { StateLostError } from '../errors.ts'

type InlineHandle = Extract<StateHandle, { kind: 'inline' }>

/** A handle that holds the bytes. The metadata around it has a checksum of its own. */
export function inlineHandle(bytes: Uint8Array): InlineHandle {
  const base64 = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64')
  return { kind: 'inline', bytes: base64, size: bytes.length }
}

/** The bytes in a handle. @throws StateLostError if they are not as many as it says */
export function inlineBytes(handle: InlineHandle): Uint8Array {
  const bytes = new Uint8Array(Buffer.from(handle.bytes, 'base64'))
  if (bytes.length !== handle.size)
    throw new StateLostError(
      'MILLRACE_STATE_LOST',
      `An inline handle says ${handle.size} bytes and holds ${bytes.length}`,
    )
  return bytes
}
