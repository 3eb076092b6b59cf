/** The connectors and jobs of the examples: whole jobs, killed at every place of the commit path, and the example jobs as processes. */
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import { gunzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { json, kafkaSource, OffsetsInitializer, type StreamExecutionEnvironment } from 'millrace'
import { TestDriver } from 'millrace/testing'
import { sqliteSink } from '../../../examples/sqlite-sink.ts'
import { sqliteSource } from '../../../examples/sqlite-source.ts'
import type { FaultPoint } from '../../../src/runtime/fault-points.ts'

jest.setTimeout(60_000)

/** Around the moves of a batch: staged, named by a snapshot, promised, moved, confirmed. */
const PLACES: readonly FaultPoint[] = [
  'after-prepare',
  'before-ack',
  'after-commit-point',
  'before-end-txn',
  'after-end-txn',
  'before-confirm',
]

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '..', '..', '..')

let folder: string
let file: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-example-'))
  file = join(folder, 'test.db')
  execute('CREATE TABLE numbers (n INTEGER, double INTEGER)')
})
afterEach(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))

function execute(sql: string): void {
  const database = new DatabaseSync(file)
  database.exec(sql)
  database.close()
}

function column(sql: string): unknown[] {
  const database = new DatabaseSync(file, { readOnly: true })
  try {
    return database
      .prepare(sql)
      .all()
      .map((row) => Object.values(row)[0])
  } finally {
    database.close()
  }
}

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i)

/** Runs an example job as a user does. */
async function example(name: string, environment: Record<string, string>): Promise<void> {
  await run(process.execPath, ['--conditions=millrace-source', join('examples', name)], {
    cwd: ROOT,
    env: { ...process.env, NODE_OPTIONS: '', ...environment },
  })
}

describe('the SQLite sink', () => {
  const toTable = (env: StreamExecutionEnvironment) => {
    env
      .fromSource(
        kafkaSource<number>({
          topics: ['in'],
          groupId: 'numbers',
          startingOffsets: OffsetsInitializer.earliest(),
          value: json(),
        }),
      )
      .uid('in')
      .rebalance()
      .map((n) => n)
      .uid('map')
      .sinkTo(sqliteSink<number>({ file, table: 'numbers', row: (n) => ({ n, double: 2 * n }) }))
      .uid('table')
  }
  const settings = { topics: { in: 3 }, checkpointIntervalMs: 100, parallelism: 2 }
  const records = (from: number, to: number) =>
    range(from, to).map((value) => ({ value, partition: value % 3 }))

  test.each(PLACES)(
    'has each row once after kill -9 at %s, at another parallelism each time',
    async (point) => {
      const driver = await TestDriver.start(toTable, settings)
      await driver.produce('in', records(0, 10))
      await driver.crashAt(point, 2)
      await driver.restart({ parallelism: 3 })
      await driver.produce('in', records(10, 20))
      await driver.crashAt(point)
      await driver.restart({ parallelism: 1 })
      await driver.produce('in', records(20, 30))
      await driver.catchUp()
      await driver.triggerCheckpoint()
      expect(column('SELECT n FROM numbers ORDER BY n')).toEqual(range(0, 30))
      expect(column('SELECT count(*) FROM numbers WHERE double = 2 * n')).toEqual([30])
      expect(column('SELECT count(*) FROM millrace_staged')).toEqual([0])
    },
  )

  test('says what is lost when somebody removed what was staged', async () => {
    const driver = await TestDriver.start(toTable, settings)
    await driver.produce('in', records(0, 10))
    await driver.crashAt('before-end-txn')
    execute('DELETE FROM millrace_staged')
    const goingOn = driver.restart().then(() => driver.advance(20_000))
    await expect(goingOn).rejects.toThrow(/holds 0 of the \d+ rows that checkpoint \d+ of job/)
  })
})

describe('the SQLite source', () => {
  test('reads the rows that were there at the first start, once, also after a crash', async () => {
    execute('CREATE TABLE input (id INTEGER PRIMARY KEY, word TEXT)')
    execute(
      `INSERT INTO input (word) VALUES ${range(0, 2_000)
        .map((n) => `('w${n}')`)
        .join(', ')}`,
    )
    const copy = (env: StreamExecutionEnvironment) => {
      env
        .fromSource(sqliteSource<{ id: number; word: string }>({ file, table: 'input', id: 'id' }))
        .uid('input')
        .sinkTo(
          sqliteSink<{ id: number }>({
            file,
            table: 'numbers',
            row: ({ id }) => ({ n: id, double: 2 * id }),
          }),
        )
        .uid('table')
    }
    const driver = await TestDriver.start(copy, { checkpointIntervalMs: 10 })
    await driver.crashAt('after-commit-point')
    execute("INSERT INTO input (word) VALUES ('late')")
    await driver.restart()
    expect(await driver.finished()).toBe('FINISHED')
    expect(column('SELECT n FROM numbers ORDER BY n')).toEqual(range(1, 2_001))
  })
})

describe('the example', () => {
  test('sqlite-source-and-sink.ts writes a running total for each order', async () => {
    const DATABASE = join(folder, 'orders.db')
    await example('sqlite-source-and-sink.ts', { DATABASE })
    file = DATABASE
    expect(column('SELECT count(*) FROM totals')).toEqual([1_000])
    expect(column('SELECT max(amount) FROM totals GROUP BY user ORDER BY user')).toEqual([
      166_833, 166_167, 166_500,
    ])
  })

  test('file-sink.ts writes the orders of each day, and the large ones for a spreadsheet', async () => {
    await example('file-sink.ts', { OUT: folder })
    const days = (await readdir(join(folder, 'orders'))).filter((name) => !name.startsWith('.')).sort()
    expect(days).toEqual(['2026-01-01', '2026-01-02', '2026-01-03'])
    let orders = 0
    for (const day of days)
      for (const name of await readdir(join(folder, 'orders', day))) {
        const lines = gunzipSync(await readFile(join(folder, 'orders', day, name))).toString()
        orders += lines.trimEnd().split('\n').length
      }
    expect(orders).toBe(1_000)
    const [large] = (await readdir(join(folder, 'large'))).filter((name) => name.startsWith('large-'))
    const rows = (await readFile(join(folder, 'large', large as string), 'utf8')).split('\r\n')
    expect(rows.slice(0, 2)).toEqual(['user,amount,day', 'user 1,9.01,2026-01-02'])
    expect(rows).toHaveLength(102)
  })
})
