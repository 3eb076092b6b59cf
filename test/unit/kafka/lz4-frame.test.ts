import { describe, expect, test } from '@jest/globals'
import { compress } from '../../../src/kafka/compression.ts'
import { checkLz4Frame } from '../../../src/kafka/lz4-frame.ts'

/** A frame of blocks of 64 KiB: flags, then each block as it is. */
function frame(flags: number, ...parts: number[][]): Buffer {
  return Buffer.from([0x04, 0x22, 0x4d, 0x18, flags, 0x40, ...parts.flat()])
}
const END = [0, 0, 0, 0]

describe('checkLz4Frame', () => {
  test('counts stored blocks as they are and packed ones at their largest', () => {
    const stored = frame(0x60, [0x82], [3, 0, 0, 0x80, 1, 2, 3], END)
    checkLz4Frame(stored, 3)
    expect(() => checkLz4Frame(stored, 2)).toThrow(/more than 2 bytes/)
    const packed = frame(0x60, [0x82], [3, 0, 0, 0, 1, 2, 3], END)
    checkLz4Frame(packed, 3 * 255)
    expect(() => checkLz4Frame(packed, 3 * 255 - 1)).toThrow(/more than 764 bytes/)
  })

  test('walks past content size, block checksums and content checksum', () => {
    checkLz4Frame(
      frame(
        0x7c,
        [3, 0, 0, 0, 0, 0, 0, 0],
        [0x82],
        [3, 0, 0, 0x80, 1, 2, 3],
        [9, 9, 9, 9],
        END,
        [8, 8, 8, 8],
      ),
      3,
    )
  })

  test('a frame that says it holds more than the limit is refused by its word', () => {
    const lying = frame(0x68, [0, 0, 0, 0, 1, 0, 0, 0], [0x82], END)
    expect(() => checkLz4Frame(lying, 1_000_000)).toThrow(/more than 1000000 bytes/)
  })

  test.each<[string, Buffer, RegExp]>([
    ['another magic', Buffer.from('not an lz4 frame'), /not an LZ4 frame/],
    ['another version', frame(0x20, [0x82], END), /version/],
    ['a dictionary', frame(0x61, [0, 0, 0, 0], [0x82], END), /dictionary/],
    [
      'a block above the block size',
      frame(0x60, [0x82], [1, 0, 1, 0], [1], END),
      /above the frame's block size/,
    ],
    ['a block that is cut off', frame(0x60, [0x82], [9, 0, 0, 0x80, 1]), /cut off/],
    ['no end mark', frame(0x60, [0x82], [1, 0, 0, 0x80, 1]), /cut off/],
    ['bytes behind the end', frame(0x60, [0x82], END, [1]), /does not end/],
  ])('%s is refused', (_, bytes, message) => {
    expect(() => checkLz4Frame(bytes, 1_000_000)).toThrow(message)
  })

  test('frames that we write have independent blocks and no content size, as the Java client demands', () => {
    const packed = compress('lz4', Buffer.from('x'.repeat(300_000)))
    expect(packed[4]! & 0x20).toBe(0x20)
    expect(packed[4]! & 0x09).toBe(0)
    checkLz4Frame(packed, 8_000_000)
  })
})
