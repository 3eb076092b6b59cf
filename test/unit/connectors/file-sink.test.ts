import { describe, expect, test } from '@jest/globals'
import { fileFormats, fileSink } from '../../../src/connectors/file-sink.ts'

const format = fileFormats.jsonLines<unknown>()
const parquet = fileFormats.parquet<unknown>({ schema: { a: 'string' } })

describe('fileSink', () => {
  test.each<[Record<string, unknown>, RegExp]>([
    [{ path: '' }, /path is missing/],
    [{ format: undefined }, /format is missing/],
    [{ compression: 'zip' }, /'zip' is neither none nor gzip/],
    [{ compression: 'gzip', format: parquet }, /parquet files are not compressed as a whole/],
    [{ bucket: 'a' }, /bucket must be a function/],
    [{ prefix: '.hidden' }, /prefix '\.hidden'/],
    [{ prefix: '' }, /prefix ''/],
    [{ suffix: '/x' }, /suffix '\/x'/],
    [{ onLostFile: 'ignore' }, /'ignore' is neither fail nor accept/],
    [{ rolling: { maxBytes: 0 } }, /rolling\.maxBytes 0 must be/],
    [{ rolling: { maxAgeMs: Number.NaN } }, /rolling\.maxAgeMs NaN must be/],
    [{ rolling: { inactivityMs: '5s' } }, /rolling\.inactivityMs 5s must be/],
    [{ maxOpenFiles: 0 }, /maxOpenFiles 0 must be/],
  ])('refuses %j', (options, why) => {
    expect(() => fileSink({ path: 'out', format, ...options } as never)).toThrow(
      expect.objectContaining({ code: 'MILLRACE_INVALID_OPTION', message: expect.stringMatching(why) }),
    )
  })

  test('is one job graph with another folder or format and another one without', () => {
    expect(fileSink({ path: 'out', format }).describe()).toEqual({ path: 'out', format: 'jsonLines' })
  })
})
