import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { LocalFolders, removeLocalState } from '../../../src/state/local-recovery.ts'
import { type LogLine, recordingLogger } from '../../../src/testing/recorded-log.ts'

let folder: string
let roots: string[]
const lines: LogLine[] = []
const logger = recordingLogger(lines, { now: () => 0 })
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-local-'))
  roots = [join(folder, 'a'), join(folder, 'b')]
})
afterEach(() => rm(folder, { recursive: true, force: true }))

const foldersOf = (jobName: string, subtask: number) =>
  new LocalFolders({ roots, jobName, uid: 'count', subtask, logger })

/** The id of a process that has ended. */
async function deadPid(): Promise<number> {
  const child = spawn(process.execPath, ['-e', ''])
  await new Promise((resolve) => child.once('close', resolve))
  return child.pid as number
}

describe('what a job that is over left on this machine', () => {
  test('goes from all folders, with the folders that are empty then, and nothing of another job', async () => {
    for (let subtask = 0; subtask < 4; subtask++) {
      await foldersOf('over', subtask).create('one')
      await foldersOf('going on', subtask).create('two')
    }
    const before = (await Promise.all(roots.map((root) => readdir(root)))).flat()
    expect(before.filter((name) => name === 'over')).toHaveLength(2)
    await removeLocalState({ roots, jobName: 'over', logger })
    const after = (await Promise.all(roots.map((root) => readdir(root)))).flat()
    expect(after).toEqual(before.filter((name) => name !== 'over'))
  })

  test('stays where another process that lives uses it, and goes where its process is dead', async () => {
    const path = join(roots[0] as string, 'over', 'count-0')
    for (const [id, owner] of [
      ['alive', process.ppid],
      ['dead', await deadPid()],
      ['nobody', undefined],
    ] as const) {
      await mkdir(join(path, id), { recursive: true })
      if (owner !== undefined) await writeFile(join(path, id, 'owner'), String(owner))
    }
    await removeLocalState({ roots, jobName: 'over', logger })
    expect(await readdir(path)).toEqual(['alive'])
  })

  test('is nothing to speak of when there is nothing', async () => {
    await removeLocalState({ roots, jobName: 'never was', logger })
    expect(await readdir(folder)).toEqual([])
  })
})

test('a folder of an earlier process with our id goes when the next one is made; one of ours stays', async () => {
  const folders = foldersOf('container', 0)
  const ours = await folders.create('ours')
  const path = join(ours.database, '..', '..')
  for (const [id, owner] of [
    ['earlier', `${process.pid} 17`],
    ['of-an-older-release', String(process.pid)],
  ] as const) {
    await mkdir(join(path, id))
    await writeFile(join(path, id, 'owner'), owner)
  }
  await folders.create('next')
  expect((await readdir(path)).sort()).toEqual(['next', 'ours'])
  expect(await folders.find('ours')).toMatchObject({ id: 'ours' })
})
