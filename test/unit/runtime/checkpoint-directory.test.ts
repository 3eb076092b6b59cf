/** Checkpoints in a real directory: what is inline, what a full or broken disk does, what a crash leaves, and that nothing is deleted too early (case 40). */
import { execFile } from 'node:child_process'
import { appendFile, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { collectSink } from 'millrace'
import { type CompletedCheckpoint, handlesOf } from '../../../src/checkpoint/completed-checkpoint.ts'
import { storedName } from '../../../src/checkpoint/shared-state-registry.ts'
import { openSnapshot } from '../../../src/state/savepoint-source.ts'
import {
  allCounts,
  Brake,
  type Count,
  counting,
  finish,
  from,
  KEYS,
  RESTARTS,
  waitFor,
  written,
} from './savepoint-jobs.ts'
import { SavepointScene, type SceneJob } from './savepoint-scene.ts'

const FILES = { 'state.backend': 'filesystem', 'state.backend.fs.memory-threshold': '0 kb' }

let scene: SavepointScene
beforeEach(async () => {
  scene = await SavepointScene.open()
})
afterEach(() => scene.close())

/** Every file below the checkpoint directory, relative to it. */
async function files(): Promise<string[]> {
  const found = await readdir(scene.checkpoints, { recursive: true, withFileTypes: true })
  return found
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(scene.checkpoints.length + 1))
    .sort()
}

/** A job in the middle of its input, held by its brake. */
async function runningJob(config: SceneJob['config'], out = collectSink<Count>(), keys = KEYS) {
  const brake = new Brake()
  brake.limit = 10
  const master = await scene.start({
    declare: counting({ out, brake, keys }),
    config: { ...FILES, ...config },
  })
  const end = master.run()
  await waitFor(scene, 'the job is in the middle of its input', () => brake.seen > 15)
  return { master, end, brake, out }
}

test.each([
  ['0 kb', 7, 'a file'],
  ['1 kb', 7, 'inline'],
  ['1 kb', 500, 'a file'],
  ['1 mb', 500, 'inline'],
])('with a memory threshold of %s the state of %i keys is %s', async (threshold, keys, expected) => {
  const config = { 'state.backend.fs.memory-threshold': threshold }
  const { master, end } = await runningJob(config, collectSink<Count>(), keys)
  await master.triggerCheckpoint()
  await master.cancel()
  await end
  expect(scene.stored.some((name) => name.includes('-keyed')) ? 'a file' : 'inline').toBe(expected)
})

describe('a broken disk', () => {
  test('declines checkpoints, and the job goes on as far as failures are tolerated', async () => {
    const { master, end, brake, out } = await runningJob({
      'execution.checkpointing.tolerable-failed-checkpoints': 3,
    })
    await master.triggerCheckpoint()
    // The input must not end while the disk is broken.
    brake.pauseMs = 100
    const [run] = await readdir(join(scene.checkpoints, 'job'))
    const folder = join(scene.checkpoints, 'job', run as string)
    await rename(folder, join(scene.folder, 'aside'))
    await writeFile(folder, 'a file where the folder should be')
    for (let i = 0; i < 2; i++)
      await expect(master.triggerCheckpoint()).rejects.toMatchObject({
        code: 'MILLRACE_CHECKPOINT_FAILED',
        message: expect.stringContaining(folder),
      })
    expect(master.status).toBe('RUNNING')
    await rm(folder)
    await rename(join(scene.folder, 'aside'), folder)
    expect(await master.triggerCheckpoint()).toBeGreaterThan(0)
    brake.limit = Number.POSITIVE_INFINITY
    expect(await end).toEqual({ status: 'FINISHED' })
    expect(written(out)).toEqual(allCounts())
  })

  test('that is full leaves no half-written file: the checkpoint is declined, the job goes on', async () => {
    // The job's state outgrows the largest file that the process may write, and shrinks again.
    const job = join(import.meta.dirname, 'full-disk-job.ts')
    const { stdout } = await new Promise<{ stdout: string }>((resolve, reject) => {
      execFile(
        'bash',
        ['-c', `ulimit -f 64; exec "$0" --conditions=millrace-source "$1"`, process.execPath, job],
        { env: { ...process.env, NODE_OPTIONS: '', CHECKPOINTS: scene.checkpoints } },
        (error, out, err) =>
          error === null ? resolve({ stdout: out }) : reject(new Error(`${out}\n${err}`)),
      )
    })
    const { status, failed, temporary } = JSON.parse(stdout.trim().split('\n').at(-1) as string)
    expect(status).toBe('FINISHED')
    expect(failed).toBeGreaterThan(0)
    expect(temporary).toEqual([])
  }, 30_000)
})

describe('a damaged checkpoint', () => {
  /** A retained checkpoint on disk: its folder, and the file with the state of the count. */
  async function retained(): Promise<{ readonly folder: string; readonly file: string }> {
    const { master, end } = await runningJob({
      'execution.checkpointing.externalized-checkpoint-retention': 'RETAIN_ON_CANCELLATION',
    })
    const n = await master.triggerCheckpoint()
    await master.cancel()
    await end
    const [run] = await readdir(join(scene.checkpoints, 'job'))
    const folder = join(scene.checkpoints, 'job', run as string, `chk-${n}`)
    const file = (await readdir(folder)).find((name) => name.startsWith('count-0-keyed')) as string
    return { folder, file: join(folder, file) }
  }

  async function refusal(folder: string): Promise<unknown> {
    const master = await scene.start({
      declare: counting({ out: collectSink() }),
      config: FILES,
      ...from(folder),
    })
    const end = await master.run()
    expect(end.status).toBe('FAILED')
    return (end.error as { cause: unknown }).cause
  }

  test.each([
    ['cut short', (file: string) => truncate(file, 10)],
    ['with bytes at its end', (file: string) => appendFile(file, 'x')],
    [
      'with another byte in it',
      async (file: string) => {
        const bytes = await readFile(file)
        bytes[20]! ^= 1
        await writeFile(file, bytes)
      },
    ],
    ['gone', (file: string) => rm(file)],
  ])('%s is refused, by file, operator and key groups', async (_how, damage) => {
    const { folder, file } = await retained()
    await damage(file)
    expect(await refusal(folder)).toMatchObject({
      code: 'MILLRACE_STATE_LOST',
      message: expect.stringMatching(
        new RegExp(`^State of operator count, key groups \\d+–\\d+, is lost: '${file}'`),
      ),
    })
  })

  test('has metadata with a checksum', async () => {
    const { folder } = await retained()
    const path = join(folder, '_metadata')
    const text = await readFile(path, 'utf8')
    await writeFile(path, text.replace('"n":1', '"n":2'))
    await expect(openSnapshot(folder)).rejects.toMatchObject({
      code: 'MILLRACE_STATE_LOST',
      message: `'${path}' is damaged: its checksum does not match its content`,
    })
  })
})

describe('what a restart needs is never deleted first (case 40)', () => {
  /** A commit point whose answer never comes; it was written, or it was not. */
  type Fate = 'written' | 'not written'

  test.each([
    ['not written', 3],
    ['written', 3],
    ['not written', 4],
    ['written', 4],
  ] as const)(
    'a leader that dies at a commit point that was %s, the %ith, with one checkpoint retained',
    async (fate: Fate, nth) => {
      const out = collectSink<Count>()
      const brake = new Brake()
      brake.limit = 10
      const { store } = scene
      const commitPoint = store.commitPoint.bind(store)
      let left: number = nth
      store.commitPoint = async (checkpoint, offsets, forget) => {
        if (--left !== 0) return commitPoint(checkpoint, offsets, forget)
        brake.limit = Number.POSITIVE_INFINITY
        if (fate === 'written') await commitPoint(checkpoint, offsets, forget)
        return { type: 'unknown', reason: 'the answer did not come' }
      }
      const lost: string[] = []
      const master = await scene.start({
        declare: counting({ out, brake }),
        config: {
          ...FILES,
          ...RESTARTS,
          'execution.checkpointing.interval': '10 ms',
          'state.checkpoints.num-retained': 1,
        },
        storage: (storage) => ({
          ...storage,
          discard: async (handle) => {
            const { completed } = await store.takeOver()
            const named = completed.flatMap((each: CompletedCheckpoint) => handlesOf(each).map(storedName))
            if (named.includes(storedName(handle))) lost.push(JSON.stringify(handle))
            await storage.discard(handle)
          },
        }),
      })
      expect(await master.run()).toEqual({ status: 'FINISHED' })
      expect(lost).toEqual([])
      expect(left).toBeLessThanOrEqual(0)
      expect(written(out)).toEqual(allCounts())
    },
  )

  test('a finished job leaves nothing in the directory', async () => {
    const out = collectSink<Count>()
    await finish(scene, { declare: counting({ out }), config: FILES })
    expect(await files()).toEqual([])
  })
})
