import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import type { RedisScript } from '../../../src/state/redis-scripts.ts'
import { type Fate, faultyConnection, storeOver } from './faulty-connection.ts'
import { type RedisProcess, SAFE, until } from './redis-process.ts'
import { everything, RedisScene, record, storeOf, values } from './redis-scene.ts'

const TIMEOUT = 60_000
let scene: RedisScene
beforeEach(() => {
  scene = new RedisScene()
})
afterEach(() => scene.close())

describe('what is missing in Redis is lost state, not empty state', () => {
  /** A base and two segments, timers in each. */
  async function prepared(server: RedisProcess) {
    const state = await scene.state(server.url)
    const store = await storeOf(state, 1)
    const names = Array.from({ length: 60 }, (_, i) => `k${i}`)
    for (const segment of [1, 2, 3]) {
      await store.write(
        segment,
        names.map((name) => record(name, `v${segment}`, `t${segment}`)),
      )
      if (segment < 3) await store.seal(segment, segment)
    }
    const handle = await store.seal(3, 3)
    await store.fold(1)
    return { state, store, handle, names }
  }

  test.each(['marker', 'base', 'base-timers', '1.2.0', '1.2.0-timers', '1.3.0', '1.3.0-timers'])(
    'the key %s, deleted by hand, is found at the restore and named',
    async (part) => {
      const server = await scene.server()
      const { state, handle } = await prepared(server)
      const key = (await server.keys()).find((name) => name.endsWith(`/2}:${part}`))!
      await server.ask('DEL', key)
      await expect(storeOf(state, 2, [handle])).rejects.toMatchObject({
        code: 'MILLRACE_STATE_LOST',
        message: expect.stringContaining(`'${key}'`),
        details: { keyGroup: 2, operator: 'count' },
      })
    },
    TIMEOUT,
  )

  test(
    'one record, deleted by hand, is found as well',
    async () => {
      const server = await scene.server()
      const { state, handle } = await prepared(server)
      for (const part of ['base', '1.3.0']) {
        const key = (await server.keys()).find((name) => name.endsWith(`/1}:${part}`))!
        const [field, value] = (await server.ask('HRANDFIELD', key, 1, 'WITHVALUES')) as string[]
        await server.ask('HDEL', key, field!)
        await expect(storeOf(state, part === 'base' ? 2 : 3, [handle])).rejects.toMatchObject({
          code: 'MILLRACE_STATE_LOST',
          message: expect.stringContaining(`'${key}'`),
        })
        await server.ask('HSET', key, field!, value!)
      }
      expect(Object.keys(await everything(await storeOf(state, 4, [handle]), 0))).toHaveLength(60)
    },
    TIMEOUT,
  )

  test(
    'an empty server is lost state, too',
    async () => {
      const server = await scene.server()
      const { state, handle } = await prepared(server)
      await server.ask('FLUSHALL')
      await expect(storeOf(state, 2, [handle])).rejects.toMatchObject({ code: 'MILLRACE_STATE_LOST' })
      expect(await server.keys()).toEqual([])
    },
    TIMEOUT,
  )

  test(
    'a running attempt notices it when it reads, writes, folds or seals',
    async () => {
      const server = await scene.server()
      const { store, names } = await prepared(server)
      await store.write(4, [record('k1', 'v4')])
      await server.ask('FLUSHALL')
      const lost = { code: expect.stringMatching(/^MILLRACE_(STATE_LOST|REDIS_WRITES_LOST)$/) }
      await expect(values(store, names)).rejects.toMatchObject(lost)
      await expect(store.write(4, [record('k1', 'v5')])).rejects.toMatchObject(lost)
      await expect(store.fold(2)).rejects.toMatchObject(lost)
      await expect(store.seal(4, 4)).rejects.toMatchObject(lost)
    },
    TIMEOUT,
  )

  test(
    'a short segment is not folded',
    async () => {
      const server = await scene.server()
      const { store } = await prepared(server)
      const key = (await server.keys()).find((name) => name.endsWith('/0}:1.2.0'))!
      await server.ask('HDEL', key, ((await server.ask('HKEYS', key)) as string[])[0]!)
      await expect(store.fold(2)).rejects.toMatchObject({
        code: 'MILLRACE_STATE_LOST',
        message: expect.stringContaining(key),
      })
      expect(await server.ask('EXISTS', key)).toBe(1)
    },
    TIMEOUT,
  )
})

describe('what goes missing while an attempt runs is lost, and never read as if it had not been written', () => {
  const names = Array.from({ length: 40 }, (_, i) => `k${i}`)
  const others = Array.from({ length: 200 }, (_, i) => `other-${i}`)
  const lost = { code: expect.stringMatching(/^MILLRACE_(STATE_LOST|REDIS_WRITES_LOST)$/) }
  const rows = (some: readonly string[], value: string) => some.map((name) => record(name, value, 't'))

  /** A base with all names, a sealed segment with the second half of them, an open one with the last quarter. */
  async function running() {
    const server = await scene.server({ appendonly: 'no' })
    const store = await storeOf(await scene.state(server.url, { persistence: 'any' }), 1)
    await store.write(1, rows(names, 'base'))
    await store.seal(1, 1)
    await store.fold(1)
    await store.write(2, rows(names.slice(20), 'sealed'))
    await store.seal(2, 2)
    await store.write(3, rows(names.slice(30), 'open'))
    /** Removes a hash of each key group, or one record of each. */
    const damage = async (part: string, whole: boolean) => {
      for (const key of (await server.keys()).filter((name) => name.endsWith(`}:${part}`)))
        if (whole) await server.ask('DEL', key)
        else await server.ask('HDEL', key, ((await server.ask('HKEYS', key)) as string[])[0]!)
    }
    return { server, store, damage }
  }

  const expected = names.map((_, i) => (i < 20 ? 'base' : i < 30 ? 'sealed' : 'open'))

  test.each([
    ['base', true, 'MILLRACE_STATE_LOST'],
    ['base', false, 'MILLRACE_STATE_LOST'],
    ['1.2.0', true, 'MILLRACE_REDIS_WRITES_LOST'],
    ['1.2.0', false, 'MILLRACE_REDIS_WRITES_LOST'],
    ['1.3.0', true, 'MILLRACE_REDIS_WRITES_LOST'],
    ['1.3.0', false, 'MILLRACE_REDIS_WRITES_LOST'],
  ])(
    'read from %s (all of it: %s)',
    async (part, whole, code) => {
      const { store, damage } = await running()
      expect(await values(store, names)).toEqual(expected)
      await damage(part, whole)
      const answers = names.map((name) =>
        values(store, [name]).catch((error: unknown) => {
          expect(error).toMatchObject({ code })
          return [undefined]
        }),
      )
      const found = (await Promise.all(answers)).flat()
      for (const [i, value] of found.entries()) expect([undefined, expected[i]]).toContain(value)
      expect(found).toContain(undefined)
      await expect(values(store, names)).rejects.toMatchObject({ code })
    },
    TIMEOUT,
  )

  test.each([
    ['base', true],
    ['base', false],
    ['base-timers', true],
    ['base-timers', false],
    ['1.2.0', false],
    ['1.2.0-timers', false],
  ])(
    'folded from or into %s (all of it: %s), which is not made anew',
    async (part, whole) => {
      const { server, store, damage } = await running()
      await damage(part, whole)
      const before = await server.keys()
      await expect(store.fold(2)).rejects.toMatchObject({ code: 'MILLRACE_STATE_LOST' })
      expect(await server.keys()).toEqual(before)
      await expect(store.fold(2)).rejects.toMatchObject({ code: 'MILLRACE_STATE_LOST' })
    },
    TIMEOUT,
  )

  test.each([
    ['1.3.0', true],
    ['1.3.0', false],
    ['1.3.0-timers', true],
    ['1.3.0-timers', false],
  ])(
    'written to %s (all of it: %s), though more comes than there was',
    async (part, whole) => {
      const { server, store, damage } = await running()
      await damage(part, whole)
      const before = await server.keys()
      await expect(store.write(3, rows(others, 'more'))).rejects.toMatchObject(lost)
      expect(await server.keys()).toEqual(before)
      await expect(store.seal(3, 3)).rejects.toMatchObject(lost)
    },
    TIMEOUT,
  )

  test.each([
    ['base', true, 'MILLRACE_STATE_LOST'],
    ['base', false, 'MILLRACE_STATE_LOST'],
    ['base-timers', true, 'MILLRACE_STATE_LOST'],
    ['1.2.0', true, 'MILLRACE_REDIS_WRITES_LOST'],
    ['1.2.0', false, 'MILLRACE_REDIS_WRITES_LOST'],
    ['1.3.0-timers', true, 'MILLRACE_REDIS_WRITES_LOST'],
  ])(
    'read through in %s (all of it: %s)',
    async (part, whole, code) => {
      const { store, damage } = await running()
      expect(Object.keys(await everything(store, 3))).toHaveLength(40)
      await damage(part, whole)
      await expect(everything(store, 3)).rejects.toMatchObject({ code })
    },
    TIMEOUT,
  )

  test(
    'and a write whose answer is lost does not hide it from the seal',
    async () => {
      const server = await scene.server({ appendonly: 'no' })
      let fate: Fate = 'done'
      const connection = await faultyConnection(server.url, scene.log, (script) =>
        script === 'write' ? fate : 'done',
      )
      const store = await storeOver(connection, scene.log, 1)
      const same = Array.from({ length: 9 }, (_, i) => ({ ...record(`n${i}`, '1'), keyGroup: 1 }))
      await store.write(1, same.slice(0, 3))
      fate = 'unanswered'
      await expect(store.write(1, same)).rejects.toMatchObject({ code: 'MILLRACE_REDIS_UNAVAILABLE' })
      const key = (await server.keys()).find((name) => name.endsWith('/1}:1.1.0'))!
      expect(await server.ask('HLEN', key)).toBe(9)
      await server.ask('HDEL', key, 'n1')
      await expect(store.seal(1, 1)).rejects.toMatchObject({ code: 'MILLRACE_REDIS_WRITES_LOST' })
      await connection.close()
    },
    TIMEOUT,
  )
})

describe('another server that answers in the middle', () => {
  const names = Array.from({ length: 40 }, (_, i) => `k${i}`)
  const rows = (value: string) => names.map((name) => record(name, value, 't'))

  /** A store with two checkpoints' worth; the first answer to `script` is followed by a hand-over to a server that lacks `lacks`. */
  async function handingOver(script: RedisScript, lacks?: string) {
    const server = await scene.server({ appendonly: 'no' })
    const scripts: RedisScript[] = []
    let armed = false
    const connection = await faultyConnection(server.url, scene.log, async (each): Promise<Fate> => {
      scripts.push(each)
      if (each === script && armed) {
        armed = false
        return 'handed over'
      }
      if (each === 'inspect' && lacks !== undefined)
        for (const key of await server.keys(`*}:${lacks}`)) await server.ask('DEL', key)
      return 'done'
    })
    const store = await storeOver(connection, scene.log, 1)
    await store.write(1, rows('1'))
    await store.seal(1, 1)
    await store.write(2, rows('2'))
    scripts.length = 0
    armed = true
    return { connection, store, scripts }
  }

  test(
    'does not make a seal durable by having nothing to wait for: what was closed is compared, and closed again',
    async () => {
      const { connection, store, scripts } = await handingOver('seal')
      await store.seal(2, 2)
      expect([scripts[0], scripts.includes('inspect'), scripts.at(-1)]).toEqual(['seal', true, 'seal'])
      await connection.close()
      const lagging = await handingOver('seal', '1.2.0')
      await expect(lagging.store.seal(2, 2)).rejects.toMatchObject({ code: 'MILLRACE_REDIS_WRITES_LOST' })
      await lagging.connection.close()
    },
    TIMEOUT,
  )

  test(
    'is compared before what it answered to a load is taken for the newest',
    async () => {
      const { connection, store } = await handingOver('load')
      expect(await values(store, names)).toEqual(names.map(() => '2'))
      await connection.close()
      const lagging = await handingOver('load', '1.2.0')
      await expect(values(lagging.store, names)).rejects.toMatchObject({ code: 'MILLRACE_REDIS_WRITES_LOST' })
      await lagging.connection.close()
    },
    TIMEOUT,
  )

  test(
    'ends a scan, whose pages may lack what it lacks',
    async () => {
      const { connection, store } = await handingOver('scan')
      await expect(everything(store, 2)).rejects.toMatchObject({ code: 'MILLRACE_REDIS_UNAVAILABLE' })
      expect(Object.keys(await everything(store, 2))).toHaveLength(40)
      await connection.close()
    },
    TIMEOUT,
  )
})

describe('a server that is killed', () => {
  const names = Array.from({ length: 3_000 }, (_, i) => `k${i}`)
  const rows = (count: number, value: string) => names.slice(0, count).map((name) => record(name, value, 't'))

  test(
    'has all that was acknowledged when each write is synced, and the attempt goes on',
    async () => {
      const server = await scene.server(SAFE)
      const state = await scene.state(server.url, { timeoutMs: 20_000 })
      const store = await storeOf(state, 1)
      await store.write(1, rows(3_000, 'v1'))
      const handle = await store.seal(1, 1)
      // Folding and writing are under way when it dies; both go on when it is back.
      const folding = store.fold(1)
      const writing = store.write(2, rows(1_000, 'v2'))
      await server.kill()
      const reading = values(store, names)
      await server.restart()
      await Promise.all([folding, writing])
      expect((await reading).every((value) => value === 'v1' || value === 'v2')).toBe(true)
      const expected = names.map((_, i) => (i < 1_000 ? 'v2' : 'v1'))
      expect(await values(store, names)).toEqual(expected)
      const next = await storeOf(state, 2, [await store.seal(2, 2)])
      expect(await values(next, names)).toEqual(expected)
      await expect(storeOf(state, 3, [handle])).resolves.toBeDefined()
    },
    TIMEOUT,
  )

  test(
    'has it all, or says what it lost, when writes are synced once a second',
    async () => {
      const server = await scene.server({ ...SAFE, appendfsync: 'everysec' })
      for (let round = 1; round <= 3; round++) {
        const state = await scene.state(server.url, { persistence: 'any', timeoutMs: 20_000 })
        const run = `run-${round}`
        const store = await storeOf(state, 1, [], { run })
        await store.write(1, rows(3_000, 'v1'))
        await store.seal(1, 1)
        await store.write(2, rows(1_000, 'v2'))
        const handle = await store.seal(2, 2)
        await server.kill()
        await server.restart()
        const lost = { code: expect.stringMatching(/STATE_LOST|WRITES_LOST/) }
        const read = await values(store, names).catch((error: unknown) => expect(error).toMatchObject(lost))
        const next = await storeOf(state, 2, [handle], { run }).catch((error: unknown) => {
          expect(error).toMatchObject(lost)
        })
        const expected = names.map((_, i) => (i < 1_000 ? 'v2' : 'v1'))
        if (read !== undefined) expect(read).toEqual(expected)
        if (next !== undefined) expect(await values(next, names)).toEqual(expected)
      }
    },
    TIMEOUT,
  )
})

describe('a primary that is lost', () => {
  async function pair(): Promise<{ primary: RedisProcess; replica: RedisProcess; url: string }> {
    const primary = await scene.server({ ...SAFE })
    const replica = await scene.server({ ...SAFE, replicaof: `127.0.0.1 ${primary.port}` })
    await until('the replica is in step', async () =>
      /master_link_status:up/.test(String(await replica.ask('INFO', 'replication'))),
    )
    const sentinel = await scene.server(
      {
        'sentinel monitor it': `127.0.0.1 ${primary.port} 1`,
        'sentinel down-after-milliseconds it': '500',
        'sentinel failover-timeout it': '2000',
      },
      ['--sentinel'],
    )
    await until('Sentinel knows the replica', async () =>
      String(await sentinel.ask('SENTINEL', 'replicas', 'it')).includes(String(replica.port)),
    )
    return { primary, replica, url: `redis+sentinel://127.0.0.1:${sentinel.port}/it` }
  }

  test(
    'is replaced by a replica that has all that was acknowledged, and the attempt goes on',
    async () => {
      const { primary, url } = await pair()
      const state = await scene.state(url, { persistence: 'replicas', timeoutMs: 20_000 })
      const store = await storeOf(state, 1)
      await store.write(1, [record('a', '1'), record('b', '1')])
      await store.seal(1, 1)
      await primary.kill()
      await store.write(2, [record('a', '2')])
      expect(await values(store, ['a', 'b'])).toEqual(['2', '1'])
      // Nobody is left to have a copy: the checkpoint fails, and the state is still there.
      await expect(store.seal(2, 2)).rejects.toMatchObject({
        code: 'MILLRACE_REDIS_NOT_DURABLE',
        message: expect.stringContaining('0 of 1 replicas'),
      })
      await primary.restart()
      const handle = await store.seal(2, 3)
      expect(await everything(await storeOf(state, 2, [handle]), 0)).toEqual({
        a: ['2', null],
        b: ['1', null],
      })
    },
    TIMEOUT,
  )

  test(
    'to a replica that lags costs the attempt, and never shows older state as if it were the newest',
    async () => {
      const { primary, replica, url } = await pair()
      const state = await scene.state(url, { persistence: 'any', timeoutMs: 20_000 })
      const store = await storeOf(state, 1)
      await store.write(1, [record('a', '1'), record('b', '1')])
      const kept = await store.seal(1, 1)
      await until('the replica is in step', async () => (await primary.ask('WAIT', 1, 1_000)) === 1)
      await replica.kill()
      // Only a value changes: by the numbers of records both servers hold the same.
      await store.write(2, [record('a', '2')])
      await store.write(2, [record('a', '3')])
      const gone = await store.seal(2, 2)
      await primary.kill()
      await replica.restart()
      await expect(values(store, ['a'])).rejects.toMatchObject({ code: 'MILLRACE_REDIS_WRITES_LOST' })
      await expect(storeOf(state, 2, [gone])).rejects.toMatchObject({ code: 'MILLRACE_STATE_LOST' })
      expect(await everything(await storeOf(state, 3, [kept]), 0)).toEqual({ a: ['1', null], b: ['1', null] })
    },
    TIMEOUT,
  )

  test(
    'that became a replica refuses writes, and the attempt finds the new one',
    async () => {
      const { primary, replica, url } = await pair()
      const state = await scene.state(url, { persistence: 'any', timeoutMs: 20_000 })
      const store = await storeOf(state, 1)
      await store.write(1, [record('a', '1')])
      await until('the replica is in step', async () => (await primary.ask('WAIT', 1, 1_000)) === 1)
      await replica.ask('REPLICAOF', 'NO', 'ONE')
      await primary.ask('REPLICAOF', '127.0.0.1', replica.port)
      const direct = await scene.state(primary.url, { persistence: 'any', timeoutMs: 500 })
      await expect(storeOf(direct, 2)).rejects.toMatchObject({
        code: 'MILLRACE_REDIS_UNAVAILABLE',
        message: expect.stringMatching(/READONLY|no answer/),
      })
    },
    TIMEOUT,
  )
})
