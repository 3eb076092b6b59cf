import { readFile, truncate, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { fileFormats } from '../../../src/connectors/file-sink.ts'
import { FileScene } from './file-scene.ts'

let scene: FileScene
beforeEach(async () => {
  scene = await FileScene.open()
})
afterEach(() => scene.close())

const lost = expect.objectContaining({ code: 'MILLRACE_FILE_LOST' })

describe('a file', () => {
  test('has no visible name before the checkpoint that holds it is committed', async () => {
    const sink = scene.sink()
    const attempt = await scene.start(sink)
    await attempt.write(0, 'a', 'b')
    const checkpoint = await attempt.checkpoint(1, { end: true })
    expect(await scene.visible()).toEqual({})
    await scene.commit(sink, checkpoint)
    expect(Object.values(await scene.visible())).toEqual(['"a"\n"b"\n'])
    expect(await scene.hidden()).toEqual([])
  })

  test('that is not due stays open over checkpoints and is in their state, not among their committables', async () => {
    const sink = scene.sink()
    const attempt = await scene.start(sink)
    await attempt.write(0, 'a')
    const first = await attempt.checkpoint(1)
    expect(first).toMatchObject({ committables: [], state: [{ length: 4, records: 1 }] })
    await attempt.write(0, 'b')
    const second = await attempt.checkpoint(2, { end: true })
    expect(second).toMatchObject({ state: [], committables: [{ size: 8, records: 2, n: 2 }] })
    await scene.commit(sink, second)
    expect(Object.values(await scene.visible())).toEqual(['"a"\n"b"\n'])
  })

  test('is finished as soon as it has its size, and the next record begins another one', async () => {
    const sink = scene.sink({ rolling: { maxBytes: 10 } })
    const attempt = await scene.start(sink)
    await attempt.write(0, 'abcd', 'efgh', 'ijkl')
    const checkpoint = await attempt.checkpoint(1)
    expect(checkpoint.committables.map(({ size }) => size)).toEqual([14])
    expect(checkpoint.state.map(({ length }) => length)).toEqual([7])
  })

  test('is finished at the first barrier or record after its age', async () => {
    const sink = scene.sink({ rolling: { maxAgeMs: 1_000, inactivityMs: 900 } })
    const attempt = await scene.start(sink)
    await attempt.write(0, 'a')
    scene.now += 800
    await attempt.write(0, 'b')
    scene.now += 199
    expect((await attempt.checkpoint(1)).committables).toEqual([])
    scene.now += 1
    await attempt.write(0, 'c')
    const checkpoint = await attempt.checkpoint(2)
    expect(checkpoint.committables.map(({ records }) => records)).toEqual([2])
    expect(checkpoint.state.map(({ records }) => records)).toEqual([1])
  })

  test('is finished at a barrier when nothing was written to it for long enough', async () => {
    const sink = scene.sink({ rolling: { maxAgeMs: 10_000, inactivityMs: 500 } })
    const attempt = await scene.start(sink)
    await attempt.write(0, 'a')
    scene.now += 499
    expect((await attempt.checkpoint(1)).committables).toEqual([])
    scene.now += 1
    expect((await attempt.checkpoint(2)).committables).toHaveLength(1)
  })

  test('is finished at a savepoint, which must not depend on hidden files', async () => {
    const attempt = await scene.start(scene.sink())
    await attempt.write(0, 'a')
    expect(await attempt.checkpoint(1, { savepoint: true })).toMatchObject({
      state: [],
      committables: [{ records: 1 }],
    })
  })

  test('of an aborted checkpoint is committed with the next one that completes', async () => {
    const sink = scene.sink({ rolling: { maxAgeMs: 1 } })
    const attempt = await scene.start(sink)
    await attempt.write(0, 'a')
    scene.now += 1
    await attempt.checkpoint(1)
    await attempt.write(0, 'b')
    scene.now += 1
    const second = await attempt.checkpoint(2)
    expect(second.committables.map(({ n }) => n)).toEqual([1, 2])
    await scene.commit(sink, second)
    await attempt.complete(2)
    expect(await scene.values()).toEqual(['a', 'b'])
    expect((await attempt.checkpoint(3)).committables).toEqual([])
  })

  test('that grows beyond what is held back has the same bytes', async () => {
    const sink = scene.sink()
    const attempt = await scene.start(sink)
    const values = Array.from({ length: 100 }, (_, i) => String(i).repeat(5_000))
    for (const value of values) await attempt.write(0, value)
    await scene.commit(sink, await attempt.checkpoint(1, { end: true }), 'recover')
    expect(await scene.values()).toEqual([...values].sort())
  })

  test('can be packed: what is written at each barrier is a part that gzip reads on over', async () => {
    const sink = scene.sink({ compression: 'gzip' })
    const attempt = await scene.start(sink)
    await attempt.write(0, 'a')
    await attempt.checkpoint(1)
    await attempt.write(0, 'b')
    await scene.commit(sink, await attempt.checkpoint(2, { end: true }), 'recover')
    const [name] = Object.keys(await scene.visible())
    expect(name).toMatch(/\.jsonl\.gz$/)
    const packed = await readFile(join(scene.path, name as string))
    expect(gunzipSync(packed).toString()).toBe('"a"\n"b"\n')
  })

  test('that fails to be written names the file and the value', async () => {
    const attempt = await scene.start(scene.sink<any>())
    await expect(attempt.write(0, 5n)).rejects.toThrow(
      /out: cannot write a value to 'part-0-u\d+-0\.jsonl' as jsonLines: .*BigInt/,
    )
  })

  test('in a folder that cannot be written to is a failure with a code and the path', async () => {
    await writeFile(scene.path, 'a file where the folder should be')
    await expect(scene.start(scene.sink())).rejects.toMatchObject({
      code: 'MILLRACE_FILE_STORAGE',
      message: expect.stringContaining(scene.path),
    })
  })
})

describe('buckets', () => {
  test('have files of their own', async () => {
    const sink = scene.sink({ bucket: (value) => `by/${value[0]}` })
    const attempt = await scene.start(sink)
    await attempt.write(0, 'ab', 'cd', 'ae')
    await scene.commit(sink, await attempt.checkpoint(1, { end: true }))
    const files = await scene.visible()
    expect(Object.keys(files).map((name) => name.replace(/u\d+/, 'u'))).toEqual([
      'by/a/part-0-u-0.jsonl',
      'by/c/part-0-u-1.jsonl',
    ])
    expect(Object.values(files)).toEqual(['"ab"\n"ae"\n', '"cd"\n'])
  })

  test('beyond the number of open files make the least used one finish', async () => {
    const sink = scene.sink({ bucket: (value) => value, maxOpenFiles: 2 })
    const attempt = await scene.start(sink)
    await attempt.write(0, 'a', 'b', 'a', 'c')
    const checkpoint = await attempt.checkpoint(1)
    expect(checkpoint.committables.map(({ path }) => path[0])).toEqual(['b'])
    expect(checkpoint.state.map(({ path }) => path[0])).toEqual(['a', 'c'])
  })

  test.each(['/etc', '../up', 'a//b', '.millrace', 'a/.b', 'a\0'])('%j is refused', async (bucket) => {
    const attempt = await scene.start(scene.sink({ bucket: () => bucket }))
    await expect(attempt.write(0, 'a')).rejects.toMatchObject({ code: 'MILLRACE_INVALID_OPTION' })
  })

  test('that throw are failures of a user function', async () => {
    const attempt = await scene.start(
      scene.sink({
        bucket: () => {
          throw new Error('no idea')
        },
      }),
    )
    await expect(attempt.write(0, 'a')).rejects.toMatchObject({
      code: 'MILLRACE_USER_FUNCTION',
      message: expect.stringContaining('no idea'),
    })
  })
})

describe('an attempt that goes on from a checkpoint', () => {
  test('finishes what was open at it, without what came behind it', async () => {
    const sink = scene.sink()
    const first = await scene.start(sink)
    await first.write(0, 'a', 'b')
    const checkpoint = await first.checkpoint(1)
    await first.write(0, 'c')
    await first.checkpoint(2)
    await first.die()
    // 'c' is read again.
    const second = await scene.start(sink, { attempt: 2, from: checkpoint })
    await second.write(0, 'c')
    const next = await second.checkpoint(3)
    await scene.commit(sink, next, 'recover')
    expect(await scene.values()).toEqual(['a', 'b'])
    const end = await second.checkpoint(4, { end: true })
    await scene.commit(sink, end, 'recover')
    expect(await scene.values()).toEqual(['a', 'b', 'c'])
  })

  test('does not mind that the process it follows is alive and writes on', async () => {
    const sink = scene.sink()
    const zombie = await scene.start(sink)
    await zombie.write(0, 'a')
    const checkpoint = await zombie.checkpoint(1)
    const second = await scene.start(sink, { attempt: 2, from: checkpoint })
    await zombie.write(0, 'from the zombie')
    await zombie.checkpoint(2, { end: true })
    await scene.commit(sink, await second.checkpoint(2, { end: true }), 'recover')
    expect(await scene.values()).toEqual(['a'])
  })

  test('that dies before its first checkpoint leaves the next one everything', async () => {
    const sink = scene.sink()
    const first = await scene.start(sink)
    await first.write(0, 'a')
    const checkpoint = await first.checkpoint(1)
    await first.die()
    for (const attempt of [2, 3, 4]) {
      const failing = await scene.start(sink, { attempt, from: checkpoint })
      await failing.write(0, 'again and again')
      await failing.checkpoint(attempt)
      expect(await scene.hidden()).toContainEqual(expect.stringMatching(/\/1-0-part/))
      await failing.die()
    }
    const last = await scene.start(sink, { attempt: 5, from: checkpoint })
    await scene.commit(sink, await last.checkpoint(5, { end: true }), 'recover')
    await last.complete(5)
    expect(await scene.values()).toEqual(['a'])
    expect(await scene.hidden()).toEqual([])
  })

  test('removes what failed attempts left, and no file of a later attempt or another job', async () => {
    const sink = scene.sink()
    const other = await scene.start(sink, { job: 'other' })
    await other.write(0, 'of another job')
    await other.checkpoint(1)
    const later = await scene.start(sink, { attempt: 9 })
    await later.write(0, 'of a later attempt')
    await later.checkpoint(1)
    const failed = await scene.start(sink, { attempt: 1 })
    await failed.write(0, 'left')
    await failed.checkpoint(1)
    expect(await scene.hidden()).toHaveLength(3)
    await scene.start(sink, { attempt: 2 })
    expect(await scene.hidden()).toEqual([
      expect.stringMatching(/^\.millrace\/job\.out-\w+\/9-0-part-0-/),
      expect.stringMatching(/^\.millrace\/other\.out-\w+\/1-0-part-0-/),
    ])
  })

  test.each([
    [3, 1],
    [1, 2],
    [3, 2],
    [2, 5],
  ])('with %i subtasks and then %i has each file once and leaves nothing', async (before, after) => {
    const sink = scene.sink()
    const first = await scene.start(sink, { parallelism: before })
    for (let i = 0; i < before; i++) await first.write(i, `of ${i}`)
    const checkpoint = await first.checkpoint(1)
    for (let i = 0; i < before; i++) await first.write(i, 'behind the checkpoint')
    await first.checkpoint(2)
    await first.die()
    const second = await scene.start(sink, { attempt: 2, parallelism: after, from: checkpoint })
    await scene.commit(sink, await second.checkpoint(3), 'recover')
    await second.complete(3)
    expect(await scene.values()).toEqual(Array.from({ length: before }, (_, i) => `of ${i}`))
    expect(await scene.hidden()).toEqual([])
  })

  test('in the sink of another folder and format finishes the files where and as they were', async () => {
    const old = await scene.start(scene.sink())
    await old.write(0, 'a')
    const checkpoint = await old.checkpoint(1)
    await old.die()
    const elsewhere = join(scene.folder, 'elsewhere')
    const sink = scene.sink({
      path: elsewhere,
      format: fileFormats.csv({ columns: [{ name: 'v', value: (v: string) => v }] }),
    })
    const second = await scene.start(sink, { attempt: 2, from: checkpoint })
    await second.write(0, 'b')
    await scene.commit(sink, await second.checkpoint(2, { end: true }), 'recover')
    await second.complete(2)
    expect(Object.values(await scene.visible())).toEqual(['"a"\n'])
    expect(Object.values(await scene.visible(elsewhere))).toEqual(['v\r\nb\r\n'])
    expect(await scene.hidden()).toEqual([])
  })

  test('from an old one, whose file has become visible since, does not write it again', async () => {
    const sink = scene.sink()
    const first = await scene.start(sink)
    await first.write(0, 'a')
    const old = await first.checkpoint(1)
    await first.write(0, 'b')
    await scene.commit(sink, await first.checkpoint(2, { end: true }))
    const second = await scene.start(sink, { attempt: 2, from: old })
    await scene.commit(sink, await second.checkpoint(3, { end: true }), 'recover')
    expect(await scene.values()).toEqual(['a', 'b'])
  })

  test('from an old one, whose file was copied since, finds it in the copy', async () => {
    const sink = scene.sink()
    const first = await scene.start(sink)
    await first.write(0, 'a')
    const old = await first.checkpoint(1)
    const second = await scene.start(sink, { attempt: 2, from: old })
    await second.checkpoint(2)
    await second.complete(2)
    expect(await scene.hidden()).toEqual([expect.stringMatching(/\/2-0-part/)])
    const third = await scene.start(sink, { attempt: 3, from: old })
    await scene.commit(sink, await third.checkpoint(3, { end: true }), 'recover')
    expect(await scene.values()).toEqual(['a'])
  })

  describe('whose open file was harmed', () => {
    async function harmed(harm: (file: string) => Promise<void>) {
      const sink = scene.sink()
      const first = await scene.start(sink, { parallelism: 2 })
      await first.write(0, 'a')
      await first.write(1, 'b')
      const from = await first.checkpoint(1)
      await first.die()
      for (const { staged } of from.state) await harm(join(scene.path, staged))
      return from
    }

    test.each([
      ['missing', unlink],
      ['shorter', (file: string) => truncate(file, 2)],
      ['different', (file: string) => writeFile(file, '"x"\n')],
    ])('fails when it is %s, naming all files, bytes and records', async (_how, harm) => {
      const from = await harmed(harm)
      await expect(scene.start(scene.sink(), { attempt: 2, from })).rejects.toMatchObject({
        code: 'MILLRACE_FILE_LOST',
        message: expect.stringMatching(
          /1-0-part-0.* is missing or damaged; checkpoint 1 holds its first 4 bytes, 1 records for 'part-0-u\d+-0\.jsonl'; .*1-1-part-1/,
        ),
      })
    })

    test('goes on without it if it is told to, and says so', async () => {
      const from = await harmed(unlink)
      const sink = scene.sink({ onLostFile: 'accept' })
      const second = await scene.start(sink, { attempt: 2, from })
      expect((await second.checkpoint(2, { end: true })).committables).toEqual([])
      expect(scene.log).toEqual([
        expect.stringContaining("onLostFile is 'accept'"),
        expect.stringContaining("onLostFile is 'accept'"),
      ])
    })

    test('and to which something else came in the place of its visible name fails', async () => {
      const first = await scene.start(scene.sink())
      await first.write(0, 'a')
      const from = await first.checkpoint(1)
      await writeFile(join(scene.path, from.state[0]?.path as string), 'something else')
      await expect(scene.start(scene.sink(), { attempt: 2, from })).rejects.toEqual(lost)
    })
  })

  test('of a form that is not known is refused', async () => {
    const state = [{ format: 2 }] as never
    await expect(
      scene.start(scene.sink(), { from: { n: 1, committables: [], state } }),
    ).rejects.toMatchObject({ code: 'MILLRACE_STATE_INCOMPATIBLE' })
  })
})

test('what is stored has a form that never changes within its number', async () => {
  const attempt = await scene.start(scene.sink({ path: scene.path, rolling: { maxBytes: 1 } }))
  await attempt.write(0, 'a')
  const { committables } = await attempt.checkpoint(7)
  const [committable] = committables
  expect(committable).toEqual({
    format: 1,
    base: scene.path,
    staged: expect.stringMatching(/^\.millrace\/job\.out-[0-9a-f]{12}\/1-0-part-0-u\d+-0\.jsonl$/),
    path: expect.stringMatching(/^part-0-u\d+-0\.jsonl$/),
    size: 4,
    crc32: 621655680,
    records: 1,
    attempt: 1,
    subtask: 0,
    n: 7,
  })
})

test('people are told what is open and what waits', async () => {
  const attempt = await scene.start(scene.sink({ rolling: { maxBytes: 5 } }))
  const [writer] = attempt.writers
  expect(writer?.describe()).toBeUndefined()
  await attempt.write(0, 'abcdef', 'g')
  expect(writer?.describe()).toBe('1 files of 4 bytes are open; 1 files wait for a checkpoint')
})
