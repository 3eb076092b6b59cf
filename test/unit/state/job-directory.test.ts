import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { JobDirectory } from '../../../src/state/job-directory.ts'
import { openSnapshot } from '../../../src/state/savepoint-source.ts'
import { completed } from './completed-checkpoint.ts'

let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'millrace-job-directory-'))
})
afterEach(() => rm(root, { recursive: true, force: true }))

const open = (): JobDirectory => new JobDirectory({ root, job: 'etl', memoryThreshold: 0 })
const BYTES = Buffer.from('state')

test('what one attempt stored another process reads and removes by its handle', async () => {
  const attempt = await open().begin('run', 1)
  const handle = await attempt.blobs(3).put('count-0', BYTES)
  const other = open()
  expect(Buffer.from(await other.get(handle))).toEqual(BYTES)
  await other.discard(handle)
  await expect(other.get(handle)).rejects.toMatchObject({ code: 'MILLRACE_STATE_LOST' })
})

test('two attempts at one checkpoint do not touch each other’s files', async () => {
  const directory = open()
  const [zombie, present] = [await directory.begin('run', 1), await directory.begin('run', 2)]
  const old = await zombie.blobs(8).put('count-0', Buffer.from('old'))
  const handle = await present.blobs(8).put('count-0', BYTES)
  await directory.discard(old)
  expect(Buffer.from(await directory.get(handle))).toEqual(BYTES)
})

test('metadata that an attempt left which died on the checkpoint is replaced', async () => {
  const directory = open()
  await (await directory.begin('run', 1)).writeMetadata(completed({ n: 8, attempt: 1 }))
  await (await directory.begin('run', 2)).writeMetadata(completed({ n: 8, attempt: 2 }))
  expect((await openSnapshot(join(root, 'etl', 'run', 'chk-8'))).checkpoint.attempt).toBe(2)
})

test('the last thing that goes takes the folder of the checkpoint along', async () => {
  const directory = open()
  const attempt = await directory.begin('run', 1)
  await attempt.writeMetadata(completed({ n: 8 }))
  await directory.discardMetadata('run', 8)
  expect(await readdir(root)).toEqual([])
})

test('a directory that cannot be written is refused at the start, by its path', async () => {
  const directory = new JobDirectory({ root: join('/dev/null', 'x'), job: 'etl', memoryThreshold: 0 })
  await expect(directory.begin('run', 1)).rejects.toMatchObject({
    code: 'MILLRACE_CHECKPOINT_STORAGE',
    message: expect.stringContaining('/dev/null/x/etl/run'),
  })
})
