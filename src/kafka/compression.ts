/**
 * Compression of record batches, both ways. All calls are synchronous: a batch is at most a megabyte or so, and a thread-pool
 * call would make the order of events depend on the machine, which the simulation does not allow.
 * Unpacking never yields more than the caller's limit, whatever the bytes claim.
 */
import { createRequire } from 'node:module'
import {
  constants,
  gunzipSync,
  gzipSync,
  type ZlibOptions,
  type ZstdOptions,
  zstdCompressSync,
  zstdDecompressSync,
} from 'node:zlib'
import { MillraceError } from '../errors.ts'
import { checkLz4Frame } from './lz4-frame.ts'
import { packXerial, unpackSnappy } from './xerial-snappy.ts'

/** Names as Kafka's `compression.type` has them; the position is the codec's number in a batch's attributes. */
export const COMPRESSIONS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const

/** How the records of a batch are packed. */
export type Compression = (typeof COMPRESSIONS)[number]

/** Name of a codec number; undefined for a number that Kafka has not given out. */
export function codecOf(codec: number): Compression | undefined {
  return COMPRESSIONS[codec]
}

/** Number of a codec in a batch's attributes. */
export function codecNumber(compression: Compression): number {
  return COMPRESSIONS.indexOf(compression)
}

/**
 * Packs the records of one batch.
 * @throws MillraceError MILLRACE_MISSING_PACKAGE when the codec needs a package that is not installed.
 */
export function compress(compression: Compression, bytes: Buffer): Buffer {
  switch (compression) {
    case 'none':
      return bytes
    case 'gzip':
      return gzipSync(bytes)
    case 'snappy':
      return packXerial(bytes, snappy().compressSync)
    case 'lz4':
      return lz4().compressFrameSync(bytes, { contentChecksum: false, blockChecksums: false })
    case 'zstd':
      return zstdCompressSync(bytes)
  }
}

/**
 * Unpacks the records of one batch to at most `limit` bytes.
 * @throws MillraceError MILLRACE_MISSING_PACKAGE as `compress` does; any other error means that the bytes are damaged or too large.
 */
export function decompress(compression: Compression, bytes: Buffer, limit: number): Buffer {
  switch (compression) {
    case 'none':
      return bytes
    case 'gzip':
      return gunzipSync(bytes, outputOptions(bytes.length, limit))
    case 'snappy':
      return unpackSnappy(
        bytes,
        limit,
        (block) => snappy().uncompressSync(block, { asBuffer: true }) as Buffer,
      )
    case 'lz4':
      checkLz4Frame(bytes, limit)
      return lz4().decompressFrameSync(bytes)
    case 'zstd':
      return zstdDecompressSync(bytes, {
        ...outputOptions(bytes.length, limit),
        // The window is memory that the frame's header asks for: no larger than what may come out, but always zstd's default of 8 MiB.
        params: { [constants.ZSTD_d_windowLogMax]: Math.min(27, Math.max(23, Math.ceil(Math.log2(limit)))) },
      })
  }
}

/** Output grows in chunks: a chunk near the usual ratio of 4:1 saves most of the joins. */
function outputOptions(packed: number, limit: number): ZlibOptions & ZstdOptions {
  return { maxOutputLength: limit, chunkSize: Math.min(Math.max(packed * 4, 16_384), 1_048_576) }
}

interface SnappyPackage {
  compressSync(input: Uint8Array): Buffer
  uncompressSync(input: Uint8Array, options: { asBuffer: boolean }): Buffer | string
}

interface Lz4Package {
  compressFrameSync(data: Buffer, options: { contentChecksum: boolean; blockChecksums: boolean }): Buffer
  decompressFrameSync(data: Buffer): Buffer
}

let snappyPackage: SnappyPackage | undefined
let lz4Package: Lz4Package | undefined

function snappy(): SnappyPackage {
  snappyPackage ??= requireOptional<SnappyPackage>('snappy', 'snappy-compressed record batches')
  return snappyPackage
}

function lz4(): Lz4Package {
  lz4Package ??= requireOptional<Lz4Package>('lz4-napi', 'lz4-compressed record batches')
  return lz4Package
}

const load = createRequire(import.meta.url)

/**
 * Loads an optional package when it is first needed.
 * @throws MillraceError MILLRACE_MISSING_PACKAGE naming the package and what needs it.
 */
export function requireOptional<T>(name: string, purpose: string): T {
  try {
    return load(name) as T
  } catch (cause) {
    throw new MillraceError(
      'MILLRACE_MISSING_PACKAGE',
      `The optional package '${name}' is needed for ${purpose} and cannot be loaded`,
      {
        cause,
        details: { package: name, purpose },
        remedy: `Install it: npm install ${name}`,
      },
    )
  }
}
