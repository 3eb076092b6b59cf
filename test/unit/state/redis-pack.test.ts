import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { packedSize, RedisPack } from '../../../src/state/redis-pack.ts'

type Packed = number | Buffer | Packed[]

/** Reads MessagePack as its specification says; only what scripts are sent. */
function unpack(bytes: Buffer): Packed {
  let at = 0
  const read = (length: number): Buffer => {
    at += length
    return bytes.subarray(at - length, at)
  }
  const next = (): Packed => {
    const tag = bytes[at++]!
    if (tag < 0x80) return tag
    if ((tag & 0xf0) === 0x90) return Array.from({ length: tag & 15 }, next)
    if (tag === 0xd2) return read(4).readInt32BE()
    if (tag === 0xd9) return read(bytes[at++]!)
    if (tag === 0xdb) return read(read(4).readUInt32BE())
    if (tag === 0xdd) return Array.from({ length: read(4).readUInt32BE() }, next)
    throw new Error(`tag ${tag.toString(16)} at ${at - 1}`)
  }
  const value = next()
  if (at !== bytes.length) throw new Error(`${bytes.length - at} bytes are left`)
  return value
}

test('what is packed is MessagePack, in the size that was announced', () => {
  const value = fc.letrec<{ value: Packed }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
      fc
        .oneof(fc.uint8Array({ maxLength: 40 }), fc.uint8Array({ minLength: 250, maxLength: 300 }))
        .map(Buffer.from),
      fc.array(tie('value'), { maxLength: 20 }),
    ),
  })).value
  fc.assert(
    fc.property(value, (packed) => {
      const size = (of: Packed): number =>
        typeof of === 'number'
          ? 5
          : Buffer.isBuffer(of)
            ? packedSize(of)
            : of.reduce<number>((sum, one) => sum + size(one), 5)
      const pack = new RedisPack(size(packed))
      const put = (of: Packed): void => {
        if (typeof of === 'number') pack.int(of)
        else if (Buffer.isBuffer(of)) pack.bytes(of)
        else {
          pack.array(of.length)
          of.forEach(put)
        }
      }
      put(packed)
      expect(unpack(pack.done())).toEqual(packed)
    }),
  )
})

test('a zero may follow a byte string, and numbers may be negative', () => {
  const pack = new RedisPack(100)
  pack.array(2)
  pack.int(-1)
  pack.bytes(Buffer.from([7]), true)
  expect(unpack(pack.done())).toEqual([-1, Buffer.from([7, 0])])
})
