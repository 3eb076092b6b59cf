import { describe, expect, test } from '@jest/globals'
import { RequestWriter } from '../../../../src/kafka/kafkajs/request-writer.ts'
import { ResponseReader } from '../../../../src/kafka/kafkajs/response-reader.ts'

/** What the writer wrote, without the size in front. */
function written(out: RequestWriter): Buffer {
  const all = Buffer.concat(out.finish())
  expect(all.readInt32BE(0)).toBe(all.length - 4)
  return all.subarray(4)
}

describe('a request', () => {
  test('is read back field for field, 64-bit values beyond the safe integers included', () => {
    const out = new RequestWriter().int8(-1).bool(true).int16(-2).int32(-3).int64(-9_007_199_254_740_993n)
    out.string('größe').nullableString(null).nullableString('').compactString('é').uvarint(300)
    out.array([1, 2], (value) => out.int32(value))
    out.compactArray([3n], (value) => out.int64(value)).tags()
    const body = new ResponseReader(written(out))
    expect([body.int8(), body.bool(), body.int16(), body.int32(), body.int64()]).toEqual([
      -1,
      true,
      -2,
      -3,
      -9_007_199_254_740_993n,
    ])
    expect([
      body.string(),
      body.nullableString(),
      body.nullableString(),
      body.compactString(),
      body.uvarint(),
    ]).toEqual(['größe', null, '', 'é', 300])
    expect(body.array(() => body.int32())).toEqual([1, 2])
    expect(body.compactArray(() => body.int64())).toEqual([3n])
    body.tags()
    expect(() => body.int8()).toThrow('out of range')
  })

  test('keeps large byte fields as references instead of copying them', () => {
    const batch = Buffer.alloc(1_000_000, 7)
    const out = new RequestWriter().int16(1).bytes(batch).int16(2)
    const pieces = out.finish()
    expect(pieces).toContain(batch)
    expect(Buffer.concat(pieces).readInt32BE(0)).toBe(2 + 4 + batch.length + 2)
  })

  test('grows with its content, before and after a byte field', () => {
    const long = 'x'.repeat(30_000)
    const body = new ResponseReader(
      written(new RequestWriter().string(long).bytes(Buffer.from('abc')).string(long).int32(5)),
    )
    expect(body.string()).toBe(long)
    expect(String(body.bytes())).toBe('abc')
    expect(body.string()).toBe(long)
    expect(body.int32()).toBe(5)
  })
})

describe('an answer', () => {
  test('gives byte fields as views into itself', () => {
    const answer = written(new RequestWriter().bytes(Buffer.from('abc')))
    const bytes = new ResponseReader(answer).bytes()
    expect(bytes.buffer).toBe(answer.buffer)
  })

  test('that ends too early is an error, not a shorter field', () => {
    const answer = written(new RequestWriter().int32(10).int8(1))
    expect(() => new ResponseReader(answer).bytes()).toThrow('9 bytes too early')
  })

  test('may have tagged fields that are not known', () => {
    const body = new ResponseReader(
      written(
        new RequestWriter()
          .uvarint(2)
          .uvarint(0)
          .uvarint(3)
          .raw(Buffer.from('abc'))
          .uvarint(200)
          .uvarint(1)
          .int8(9)
          .int8(5),
      ),
    )
    body.tags()
    expect(body.int8()).toBe(5)
  })

  test('with a null array or null bytes gives empty ones', () => {
    const body = new ResponseReader(written(new RequestWriter().int32(-1).uvarint(0).int32(-1)))
    expect(body.array(() => 1)).toEqual([])
    expect(body.compactArray(() => 1)).toEqual([])
    expect(body.bytes()).toHaveLength(0)
  })
})
