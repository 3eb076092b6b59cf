/** kill -9 of a job with file sinks at places of the commit path, at another parallelism each time: every number is in one visible file, once. */
import { readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import { parquetReadObjects } from 'hyparquet'
import type { FaultPoint } from '../../src/runtime/fault-points.ts'
import { JobScene } from '../integration/job-scene.ts'

jest.setTimeout(180_000)

const JOB = 'fault/jobs/files.ts'
const CATCH_UP_MS = 60_000
/** Numbers that are fed before each death, and after the last one. */
const PORTION = 400

/** With two sinks of two subtasks or so, the second to the fifth commit lie in the middle of a checkpoint's files. */
const DEATHS: readonly { readonly place: `${FaultPoint}:${number}`; readonly parallelism: number }[] = [
  { place: 'before-ack:4', parallelism: 2 },
  { place: 'after-commit-point:3', parallelism: 3 },
  { place: 'after-end-txn:2', parallelism: 1 },
  { place: 'after-end-txn:5', parallelism: 2 },
]

let scene: JobScene
let out: string
beforeEach(async () => {
  scene = await JobScene.open()
  out = join(tmpdir(), `millrace-${scene.job}`)
})
afterEach(async () => {
  await scene.close()
  await rm(out, { recursive: true, force: true })
})

/** Paths of files, the hidden ones or the others. */
async function files(folder: string, hidden: boolean): Promise<string[]> {
  const entries = await readdir(join(out, folder), { recursive: true, withFileTypes: true }).catch(() => [])
  return entries
    .filter((entry) => entry.isFile() && entry.parentPath.includes('.millrace') === hidden)
    .map((entry) => join(entry.parentPath, entry.name))
}

async function lines(): Promise<number[]> {
  const texts = await Promise.all((await files('lines', false)).map((file) => readFile(file, 'utf8')))
  return texts.flatMap((text) => text.trimEnd().split('\n').map(Number))
}

async function rows(): Promise<number[]> {
  const read = await Promise.all(
    (await files('parquet', false)).map(async (path) => {
      const bytes = await readFile(path)
      const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer
      return parquetReadObjects({ file })
    }),
  )
  return read.flat().map((row) => row['n'] as number)
}

const sorted = (numbers: readonly number[]): number[] => numbers.toSorted((a, b) => a - b)

test('files hold each number once after kill -9 at one place after another', async () => {
  const topic = await scene.topic('in', 2)
  let fed = 0
  const feed = async (): Promise<void> => {
    for (const partition of [0, 1]) {
      const values = Array.from({ length: PORTION / 2 }, (_, i) => String(fed + 2 * i + partition))
      await scene.produce(topic, partition, values)
    }
    fed += PORTION
  }
  const start = (environment: Readonly<Record<string, string>>) =>
    scene.start(JOB, { IN: topic, OUT: out, ...environment })
  for (const { place, parallelism } of DEATHS) {
    const dying = start({ PARALLELISM: String(parallelism), MILLRACE_FAULT_POINT: place })
    await feed()
    expect(await dying.exited).toEqual({ code: null, signal: 'SIGKILL' })
  }
  const last = start({ PARALLELISM: '2' })
  await feed()
  await scene.until(
    'all numbers are visible',
    CATCH_UP_MS,
    async () => (await lines()).length >= fed && (await rows()).length >= fed,
  )
  last.signal('SIGTERM')
  expect(await last.code(20_000)).toBe(0)
  const all = Array.from({ length: fed }, (_, i) => i)
  expect(sorted(await lines())).toEqual(all)
  expect(sorted(await rows())).toEqual(all)
  expect([...(await files('lines', true)), ...(await files('parquet', true))]).toEqual([])
})
