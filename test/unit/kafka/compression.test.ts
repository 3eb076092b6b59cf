import { describe, expect, test } from '@jest/globals'
import {
  COMPRESSIONS,
  codecNumber,
  codecOf,
  compress,
  decompress,
  requireOptional,
} from '../../../src/kafka/compression.ts'

const text = Buffer.from('a line that repeats itself\n'.repeat(8000))

describe('compression', () => {
  test('the numbers of the codecs are those of the protocol', () => {
    expect(COMPRESSIONS.map(codecNumber)).toEqual([0, 1, 2, 3, 4])
    expect([0, 1, 2, 3, 4, 5].map(codecOf)).toEqual(['none', 'gzip', 'snappy', 'lz4', 'zstd', undefined])
  })

  test.each([...COMPRESSIONS])('%s gives the same bytes back, few or many', (codec) => {
    for (const bytes of [Buffer.alloc(0), Buffer.from([7]), text]) {
      expect(decompress(codec, compress(codec, bytes), 1_000_000).equals(bytes)).toBe(true)
    }
    if (codec !== 'none') expect(compress(codec, text).length).toBeLessThan(text.length / 10)
  })

  test.each(['gzip', 'snappy', 'lz4', 'zstd'] as const)(
    '%s unpacks to exactly the limit and not to a byte more',
    (codec) => {
      const packed = compress(codec, text)
      const block = codec === 'lz4' ? 4_194_304 : 0
      expect(decompress(codec, packed, text.length + block).length).toBe(text.length)
      expect(() => decompress(codec, packed, text.length - 1)).toThrow()
    },
  )

  test.each(['gzip', 'snappy', 'lz4', 'zstd'] as const)(
    '%s: cut-off bytes and bytes of another kind are refused',
    (codec) => {
      const packed = compress(codec, text)
      expect(() => decompress(codec, packed.subarray(0, packed.length - 9), 1_000_000)).toThrow()
      expect(() => decompress(codec, Buffer.from('certainly not compressed, is it'), 1_000_000)).toThrow()
      expect(() => decompress(codec, Buffer.alloc(0), 1_000_000)).toThrow()
    },
  )

  test('a zstd frame that asks for a window of 2 GiB is refused', () => {
    const frame = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x01, 0x00, 0x00])
    expect(() => decompress('zstd', frame, 1_000_000)).toThrow(/memory|window/i)
  })

  test('a package that is not installed is named with what needs it', () => {
    expect(() => requireOptional('millrace-no-such-package', 'a test')).toThrow(
      expect.objectContaining({
        code: 'MILLRACE_MISSING_PACKAGE',
        message: "The optional package 'millrace-no-such-package' is needed for a test and cannot be loaded",
        remedy: 'Install it: npm install millrace-no-such-package',
        details: { package: 'millrace-no-such-package', purpose: 'a test' },
      }),
    )
  })
})
