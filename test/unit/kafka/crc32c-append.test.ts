import { expect, test } from '@jest/globals'
import { crc32c } from '@node-rs/crc32'
import { crc32cAppend } from '../../../src/kafka/crc32c-append.ts'

test.each([
  [0, 0],
  [0, 5],
  [5, 0],
  [1, 1],
  [40, 127],
  [40, 128],
  [40, 1_048_575],
  [3000, 70_001],
])('the CRC of %d bytes and then %d bytes is that of all of them', (a, b) => {
  const bytes = Buffer.from(Array.from({ length: a + b }, (_, i) => Math.imul(i + 7, 2_654_435_761) >>> 24))
  expect(crc32cAppend(crc32c(bytes.subarray(0, a)), crc32c(bytes.subarray(a)), b)).toBe(crc32c(bytes))
})
