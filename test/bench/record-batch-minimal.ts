/**
 * The least code that encodes and decodes uncompressed record batches (v2): what a hand-written loop would use, and what the verifier reads with.
 * It shares nothing with the product's codec, so neither can hide a mistake of the other.
 */
import { crc32c } from '@node-rs/crc32'

declare global {
  /** Methods of Node's buffers that its type package leaves out; they are the fast way between bytes and text. */
  interface Buffer {
    utf8Slice(start: number, end: number): string
    latin1Write(text: string, offset: number): number
  }
}

const HEADER_BYTES = 61
const TRANSACTIONAL = 16
const CONTROL = 32

/** Bytes of a zigzag varint of a 32-bit number. */
function varintSize(value: number): number {
  let rest = ((value << 1) ^ (value >> 31)) >>> 0
  let size = 1
  while (rest > 127) {
    rest >>>= 7
    size++
  }
  return size
}

/** The producer that a batch belongs to; -1 and 0 for none. */
export interface BatchProducer {
  readonly producerId: number | bigint | string
  readonly epoch: number
  readonly sequence: number
  readonly transactional: boolean
}

/** A batch without a producer. */
export const PLAIN: BatchProducer = { producerId: -1, epoch: -1, sequence: -1, transactional: false }

/** Fills one batch after another in a buffer of its own. */
export class BatchBuilder {
  count = 0
  readonly #buffer: Buffer
  #position = HEADER_BYTES
  #firstTimestamp = 0
  #lastTimestamp = 0

  constructor(size: number) {
    this.#buffer = Buffer.allocUnsafe(size)
  }

  /** Adds a record; false, and nothing added, when the batch is full. Keys are latin-1 text. */
  append(key: string | null, value: Uint8Array, timestamp: number): boolean {
    if (this.count === 0) {
      this.#firstTimestamp = timestamp
      this.#lastTimestamp = timestamp
    } else if (timestamp > this.#lastTimestamp) this.#lastTimestamp = timestamp
    const buffer = this.#buffer
    const delta = timestamp - this.#firstTimestamp
    const keyLength = key === null ? -1 : key.length
    const keyBytes = key === null ? 0 : key.length
    const length =
      2 +
      varintSize(delta) +
      varintSize(this.count) +
      varintSize(keyLength) +
      keyBytes +
      varintSize(value.length) +
      value.length
    if (this.#position + length + 5 > buffer.length) return false
    this.#varint(length)
    buffer[this.#position++] = 0
    this.#varint(delta)
    this.#varint(this.count)
    this.#varint(keyLength)
    if (key !== null && keyBytes > 0) this.#position += buffer.latin1Write(key, this.#position)
    this.#varint(value.length)
    buffer.set(value, this.#position)
    this.#position += value.length
    buffer[this.#position++] = 0
    this.count++
    return true
  }

  /** The batch as a buffer of its own; the builder is empty afterwards. */
  finish(producer: BatchProducer): Buffer {
    const buffer = this.#buffer
    const end = this.#position
    buffer.writeBigInt64BE(0n, 0)
    buffer.writeInt32BE(end - 12, 8)
    buffer.writeInt32BE(-1, 12)
    buffer[16] = 2
    buffer.writeInt16BE(producer.transactional ? TRANSACTIONAL : 0, 21)
    buffer.writeInt32BE(this.count - 1, 23)
    buffer.writeBigInt64BE(BigInt(this.#firstTimestamp), 27)
    buffer.writeBigInt64BE(BigInt(this.#lastTimestamp), 35)
    buffer.writeBigInt64BE(BigInt(producer.producerId), 43)
    buffer.writeInt16BE(producer.epoch, 51)
    buffer.writeInt32BE(producer.sequence, 53)
    buffer.writeInt32BE(this.count, 57)
    buffer.writeUInt32BE(crc32c(buffer.subarray(21, end)), 17)
    this.count = 0
    this.#position = HEADER_BYTES
    return Buffer.from(buffer.subarray(0, end))
  }

  #varint(value: number): void {
    let rest = ((value << 1) ^ (value >> 31)) >>> 0
    let position = this.#position
    while (rest > 127) {
      this.#buffer[position++] = (rest & 127) | 128
      rest >>>= 7
    }
    this.#buffer[position++] = rest
    this.#position = position
  }
}

/** Called with the place of each record's value, its timestamp, partition and offset. */
export type OnValue = (
  buffer: Buffer,
  start: number,
  end: number,
  timestamp: number,
  partition: number,
  offset: number,
) => void

/** Where to read on: the offset behind the last whole batch, -1 if there was none. */
export interface ReadPartition {
  readonly partition: number
  readonly nextOffset: number
}

/**
 * Reads the answer to Fetch v11 of one topic. Control batches and, when the answer lists them, batches of aborted transactions are skipped.
 * @throws Error on a broken CRC, a compressed batch, or an error code of a partition.
 */
export function decodeFetch(buffer: Buffer, onValue: OnValue): ReadPartition[] {
  const result: ReadPartition[] = []
  let position = 10
  const int32 = () => {
    position += 4
    return buffer.readInt32BE(position - 4)
  }
  for (let topics = int32(); topics > 0; topics--) {
    position += 2 + buffer.readInt16BE(position)
    for (let partitions = int32(); partitions > 0; partitions--) {
      const partition = int32()
      const errorCode = buffer.readInt16BE(position)
      if (errorCode !== 0) throw new Error(`fetch of partition ${partition}: error ${errorCode}`)
      position += 26
      const aborted: { producerId: bigint; firstOffset: number }[] = []
      for (let count = int32(); count > 0; count--) {
        aborted.push({
          producerId: buffer.readBigInt64BE(position),
          firstOffset: Number(buffer.readBigInt64BE(position + 8)),
        })
        position += 16
      }
      position += 4
      const size = int32()
      result.push({
        partition,
        nextOffset: decodeBatches(buffer, position, position + size, partition, aborted, onValue),
      })
      position += size
    }
  }
  return result
}

function decodeBatches(
  buffer: Buffer,
  start: number,
  end: number,
  partition: number,
  aborted: { producerId: bigint; firstOffset: number }[],
  onValue: OnValue,
): number {
  const abortedNow = new Set<bigint>()
  aborted.sort((a, b) => a.firstOffset - b.firstOffset)
  let nextOffset = -1
  for (let at = start; at + HEADER_BYTES <= end; ) {
    const baseOffset = Number(buffer.readBigInt64BE(at))
    const batchEnd = at + 12 + buffer.readInt32BE(at + 8)
    if (batchEnd > end) break
    if (crc32c(buffer.subarray(at + 21, batchEnd)) !== buffer.readUInt32BE(at + 17))
      throw new Error(`partition ${partition}, offset ${baseOffset}: the CRC is wrong`)
    const attributes = buffer.readInt16BE(at + 21)
    if ((attributes & 7) !== 0)
      throw new Error(`partition ${partition}, offset ${baseOffset}: compressed batches are not read here`)
    const lastOffset = baseOffset + buffer.readInt32BE(at + 23)
    let skip = false
    if ((attributes & TRANSACTIONAL) !== 0 && (aborted.length > 0 || abortedNow.size > 0)) {
      const producerId = buffer.readBigInt64BE(at + 43)
      while (aborted.length > 0 && aborted[0]!.firstOffset <= lastOffset)
        abortedNow.add(aborted.shift()!.producerId)
      skip = abortedNow.has(producerId)
      // An ABORT marker (type 0 behind the key's version) ends the aborted transaction of its producer.
      if ((attributes & CONTROL) !== 0) abortedNow.delete(producerId)
    }
    if ((attributes & CONTROL) === 0 && !skip) decodeRecords(buffer, at, baseOffset, partition, onValue)
    nextOffset = lastOffset + 1
    at = batchEnd
  }
  return nextOffset
}

function decodeRecords(
  buffer: Buffer,
  batch: number,
  baseOffset: number,
  partition: number,
  onValue: OnValue,
): void {
  const firstTimestamp = Number(buffer.readBigInt64BE(batch + 27))
  const count = buffer.readInt32BE(batch + 57)
  let at = batch + HEADER_BYTES
  const varint = () => {
    let value = 0
    let shift = 0
    let byte: number
    do {
      byte = buffer[at++]!
      value |= (byte & 127) << shift
      shift += 7
    } while (byte > 127)
    return (value >>> 1) ^ -(value & 1)
  }
  for (let i = 0; i < count; i++) {
    const recordEnd = varint() + at
    at++
    const timestamp = firstTimestamp + varint()
    const offset = baseOffset + varint()
    const keyLength = varint()
    if (keyLength > 0) at += keyLength
    const valueLength = varint()
    onValue(buffer, at, at + valueLength, timestamp, partition, offset)
    at = recordEnd
  }
}
