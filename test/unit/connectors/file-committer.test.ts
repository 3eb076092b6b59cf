import { mkdir, rename, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import type { FileSink } from '../../../src/connectors/file-sink.ts'
import { type Checkpoint, FileScene, permitFor } from './file-scene.ts'

let scene: FileScene
let sink: FileSink<string>
let checkpoint: Checkpoint
beforeEach(async () => {
  scene = await FileScene.open()
  sink = scene.sink({ bucket: (value) => value })
  const attempt = await scene.start(sink)
  await attempt.write(0, 'a', 'b')
  checkpoint = await attempt.checkpoint(3, { end: true })
})
afterEach(() => scene.close())

const lost = expect.objectContaining({ code: 'MILLRACE_FILE_LOST' })
const pathsOf = (index: number) => {
  const { staged, path } = checkpoint.committables[index] as Checkpoint['committables'][number]
  return { from: join(scene.path, staged), to: join(scene.path, path) }
}

describe('a commit', () => {
  test.each(['commit', 'recover'] as const)('that is repeated (%s) does nothing more', async (how) => {
    await scene.commit(sink, checkpoint, how)
    const once = await scene.visible()
    await scene.commit(sink, checkpoint, how)
    expect(await scene.visible()).toEqual(once)
    expect(await scene.values()).toEqual(['a', 'b'])
  })

  test('that died between two files is finished', async () => {
    const { from, to } = pathsOf(0)
    await mkdir(join(to, '..'))
    await rename(from, to)
    expect(await scene.values()).toEqual(['a'])
    await scene.commit(sink, checkpoint, 'recover')
    expect(await scene.values()).toEqual(['a', 'b'])
    expect(await scene.hidden()).toEqual([])
  })

  test('by several workers at the same time succeeds in all of them', async () => {
    const names = Array.from({ length: 40 }, (_, i) => `name-${i}`)
    const attempt = await scene.start(sink, { attempt: 2 })
    await attempt.write(0, ...names)
    checkpoint = await attempt.checkpoint(4, { end: true })
    await Promise.all(Array.from({ length: 8 }, () => scene.commit(sink, checkpoint, 'recover')))
    expect(await scene.values()).toEqual(names.sort())
    expect(await scene.hidden()).toEqual([])
  })

  test('of a file that is under both names with the same bytes removes the hidden one', async () => {
    const { from, to } = pathsOf(0)
    await mkdir(join(to, '..'))
    await writeFile(to, '"a"\n')
    await scene.commit(sink, checkpoint)
    expect(await scene.values()).toEqual(['a', 'b'])
    expect(await scene.hidden()).toEqual([])
    expect(from).not.toBe(to)
  })

  test('needs the permit of its checkpoint', async () => {
    await expect(scene.commit(sink, { ...checkpoint, n: 2 })).rejects.toMatchObject({
      code: 'MILLRACE_INTERNAL',
    })
    expect(await scene.visible()).toEqual({})
  })

  test('of a confirmed checkpoint is not looked at: readers may have taken its files away', async () => {
    const committer = sink.createCommitter({} as never)
    await committer.commit(permitFor(5, 3), checkpoint.committables)
    expect(await scene.visible()).toEqual({})
  })
})

describe('a commit is refused, naming every file, when', () => {
  test('a file is under neither name', async () => {
    await unlink(pathsOf(0).from)
    await unlink(pathsOf(1).from)
    const commit = scene.commit(sink, checkpoint, 'recover')
    await expect(commit).rejects.toMatchObject({
      code: 'MILLRACE_FILE_LOST',
      message: expect.stringMatching(
        /out\/a\/part.* is not there.*checkpoint 3 holds 4 bytes of it, 1 records; .*out\/b\/part/,
      ),
      details: { paths: [pathsOf(0).to, pathsOf(1).to] },
    })
  })

  test('a file is shorter than it was', async () => {
    await writeFile(pathsOf(0).from, '"')
    await expect(scene.commit(sink, checkpoint)).rejects.toEqual(lost)
  })

  test('a file has other bytes at take-over', async () => {
    await writeFile(pathsOf(0).from, '"x"\n')
    await expect(scene.commit(sink, checkpoint, 'recover')).rejects.toThrow('checksum')
    expect(await scene.values()).toEqual(['b'])
  })

  test("somebody else's file has the name: it is never overwritten", async () => {
    const { to } = pathsOf(0)
    await mkdir(join(to, '..'))
    await writeFile(to, '"x"\n')
    await expect(scene.commit(sink, checkpoint)).rejects.toEqual(lost)
    expect(await scene.values()).toEqual(['b', 'x'])
  })

  test('a stored path leads out of the folder', async () => {
    const [first] = checkpoint.committables
    const forged = { ...checkpoint, committables: [{ ...first, path: '../stolen' }] } as Checkpoint
    await expect(scene.commit(sink, forged)).rejects.toEqual(lost)
  })

  test('its form is not known', async () => {
    const [first] = checkpoint.committables
    const later = { ...checkpoint, committables: [{ ...first, format: 2 }] } as never
    await expect(scene.commit(sink, later)).rejects.toMatchObject({ code: 'MILLRACE_STATE_INCOMPATIBLE' })
  })
})

test('lost files can be accepted: the others are committed, and each loss is logged', async () => {
  const accepting = scene.sink({ onLostFile: 'accept' })
  await unlink(pathsOf(0).from)
  await scene.commit(accepting, checkpoint, 'recover')
  expect(await scene.values()).toEqual(['b'])
  expect(scene.log).toEqual([expect.stringMatching(/out\/a\/part.*onLostFile is 'accept'/)])
})
