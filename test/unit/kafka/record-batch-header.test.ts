import { describe, expect, test } from '@jest/globals'
import { crc32c } from '@node-rs/crc32'
import { NO_PRODUCER, RecordBatchBuilder } from '../../../src/kafka/record-batch-builder.ts'
import { BatchField, readBatchHeaders, readControlRecord } from '../../../src/kafka/record-batch-header.ts'

const place = { topic: 'orders', partition: 3 }

function batch(baseOffset: bigint, key: Uint8Array | string, value: Uint8Array | string): Buffer {
  const builder = new RecordBatchBuilder({ maxBytes: 10_000, compression: 'none' })
  builder.append(key, value, 5)
  const bytes = builder.build(NO_PRODUCER)
  bytes.writeBigInt64BE(baseOffset)
  return bytes
}

function control(key: number[], value: number[]) {
  const bytes = batch(7n, Buffer.from(key), Buffer.from(value))
  bytes.writeInt16BE(0x30, BatchField.ATTRIBUTES)
  bytes.writeUInt32BE(crc32c(bytes.subarray(BatchField.ATTRIBUTES)), BatchField.CRC)
  return readControlRecord(bytes, readBatchHeaders(bytes, place)[0]!, place)
}

describe('batch headers', () => {
  test('all whole batches are listed with their byte ranges, a cut-off one is left out', () => {
    const bytes = Buffer.concat([batch(5n, 'a', 'b'), batch(6n, 'c', 'd'), batch(7n, 'e', 'f')])
    const headers = readBatchHeaders(bytes.subarray(0, bytes.length - 1), place)
    expect(headers.map(({ start, end, firstOffset }) => [start, end, firstOffset])).toEqual([
      [0, 70, 5n],
      [70, 140, 6n],
    ])
  })

  test('each CRC is checked, and offsets that go back are refused', () => {
    const bytes = Buffer.concat([batch(5n, 'a', 'b'), batch(6n, 'c', 'd')])
    bytes[130]! ^= 1
    expect(() => readBatchHeaders(bytes, place)).toThrow(/orders-3 at offset 6: CRC-32C/)
    expect(() => readBatchHeaders(Buffer.concat([batch(5n, 'a', 'b'), batch(5n, 'c', 'd')]), place)).toThrow(
      /offsets go back/,
    )
  })
})

describe('control records', () => {
  test('name how the transaction ended and the epoch of the coordinator', () => {
    expect(control([0, 0, 0, 1], [0, 0, 0, 0, 1, 2])).toEqual({ type: 'commit', coordinatorEpoch: 258 })
    expect(control([0, 0, 0, 0], [0, 0, 0, 0, 0, 9])).toEqual({ type: 'abort', coordinatorEpoch: 9 })
    expect(control([0, 0, 0, 5], [])).toEqual({ type: 'other', coordinatorEpoch: -1 })
  })

  test('a newer version with more fields is read too', () => {
    expect(control([0, 1, 0, 1, 9, 9], [0, 1, 0, 0, 0, 3, 8, 8])).toEqual({
      type: 'commit',
      coordinatorEpoch: 3,
    })
  })

  test('one that is too short is damaged', () => {
    expect(() => control([0, 0, 0], [0, 0, 0, 0, 0, 9])).toThrow(
      /orders-3 at offset 7: control record is cut off/,
    )
    expect(() => control([0, 0, 0, 1], [0, 0, 0])).toThrow(/control record is cut off/)
  })
})
