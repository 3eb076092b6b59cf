import { createRequire } from 'node:module'
import { describe, expect, test } from '@jest/globals'
import { packXerial, unpackSnappy } from '../../../src/kafka/xerial-snappy.ts'

const snappy = createRequire(import.meta.url)('snappy')
const pack = (bytes: Buffer) => packXerial(bytes, snappy.compressSync)
const unpack = (bytes: Buffer, limit: number) =>
  unpackSnappy(bytes, limit, (block) => snappy.uncompressSync(block))

describe('snappy as Kafka has it', () => {
  test('a stream has the xerial header and blocks of at most 64 KiB', () => {
    const bytes = Buffer.from('0123456789'.repeat(20_000))
    const packed = pack(bytes)
    expect(packed.subarray(0, 16).toString('hex')).toBe('82534e41505059000000000100000001')
    let blocks = 0
    for (let at = 16; at < packed.length; at += 4 + packed.readInt32BE(at)) blocks++
    expect(blocks).toBe(4)
    expect(unpack(packed, 200_000).equals(bytes)).toBe(true)
  })

  test('a raw block, as other clients write it, is read too', () => {
    expect(unpack(snappy.compressSync(Buffer.from('raw')), 3).toString()).toBe('raw')
  })

  test('the limit counts over all blocks', () => {
    const packed = pack(Buffer.alloc(200_000))
    expect(unpack(packed, 200_000).length).toBe(200_000)
    expect(() => unpack(packed, 199_999)).toThrow(/limit/)
    expect(() => unpack(snappy.compressSync(Buffer.alloc(100)), 99)).toThrow(/limit/)
  })

  test('a block that claims 4 GiB is refused before anything is unpacked', () => {
    const claim = Buffer.from([0xff, 0xff, 0xff, 0xff, 0x0f, 0])
    expect(() =>
      unpackSnappy(claim, 1_000_000, () => {
        throw new Error('unpacked')
      }),
    ).toThrow(/limit/)
  })

  test('streams with impossible block lengths are refused', () => {
    const packed = pack(Buffer.from('some text'))
    for (const length of [0, -1, 100, 2 ** 31 - 1]) {
      const copy = Buffer.from(packed)
      copy.writeInt32BE(length, 16)
      expect(() => unpack(copy, 1000)).toThrow(/cut off/)
    }
    expect(() => unpack(packed.subarray(0, 18), 1000)).toThrow(/cut off/)
    expect(() => unpack(Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), 1000)).toThrow(/no length/)
  })
})
