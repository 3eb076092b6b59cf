import { expect, test } from '@jest/globals'
import { ResponseFrames } from '../../../../src/kafka/kafkajs/response-frames.ts'

function framed(...texts: readonly string[]): Buffer {
  return Buffer.concat(
    texts.map((text) => {
      const length = Buffer.alloc(4)
      length.writeInt32BE(Buffer.byteLength(text))
      return Buffer.concat([length, Buffer.from(text)])
    }),
  )
}

test('answers are the same however the bytes arrive', () => {
  const texts = ['first', '', 'x'.repeat(1_000), 'last']
  const bytes = framed(...texts)
  for (const step of [1, 2, 3, 5, 7, 64, 1_003, bytes.length]) {
    const seen: string[] = []
    const frames = new ResponseFrames((frame) => seen.push(String(frame)))
    for (let at = 0; at < bytes.length; at += step) frames.take(bytes.subarray(at, at + step))
    expect(seen).toEqual(texts)
  }
})

test('an answer stays as it is when the buffer that it was read into is used again', () => {
  const seen: Buffer[] = []
  const frames = new ResponseFrames((frame) => seen.push(frame))
  const bytes = framed('kept')
  frames.take(bytes)
  bytes.fill(0)
  expect(String(seen[0])).toBe('kept')
})

test('a length that no broker sends is an error', () => {
  const frames = new ResponseFrames(() => {})
  expect(() => frames.take(Buffer.from('HTTP/1.1 400 Bad Request'))).toThrow('not a Kafka broker')
})
