import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { diagnoseDirectory } from '../../../src/state/directory-diagnosis.ts'

const OPTION = 'state.checkpoints.dir'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-directory-'))
})
afterEach(async () => {
  await chmod(folder, 0o700)
  await rm(folder, { recursive: true })
})

test('a folder that takes files is fine, with its free room, and nothing stays in it', async () => {
  expect(await diagnoseDirectory(OPTION, folder)).toEqual({
    check: `${OPTION} ${folder}`,
    status: expect.stringMatching(/ok|fix/),
    message: expect.stringMatching(/^(writable, \d+ MB free|only \d+ MB are free)$/),
    ...((await diagnoseDirectory(OPTION, folder)).status === 'fix' ? { remedy: expect.any(String) } : {}),
  })
  expect(await readdir(folder)).toEqual([])
})

test('a folder that does not exist yet is judged by the one that it will be made in, and is not made', async () => {
  const missing = join(folder, 'a', 'b')
  expect((await diagnoseDirectory(OPTION, missing)).message).toMatch(
    new RegExp(`^(can be made in ${folder}, |only )`),
  )
  expect(await readdir(folder)).toEqual([])
})

// The superuser may write everywhere.
const asUser = process.getuid?.() === 0 ? test.skip : test
asUser('a folder without the right to write is to be fixed', async () => {
  await chmod(folder, 0o500)
  expect(await diagnoseDirectory(OPTION, folder)).toMatchObject({
    status: 'fix',
    message: expect.stringContaining('EACCES'),
    remedy: expect.stringContaining('on every worker'),
  })
})

test('a file in the place of the folder is to be fixed', async () => {
  await mkdir(join(folder, 'x'))
  const file = join(folder, 'x', 'file')
  await writeFile(file, '')
  expect(await diagnoseDirectory(OPTION, file)).toMatchObject({
    status: 'fix',
    message: expect.stringMatching(/cannot write to .*file/),
  })
})
