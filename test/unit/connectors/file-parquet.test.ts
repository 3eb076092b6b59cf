import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { parquetMetadata, parquetReadObjects } from 'hyparquet'
import type { ParquetOptions } from '../../../src/connectors/file-parquet.ts'
import { fileFormats } from '../../../src/connectors/file-sink.ts'
import { FileScene } from './file-scene.ts'

interface Row {
  readonly user: string
  readonly count: number
  readonly at?: Date | number | null
  readonly more?: unknown
}

const SCHEMA: ParquetOptions<Row>['schema'] = {
  user: 'string',
  count: 'int64',
  time: { type: 'timestamp', optional: true, value: (row) => row.at },
}

let scene: FileScene
beforeEach(async () => {
  scene = await FileScene.open()
})
afterEach(() => scene.close())

/** Bytes of the visible files. */
async function files(): Promise<ArrayBuffer[]> {
  const names = Object.keys(await scene.visible())
  return Promise.all(
    names.map(async (name) => {
      const bytes = await readFile(join(scene.path, name))
      return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer
    }),
  )
}

async function written(options: Partial<ParquetOptions<Row>>, ...rows: Row[]): Promise<ArrayBuffer> {
  const sink = scene.sink<Row>({ format: fileFormats.parquet({ schema: SCHEMA, ...options }) })
  const attempt = await scene.start(sink)
  await attempt.write(0, ...rows)
  await scene.commit(sink, await attempt.checkpoint(1), 'recover')
  const [file, another] = await files()
  expect(another).toBeUndefined()
  return file as ArrayBuffer
}

describe('a Parquet file', () => {
  test('holds the values under the types of its schema', async () => {
    const file = await written(
      {},
      { user: 'ann', count: 2 ** 40, at: new Date(5) },
      { user: 'bö', count: -1, at: null },
    )
    expect(await parquetReadObjects({ file })).toEqual([
      { user: 'ann', count: 2n ** 40n, time: new Date(5) },
      { user: 'bö', count: -1n, time: null },
    ])
  })

  test('ends with its checkpoint, because nobody could read it without its end', async () => {
    const sink = scene.sink<Row>({ format: fileFormats.parquet({ schema: SCHEMA }) })
    const attempt = await scene.start(sink)
    await attempt.write(0, { user: 'a', count: 1 })
    const first = await attempt.checkpoint(1)
    expect(first).toMatchObject({ state: [], committables: [{ records: 1 }] })
    await scene.commit(sink, first)
    await attempt.complete(1)
    await attempt.write(0, { user: 'b', count: 2 })
    await scene.commit(sink, await attempt.checkpoint(2))
    const read = await Promise.all((await files()).map((file) => parquetReadObjects({ file })))
    expect(read.flat().map((row) => row['user'])).toEqual(['a', 'b'])
  })

  test('has row groups of the size that is asked for, and is rolled by bytes', async () => {
    const rows = Array.from({ length: 25 }, (_, i): Row => ({ user: `user ${i}`, count: i }))
    const file = await written({ rowGroupRows: 10 }, ...rows)
    expect(parquetMetadata(file).row_groups.map(({ num_rows }) => num_rows)).toEqual([10n, 10n, 5n])
    expect((await parquetReadObjects({ file })).map((row) => row['user'])).toEqual(
      rows.map(({ user }) => user),
    )
  })

  test('is finished after its bytes', async () => {
    const format = fileFormats.parquet<Row>({ schema: SCHEMA, compression: 'none', rowGroupRows: 10 })
    const attempt = await scene.start(scene.sink<Row>({ format, rolling: { maxBytes: 2_000 } }))
    for (let i = 0; i < 200; i++) await attempt.write(0, { user: `${i}`.repeat(10), count: i })
    const { committables } = await attempt.checkpoint(1)
    expect(committables.length).toBeGreaterThan(3)
    expect(committables.reduce((sum, { records }) => sum + records, 0)).toBe(200)
  })

  test.each(['none', 'snappy', 'gzip', 'zstd'] as const)('may be packed by %s', async (compression) => {
    const rows = Array.from({ length: 100 }, (_, i): Row => ({ user: 'a'.repeat(50), count: i }))
    const file = await written({ compression }, ...rows)
    const [chunk] = parquetMetadata(file).row_groups[0]?.columns ?? []
    expect(chunk?.meta_data?.codec).toBe(compression === 'none' ? 'UNCOMPRESSED' : compression.toUpperCase())
    const compressors = {
      GZIP: (bytes: Uint8Array) => gunzipSync(bytes),
      ZSTD: (bytes: Uint8Array) => zstdDecompressSync(bytes),
    }
    expect((await parquetReadObjects({ file, compressors })).map((row) => row['count'])).toEqual(
      rows.map(({ count }) => BigInt(count)),
    )
  })

  test.each<[string, unknown, unknown]>([
    ['boolean', true, true],
    ['int32', -5, -5],
    ['int64', 7n, 7n],
    ['float', 0.5, 0.5],
    ['double', 0.1, 0.1],
    ['timestamp', 1_000, new Date(1_000)],
    ['json', { a: [1, null] }, { a: [1, null] }],
  ])('keeps a value of type %s', async (type, more, read) => {
    const file = await written({ schema: { more: type as 'int32' } }, { user: '', count: 0, more })
    expect(await parquetReadObjects({ file })).toEqual([{ more: read }])
  })

  test('keeps bytes', async () => {
    const file = await written(
      { schema: { more: 'bytes' } },
      { user: '', count: 0, more: Buffer.from([255, 0]) },
    )
    const [row] = await parquetReadObjects({ file, utf8: false })
    expect(Buffer.from(row?.['more']).toString('hex')).toBe('ff00')
  })

  test.each<[string, unknown, string]>([
    ['string', 5, "column 'more': a value of type number is no text"],
    ['string', null, "column 'more': null in a column that is not optional"],
    ['boolean', 'x', 'is no boolean'],
    ['int32', 2 ** 31, 'not a whole number of 32 bits'],
    ['int32', 1.5, 'not a whole number of 32 bits'],
    ['int64', 2 ** 60, 'give a bigint'],
    ['int64', 2n ** 63n, 'not a whole number of 64 bits'],
    ['double', '1', 'is no number'],
    ['timestamp', new Date(Number.NaN), 'is no moment'],
    ['json', undefined, 'not optional'],
    ['json', () => 1, 'JSON form'],
    ['bytes', 'x', 'is no bytes'],
  ])('refuses a %s of %p', async (type, more, why) => {
    const row = { user: '', count: 0, more }
    await expect(written({ schema: { more: type as 'int32' } }, row)).rejects.toMatchObject({
      code: 'MILLRACE_SERIALIZATION',
      message: expect.stringContaining(why),
    })
  })

  test.each<[object, string]>([
    [{ schema: {} }, 'schema is missing'],
    [{ schema: { a: 'text' } }, "column 'a' has type 'text'; types are string, boolean"],
    [{ schema: { a: 'string' }, compression: 'lzo' }, "compression 'lzo' is none of none, snappy"],
    [{ schema: { a: 'string' }, rowGroupRows: 0 }, 'rowGroupRows 0'],
  ])('cannot be of %j', (options, why) => {
    expect(() => fileFormats.parquet(options as never)).toThrow(why)
  })
})
