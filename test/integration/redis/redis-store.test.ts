import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { RedisState } from '../../../src/state/redis-state.ts'
import { RedisProcess, SAFE } from './redis-process.ts'
import { everything, GROUPS, RedisScene, record, storeOf, timersOf, values } from './redis-scene.ts'

let server: RedisProcess
beforeAll(async () => {
  server = await RedisProcess.start(SAFE)
})
afterAll(() => server.stop())

let scene: RedisScene
let state: RedisState
beforeEach(async () => {
  await server.ask('FLUSHALL')
  scene = new RedisScene()
  state = await scene.state(server.url)
})
afterEach(() => scene.close())

const coded = (code: string, ...words: string[]) =>
  expect.objectContaining({
    code,
    message: expect.stringMatching(
      new RegExp(words.map((word) => word.replace(/[{}.]/g, '\\$&')).join('.*')),
    ),
  })
/** Keys of records, without the markers. */
const dataKeys = async () => (await server.keys()).filter((key) => !key.endsWith(':marker'))

describe('records in Redis', () => {
  test('are read from the newest segment that has them, then from the base', async () => {
    const store = await storeOf(state, 1)
    await store.write(1, [record('a', '1'), record('b', '1'), record('c', '1')])
    await store.seal(1, 1)
    await store.fold(1)
    await store.write(2, [record('b', '2')])
    await store.write(3, [record('c', '3'), record('d', '3')])
    expect(await values(store, ['d', 'c', 'b', 'a', 'none', 'a'])).toEqual(['3', '3', '2', '1', null, '1'])
  })

  test('of one key are what was written last, within a call and over several', async () => {
    const store = await storeOf(state, 1)
    await store.write(1, [record('a', '1', 't1'), record('a', '2')])
    await store.write(1, [record('b', '1', 't1')])
    await store.write(1, [record('b', '2')])
    await store.write(1, [record('c', '1'), record('c', null, 't2')])
    expect(await values(store, ['a', 'b', 'c'])).toEqual(['2', '2', null])
    expect(await timersOf(store)).toEqual({ c: 't2' })
  })

  test('that were removed hide older ones, and are gone from the base after the fold', async () => {
    const store = await storeOf(state, 1)
    await store.write(1, [record('a', '1', 't'), record('b', '1', 't')])
    await store.seal(1, 1)
    await store.fold(1)
    await store.write(2, [record('a', null), record('b', '2')])
    expect(await values(store, ['a', 'b'])).toEqual([null, '2'])
    expect(await timersOf(store)).toEqual({})
    await store.seal(2, 2)
    await store.fold(2)
    expect(await values(store, ['a', 'b'])).toEqual([null, '2'])
    expect(await timersOf(store)).toEqual({})
    expect(await everything(store, 2)).toEqual({ b: ['2', null] })
  })

  test('keep every byte, also values of no bytes and of zero bytes', async () => {
    const store = await storeOf(state, 1)
    const odd = ['', '\0', '\0\0', '\0a', 'a\0', '\u00ff'.repeat(300), 'x'.repeat(70_000)]
    await store.write(
      1,
      odd.map((value, i) => record(`k${i}`, value, i % 2 ? value : null)),
    )
    const names = odd.map((_, i) => `k${i}`)
    expect(await values(store, names)).toEqual(odd)
    await store.seal(1, 1)
    await store.fold(1)
    expect(await values(store, names)).toEqual(odd)
    expect(await everything(store, 1)).toEqual(
      Object.fromEntries(odd.map((value, i) => [`k${i}`, [value, i % 2 ? value : null]])),
    )
  })

  test('are scanned as they were at a segment, whatever was written since', async () => {
    const store = await storeOf(state, 1)
    await store.write(1, [record('a', '1'), record('b', '1', 't')])
    await store.seal(1, 1)
    await store.write(2, [record('a', '2'), record('c', '2')])
    await store.seal(2, 2)
    await store.write(3, [record('b', null), record('d', '3')])
    expect(await everything(store, 1)).toEqual({ a: ['1', null], b: ['1', 't'] })
    expect(await everything(store, 2)).toEqual({ a: ['2', null], b: ['1', 't'], c: ['2', null] })
  })

  test('of a segment that is written while a later one takes writes already come below it', async () => {
    const store = await storeOf(state, 1)
    await store.write(2, [record('a', 'new')])
    await store.write(1, [record('a', 'old'), record('b', 'old')])
    const first = await store.seal(1, 1)
    expect(await values(store, ['a', 'b'])).toEqual(['new', 'old'])
    const next = await storeOf(state, 2, [first])
    expect(await values(next, ['a', 'b'])).toEqual(['old', 'old'])
  })

  test('a sealed segment takes no write', async () => {
    const store = await storeOf(state, 1)
    await store.write(1, [record('a', '1')])
    await store.seal(1, 1)
    await expect(store.write(1, [record('a', '2')])).rejects.toThrow(coded('MILLRACE_INTERNAL', 'Segment 1'))
  })

  test('many of them fit into bounded commands, and a fold leaves only bases', async () => {
    const store = await storeOf(state, 1)
    const names = Array.from({ length: 5_000 }, (_, i) => `key-${i}`)
    await store.write(
      1,
      names.map((name) => record(name, `value of ${name}`, name.endsWith('7') ? 't' : null)),
    )
    await store.seal(1, 1)
    await store.fold(1)
    expect(await values(store, names)).toEqual(names.map((name) => `value of ${name}`))
    expect(Object.keys(await timersOf(store))).toHaveLength(500)
    expect((await dataKeys()).map((key) => key.split(':').at(-1))).toEqual(
      Array.from({ length: GROUPS }, () => ['base', 'base-timers']).flat(),
    )
    expect(store.bytes).toBeGreaterThan(50_000)
  })
})

describe('the next attempt', () => {
  test('has exactly the state of the checkpoint, and what was written after it is removed', async () => {
    const first = await storeOf(state, 1)
    await first.write(1, [record('a', '1', 't'), record('b', '1')])
    const handle = await first.seal(1, 1)
    await first.write(2, [record('a', '2'), record('c', '2', 't')])
    await first.seal(2, 2)
    const second = await storeOf(state, 2, [handle])
    expect(await everything(second, 0)).toEqual({ a: ['1', 't'], b: ['1', null] })
    expect(await timersOf(second)).toEqual({ a: 't' })
    expect(await values(second, ['a', 'c'])).toEqual(['1', null])
    expect((await dataKeys()).filter((key) => key.includes(':1.2.'))).toEqual([])
    expect((await dataKeys()).filter((key) => key.includes(':1.1.'))).not.toEqual([])
  })

  test('goes on from a base that has moved within the checkpoint', async () => {
    const first = await storeOf(state, 1)
    await first.write(1, [record('a', '1'), record('b', '1')])
    await first.seal(1, 1)
    await first.write(2, [record('a', '2')])
    const handle = await first.seal(2, 2)
    await first.fold(1)
    const second = await storeOf(state, 2, [handle])
    expect(await values(second, ['a', 'b'])).toEqual(['2', '1'])
    await first.close()
    await second.fold(0)
    expect(await values(second, ['a', 'b'])).toEqual(['2', '1'])
    await second.write(1, [record('b', '3')])
    const third = await storeOf(state, 3, [await second.seal(1, 3)])
    expect(await everything(third, 0)).toEqual({ a: ['2', null], b: ['3', null] })
  })

  test('refuses a checkpoint that the base has moved beyond', async () => {
    const store = await storeOf(state, 1)
    await store.write(1, [record('a', '1')])
    const old = await store.seal(1, 1)
    await store.write(2, [record('a', '2')])
    await store.seal(2, 2)
    await store.fold(2)
    await expect(storeOf(state, 2, [old])).rejects.toThrow(
      coded('MILLRACE_STATE_LOST', "operator 'count'", "the base should hold segment '' and holds '1.2.0'"),
    )
  })

  test('whose checkpoint has nothing in Redis begins empty, whatever is there', async () => {
    const store = await storeOf(state, 1)
    await store.write(1, [record('a', '1', 't')])
    await store.seal(1, 1)
    await store.fold(1)
    await store.write(2, [record('b', '2')])
    await store.seal(2, 2)
    const next = await storeOf(state, 2, [])
    expect(await everything(next, 0)).toEqual({})
    expect(await values(next, ['a', 'b'])).toEqual([null, null])
    expect(await dataKeys()).toEqual([])
  })

  test('may have another parallelism: each key group moves by itself', async () => {
    const one = await storeOf(state, 1)
    const names = Array.from({ length: 40 }, (_, i) => `k${i}`)
    await one.write(
      1,
      names.map((name) => record(name, name)),
    )
    const handle = await one.seal(1, 1)
    const [left, right] = [
      await storeOf(state, 2, [handle], { range: [0, 1] }),
      await storeOf(state, 2, [handle], { range: [2, 3] }),
    ]
    await left.write(
      1,
      names.flatMap((name) => (record(name, null).keyGroup < 2 ? record(name, 'left') : [])),
    )
    const handles = [await left.seal(1, 2), await right.seal(1, 2)]
    const again = await storeOf(state, 3, handles)
    expect(await values(again, names)).toEqual(
      names.map((name) => (record(name, null).keyGroup < 2 ? 'left' : name)),
    )
  })

  test('of another run gets a copy, and the other run keeps its own', async () => {
    const old = await storeOf(state, 9)
    await old.write(1, [record('a', '1', 't'), record('b', '1')])
    await old.seal(1, 1)
    await old.fold(1)
    await old.write(2, [record('b', null), record('c', '2')])
    const handle = await old.seal(2, 2)
    const fresh = await storeOf(state, 1, [handle], { run: 'run-2', operator: 'renamed' })
    expect(await everything(fresh, 0)).toEqual({ a: ['1', 't'], c: ['2', null] })
    await fresh.write(1, [record('a', 'mine')])
    const copy = await fresh.seal(1, 1)
    const next = await storeOf(state, 2, [copy], { run: 'run-2', operator: 'renamed' })
    expect(await everything(next, 0)).toEqual({ a: ['mine', null], c: ['2', null] })
    expect(await everything(old, 2)).toEqual({ a: ['1', 't'], c: ['2', null] })
  })
})

describe('the owner of the state', () => {
  test('is the newest attempt: an older one can neither write, seal, fold nor come back', async () => {
    const old = await storeOf(state, 1)
    await old.write(1, [record('a', '1')])
    const handle = await old.seal(1, 1)
    await old.write(2, [record('a', '2')])
    const other = await scene.state(server.url)
    const present = await storeOf(other, 2, [handle])
    await present.write(1, [record('a', 'mine')])
    const before = await server.ask('DEBUG', 'DIGEST')
    const ousted = coded('MILLRACE_ATTEMPT_LOST', 'attempt 1 does not own', 'attempt 2 does')
    await expect(old.write(2, [record('b', 'zombie')])).rejects.toThrow(ousted)
    await expect(old.write(3, [record('b', 'zombie')])).rejects.toThrow(ousted)
    await expect(old.seal(2, 2)).rejects.toThrow(ousted)
    await expect(old.fold(1)).rejects.toThrow(ousted)
    // What it wrote after the checkpoint is gone, and it is told why.
    await expect(values(old, ['a'])).rejects.toThrow(ousted)
    await expect(storeOf(state, 1, [handle])).rejects.toThrow(ousted)
    expect(await server.ask('DEBUG', 'DIGEST')).toEqual(before)
    expect(await values(present, ['a', 'b'])).toEqual(['mine', null])
  })

  test('is one of two that race, whichever is newer', async () => {
    const handle = await (async () => {
      const store = await storeOf(state, 1)
      await store.write(1, [record('a', '1')])
      return store.seal(1, 1)
    })()
    for (let round = 0; round < 5; round++) {
      const attempts = [2 * round + 2, 2 * round + 3]
      const stores = await Promise.allSettled(attempts.map((attempt) => storeOf(state, attempt, [handle])))
      const results = await Promise.allSettled(
        stores.map(async (store) => {
          if (store.status === 'rejected') throw store.reason
          // Every key group, so that a race that was half won shows.
          await store.value.write(
            1,
            Array.from({ length: 30 }, (_, i) => record(`k${i}`, '2')),
          )
        }),
      )
      expect(results[1]).toMatchObject({ status: 'fulfilled' })
      expect(results[0]).toMatchObject({ status: 'rejected', reason: { code: 'MILLRACE_ATTEMPT_LOST' } })
    }
  })

  test('two workers with one attempt number are told apart', async () => {
    await storeOf(state, 1)
    await expect(storeOf(state, 1)).rejects.toThrow(coded('MILLRACE_ATTEMPT_LOST'))
  })
})

describe('state that is discarded', () => {
  test('is gone, all of it, and a store that is still open ends', async () => {
    const store = await storeOf(state, 1)
    await store.write(1, [record('a', '1', 't'), record('b', '1')])
    await store.seal(1, 1)
    await store.fold(1)
    await store.write(2, [record('a', '2')])
    const neighbour = await scene.state(server.url, { job: 'job-2' })
    await (await storeOf(neighbour, 1)).write(1, [record('a', 'theirs')])
    const theirs = (await server.keys()).filter((key) => key.includes('job-2'))
    await storeOf(state, 1, [], { run: 'run-2' })
    await state.discard('run-2')
    expect((await server.keys()).filter((key) => key.includes('run-2'))).toEqual([])
    expect(await state.discard()).toBeGreaterThan(GROUPS)
    expect(await server.keys()).toEqual(theirs)
    await expect(store.write(2, [record('a', '3')])).rejects.toThrow(coded('MILLRACE_REDIS_WRITES_LOST'))
    expect(await server.keys()).toEqual(theirs)
  })
})
