/** Jobs with state in Redis whose latest checkpoint is a savepoint: what it is restored over stays until it is known to be whole. */
import { readdir, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { collectSink } from 'millrace'
import { finishSavepoint } from '../../../src/state/savepoint-folder.ts'
import {
  allCounts,
  type Count,
  counting,
  dieBehindSavepoint,
  finish,
  from,
  written,
} from '../../unit/runtime/savepoint-jobs.ts'
import { SavepointScene } from '../../unit/runtime/savepoint-scene.ts'
import { RedisScene } from './redis-scene.ts'

const config = {
  'state.backend': 'redis',
  'state.backend.redis.url': 'redis://unused',
  'state.backend.cache.max-bytes': '1 mb',
  'state.backend.fs.memory-threshold': '0 kb',
}
let redis: RedisScene
let scene: SavepointScene
beforeEach(async () => {
  redis = new RedisScene()
  scene = await SavepointScene.open()
})
afterEach(async () => {
  await scene.close()
  await redis.close()
})

/** A savepoint over checkpoint 1, without metadata, and what starts the job again. */
async function behindSavepoint() {
  const server = await redis.server({ appendonly: 'no' })
  const state = await redis.state(server.url, { persistence: 'any' })
  const before = collectSink<Count>()
  const path = await dieBehindSavepoint(scene, before, { config, redis: state })
  const [name] = (await readdir(path)).filter((file) => file.includes('count'))
  return { server, state, before, path, file: join(path, name!) }
}

test.each(['missing', 'damaged'])(
  'a savepoint with a file that is %s is lost state, and the checkpoint before it still restores',
  async (how) => {
    const { server, state, before, file } = await behindSavepoint()
    if (how === 'missing') await rm(file)
    else await truncate(file, 5)
    const keys = await server.keys('*:[1b]*')
    expect(keys).not.toEqual([])
    const after = collectSink<Count>()
    const job = { declare: counting({ out: after }), config, redis: state }
    await expect(finish(scene, job)).rejects.toMatchObject({
      cause: { code: 'MILLRACE_STATE_LOST', message: expect.stringContaining(file) },
    })
    expect(await server.keys('*:[1b]*')).toEqual(keys)
    await finish(scene, { ...job, restoreFrom: { type: 'checkpoint', n: 1 } })
    // What came after checkpoint 1 is written again, and nothing is missing.
    expect([...new Set(written(before, after))].sort()).toEqual(allCounts())
    expect(new Set(written(after)).size).toBe(written(after).length)
  },
  60_000,
)

test('a new run from a savepoint with a file that is missing leaves the run before it as it was', async () => {
  const { state, before, path, file } = await behindSavepoint()
  const { completed } = await scene.store.takeOver()
  await finishSavepoint(completed.at(-1)!, path)
  await rm(file)
  const after = collectSink<Count>()
  const job = { declare: counting({ out: after }), config, redis: state }
  await expect(finish(scene, { ...job, ...from(path) })).rejects.toMatchObject({
    cause: { code: 'MILLRACE_STATE_LOST', message: expect.stringContaining(file) },
  })
  await finish(scene, { ...job, restoreFrom: { type: 'checkpoint', n: 1 } })
  expect([...new Set(written(before, after))].sort()).toEqual(allCounts())
}, 60_000)
