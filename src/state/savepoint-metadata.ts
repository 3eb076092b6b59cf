/**
 * The file `_metadata` that makes a folder a savepoint or a checkpoint. Format 1, held by test/compat/savepoint/:
 *
 *   millrace-savepoint 1 <CRC-32 of the rest, 8 hex digits>⏎
 *   { "format": 1, "run": …, "n": …, "operators": […], "states": […], … }
 *
 * The first line says `millrace-checkpoint` beside a checkpoint's files. The rest is the JSON of a completed checkpoint
 * (checkpoint/completed-checkpoint.ts). Checkpoints of the first release are that JSON alone, without the line.
 */
import { crc32 } from '@node-rs/crc32'
import {
  type CompletedCheckpoint,
  decodeCheckpoint,
  encodeCheckpoint,
} from '../checkpoint/completed-checkpoint.ts'
import { MillraceError } from '../errors.ts'
import { lostFile } from './durable-file.ts'

/** Version of the first line that this code writes. */
export const METADATA_FORMAT = 1

const LINE = /^millrace-(savepoint|checkpoint) (\d+) ([0-9a-f]{8})$/

export type SnapshotKind = 'savepoint' | 'checkpoint'

/** The bytes of `_metadata`. */
export function encodeMetadata(kind: SnapshotKind, checkpoint: CompletedCheckpoint): Uint8Array {
  const body = Buffer.from(`${encodeCheckpoint(checkpoint)}\n`)
  const sum = crc32(body).toString(16).padStart(8, '0')
  return Buffer.concat([Buffer.from(`millrace-${kind} ${METADATA_FORMAT} ${sum}\n`), body])
}

/** @throws StateLostError naming `path` when the bytes are damaged or of a format that this version cannot read. */
export function decodeMetadata(
  bytes: Uint8Array,
  path: string,
): { readonly kind: SnapshotKind; readonly checkpoint: CompletedCheckpoint } {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  if (buffer[0] === 0x7b) return { kind: 'checkpoint', checkpoint: decodeCheckpoint(buffer.toString(), path) }
  const end = buffer.indexOf('\n')
  const line = LINE.exec(buffer.toString('latin1', 0, Math.max(0, end)))
  if (line === null)
    throw lostFile(path, 'is no metadata of a savepoint or checkpoint: its first line is unknown')
  const [, kind, format, sum] = line
  if (Number(format) > METADATA_FORMAT)
    throw new MillraceError(
      'MILLRACE_STATE_LOST',
      `'${path}' has format ${format}; this version reads up to ${METADATA_FORMAT}`,
      { remedy: 'Use the version of Millrace that wrote it, or a newer one.', details: { path } },
    )
  const body = buffer.subarray(end + 1)
  if (crc32(body) !== Number.parseInt(sum as string, 16))
    throw lostFile(path, 'is damaged: its checksum does not match its content')
  return { kind: kind as SnapshotKind, checkpoint: decodeCheckpoint(body.toString(), path) }
}
