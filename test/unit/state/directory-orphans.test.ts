import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { listJobFiles, orphanFiles } from '../../../src/state/directory-orphans.ts'

let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'millrace-orphans-'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

const attemptNumber = (attempt: number) => ({
  run: 'run',
  attempt,
  incarnation: 'worker',
  startedAt: 0,
  fingerprint: '',
  sinks: [],
})

test('of each file of a run the attempt that wrote it is known, also of one that was being written', async () => {
  const folder = join(root, 'job', 'run', 'chk-5')
  await mkdir(folder, { recursive: true })
  for (const name of ['state-1-0-4', 'state-2-0-4.4.tmp', '_metadata', '_metadata.4.tmp', 'notes.txt'])
    await writeFile(join(folder, name), 'x')
  const files = await listJobFiles(root, 'job', Date.now())
  const of = (attempt: number) =>
    orphanFiles(files, { attempt: attemptNumber(attempt), job: undefined, completed: [] }, 0)
      .map(({ name }) => name.slice('job/run/chk-5/'.length))
      .sort()
  // What the running attempt writes, and what is no file of a job, stays.
  expect(of(4)).toEqual([])
  expect(of(5)).toEqual(['_metadata.4.tmp', 'state-1-0-4', 'state-2-0-4.4.tmp'])
})
