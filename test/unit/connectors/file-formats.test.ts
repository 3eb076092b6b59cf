import { describe, expect, test } from '@jest/globals'
import type { FileFormat } from '../../../src/connectors/file-format.ts'
import { fileFormats } from '../../../src/connectors/file-sink.ts'
import { TextBuffer } from '../../../src/connectors/file-text.ts'
import type { Serde } from '../../../src/core/connector.ts'

const { csv, jsonLines } = fileFormats

/** The text of a file with these values, taken out after each value. */
async function textOf<T>(format: FileFormat<T>, ...values: T[]): Promise<string> {
  await format.open?.()
  const encoder = format.createEncoder()
  const parts: Buffer[] = []
  for (const value of values) {
    encoder.add(value)
    parts.push(Buffer.from(encoder.take()))
  }
  parts.push(Buffer.from(encoder.finish()))
  return Buffer.concat(parts).toString()
}

describe('JSON lines', () => {
  test('are one JSON text a line, null and line breaks in texts included', async () => {
    expect(await textOf<unknown>(jsonLines(), { a: 'x\ny' }, null, [1, 'ü'])).toBe(
      '{"a":"x\\ny"}\nnull\n[1,"ü"]\n',
    )
  })

  test('refuse what has no JSON form', async () => {
    await expect(textOf<unknown>(jsonLines(), undefined)).rejects.toThrow(
      'of type undefined has no JSON form',
    )
  })

  const upper: Serde<string> = {
    name: 'upper',
    serialize: (value) => (value === '' ? null : Buffer.from(value.toUpperCase())),
    deserialize: (bytes) => String(bytes),
  }

  test('may be made by a serde, which is opened', async () => {
    let opened = 0
    const value: Serde<string> = { ...upper, open: () => void opened++ }
    expect(await textOf(jsonLines({ value }), 'ab', 'c')).toBe('AB\nC\n')
    expect(opened).toBe(1)
    expect(await textOf(jsonLines({ value: { ...upper, toText: (text) => `<${text}>` } }), 'ab')).toBe(
      '<ab>\n',
    )
  })

  test.each([
    ['', 'returned null'],
    ['a\nb', 'line break'],
  ])('refuse %j of a serde', async (value, why) => {
    await expect(textOf(jsonLines({ value: upper }), value)).rejects.toThrow(why)
  })

  test('refuse a serde that needs a schema registry', () => {
    const value = { ...upper, prepareSerialize: () => undefined }
    expect(() => jsonLines({ value })).toThrow(expect.objectContaining({ code: 'MILLRACE_INVALID_OPTION' }))
  })
})

describe('CSV', () => {
  interface Row {
    readonly a: unknown
    readonly b?: unknown
  }

  test('begins with the columns and quotes as RFC 4180 says', async () => {
    expect(
      await textOf<Row>(
        csv({ columns: ['a', { name: 'say "b"', value: (row) => row.b }] }),
        { a: 'plain', b: 'a,b' },
        { a: 'a "word"', b: 'two\r\nlines' },
        { a: ' spaces ', b: '\n' },
      ),
    ).toBe('a,"say ""b"""\r\nplain,"a,b"\r\n"a ""word""","two\r\nlines"\r\n spaces ,"\n"\r\n')
  })

  test.each([
    [null, ''],
    [undefined, ''],
    ['', '""'],
    [0, '0'],
    [-1.5, '-1.5'],
    [12n, '12'],
    [false, 'false'],
    [new Date(0), '1970-01-01T00:00:00.000Z'],
    [{ x: 'y' }, '"{""x"":""y""}"'],
    [[1, 2], '"[1,2]"'],
  ])('writes %j as %s', async (a, field) => {
    expect(await textOf<Row>(csv({ columns: ['a'], header: false }), { a })).toBe(`${field}\r\n`)
  })

  test('has another delimiter and line end if it is told to', async () => {
    const format = csv<Row>({ columns: ['a', 'b'], delimiter: ';', lineEnd: '\n' })
    expect(await textOf(format, { a: 'x;y', b: 'x,y' })).toBe('a;b\n"x;y";x,y\n')
  })

  test('writes the columns again in each file', async () => {
    const format = csv<Row>({ columns: ['a'] })
    expect(await textOf(format, { a: 1 })).toBe(await textOf(format, { a: 1 }))
  })

  test.each([
    [{ columns: [] }, 'columns is missing'],
    [{ columns: ['a', { name: 'a', value: () => 1 }] }, "two columns are called 'a'"],
    [{ columns: ['a'], delimiter: '"' }, 'delimiter must be'],
    [{ columns: ['a'], delimiter: '||' }, 'delimiter must be'],
    [{ columns: ['a'], lineEnd: '\r' }, 'lineEnd must be'],
  ])('refuses %j', (options, why) => {
    expect(() => csv(options as never)).toThrow(why)
  })
})

describe('a text buffer', () => {
  test('grows by what is longer than it is, and keeps the order of text and bytes', () => {
    const buffer = new TextBuffer()
    const long = 'ü€𝒳'.repeat(10_000)
    buffer.append('a')
    buffer.append(long)
    buffer.appendBytes(new Uint8Array(100_000).fill(98))
    expect(buffer.length).toBe(1 + Buffer.byteLength(long) + 100_000)
    expect(Buffer.from(buffer.take()).toString()).toBe(`a${long}${'b'.repeat(100_000)}`)
    buffer.append('c')
    expect(Buffer.from(buffer.take()).toString()).toBe('c')
  })
})
