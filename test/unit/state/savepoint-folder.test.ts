import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { SavepointFolder } from '../../../src/state/savepoint-folder.ts'
import { openSnapshot } from '../../../src/state/savepoint-source.ts'
import { completed } from './completed-checkpoint.ts'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'millrace-savepoint-'))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

const create = (): Promise<SavepointFolder> =>
  SavepointFolder.create({ directory, job: 'etl', id: 'abc', memoryThreshold: 4 })
const BYTES = Buffer.from('some state')

async function savepoint(folder: SavepointFolder) {
  const handle = await folder.blobs.put('count-0-keyed', BYTES)
  return completed({ kind: 'savepoint', states: [{ uid: 'count', subtask: 0, operator: handle }] })
}

describe('the folder of a savepoint', () => {
  test('is a savepoint when it is finished, and not before', async () => {
    const folder = await create()
    const checkpoint = await savepoint(folder)
    await expect(openSnapshot(folder.path)).rejects.toMatchObject({
      code: 'MILLRACE_STATE_LOST',
      message: expect.stringContaining('was never completed'),
    })
    folder.seal()
    await folder.finish(checkpoint)
    await folder.finish(checkpoint)
    const opened = await openSnapshot(folder.path)
    expect(opened.kind).toBe('savepoint')
    expect(Buffer.from(await folder.blobs.get(opened.checkpoint.states[0]!.operator!))).toEqual(BYTES)
    for (const path of [join(folder.path, '_metadata'), `file://${folder.path}`])
      expect((await openSnapshot(path)).folder).toBe(folder.path)
  })

  test('is gone when it is given up, with what is still being written', async () => {
    const folder = await create()
    await folder.blobs.put('count-0-keyed', BYTES)
    const late = folder.blobs.put('count-1-keyed', BYTES)
    await Promise.all([
      folder.abandon(),
      expect(late).rejects.toMatchObject({ code: 'MILLRACE_CHECKPOINT_FAILED' }),
    ])
    await expect(folder.blobs.put('count-2-keyed', BYTES)).rejects.toThrow(/was given up/)
    expect(await readdir(directory)).toEqual([])
  })

  test('stays when a commit point may name it, and can be given up again when that never happened', async () => {
    const folder = await create()
    const handle = await folder.blobs.put('count-0-keyed', BYTES)
    folder.seal()
    await folder.abandon()
    await folder.blobs.discard(handle)
    expect(await readdir(folder.path)).toEqual(['count-0-keyed'])
    folder.unseal()
    await folder.abandon()
    expect(await readdir(directory)).toEqual([])
  })

  test('is never one that is there already, and never below a file', async () => {
    await create()
    await expect(create()).rejects.toMatchObject({ code: 'MILLRACE_CHECKPOINT_STORAGE' })
    await writeFile(join(directory, 'file'), '')
    const below = { directory: join(directory, 'file', 'x'), job: 'etl', id: 'abc', memoryThreshold: 0 }
    await expect(SavepointFolder.create(below)).rejects.toMatchObject({ code: 'MILLRACE_CHECKPOINT_STORAGE' })
  })

  test('that is moved finds its files; one whose file was moved away names it', async () => {
    const folder = await create()
    await folder.finish(await savepoint(folder))
    await rm(join(folder.path, 'count-0-keyed'))
    const { checkpoint } = await openSnapshot(folder.path)
    await expect(folder.blobs.get(checkpoint.states[0]!.operator!)).rejects.toMatchObject({
      code: 'MILLRACE_STATE_LOST',
      message: `'${join(folder.path, 'count-0-keyed')}' does not exist`,
    })
  })
})

test('a path that is nothing says so, and stored names never lead out of the folder', async () => {
  await expect(openSnapshot(join(directory, 'none'))).rejects.toThrow(/is no folder/)
  const folder = await create()
  await expect(
    folder.blobs.get({ kind: 'kept', folder: folder.path, path: '../other', size: 1, crc32: 0 }),
  ).rejects.toThrow(/is not where the handle leads/)
})
