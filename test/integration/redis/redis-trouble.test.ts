import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { SAFE, until } from './redis-process.ts'
import { RedisScene, record, storeOf, values } from './redis-scene.ts'

const TIMEOUT = 60_000
let scene: RedisScene
beforeEach(() => {
  scene = new RedisScene()
})
afterEach(() => scene.close())

describe('a server that would lose state is refused', () => {
  test.each(['allkeys-lru', 'volatile-ttl'])(
    'maxmemory-policy %s',
    async (policy) => {
      const server = await scene.server({ ...SAFE, 'maxmemory-policy': policy, maxmemory: '10mb' })
      await expect(scene.state(server.url)).rejects.toMatchObject({
        code: 'MILLRACE_REDIS_REFUSED',
        message: expect.stringMatching(`maxmemory-policy ${policy}.*noeviction`),
      })
    },
    TIMEOUT,
  )

  test(
    'no append-only file, or one that is synced after the answer, unless weaker persistence is allowed',
    async () => {
      const none = await scene.server({})
      await expect(scene.state(none.url)).rejects.toMatchObject({
        code: 'MILLRACE_REDIS_REFUSED',
        message: expect.stringMatching('appendonly yes.*state.backend.redis.persistence'),
      })
      await scene.state(none.url, { persistence: 'any' })
      expect(scene.log.warnings.join()).toMatch(/may lose completed checkpoints.*no append-only file/)
      const lazy = await scene.server({ ...SAFE, appendfsync: 'everysec' })
      const opened = scene.state(lazy.url)
      const version = /redis_version:(\d+)\.(\d+)/.exec(String(await lazy.ask('INFO', 'server')))!
      if (Number(version[1]) * 100 + Number(version[2]) >= 702) await opened
      else
        await expect(opened).rejects.toMatchObject({
          code: 'MILLRACE_REDIS_REFUSED',
          message: expect.stringContaining('appendfsync everysec'),
        })
    },
    TIMEOUT,
  )

  test(
    'behind Sentinel a checkpoint that waits for one disk only is warned of; with aof-and-replicas it waits for both',
    async () => {
      const server = await scene.server(SAFE)
      const sentinel = await scene.server({ 'sentinel monitor it': `127.0.0.1 ${server.port} 1` }, [
        '--sentinel',
      ])
      const url = `redis+sentinel://127.0.0.1:${sentinel.port}/it`
      const both = await scene.state(url, { persistence: 'aof-and-replicas', timeoutMs: 1_000 })
      expect(scene.log.warnings).toEqual([])
      const store = await storeOf(both, 1)
      await store.write(1, [record('a', '1')])
      await expect(store.seal(1, 1)).rejects.toMatchObject({
        code: 'MILLRACE_REDIS_NOT_DURABLE',
        message: expect.stringContaining('0 of 1 replicas'),
      })
      await scene.state(url)
      expect(scene.log.warnings.join()).toMatch(
        /in a failover.*a replica that lags may take over.*aof-and-replicas/,
      )
      const none = await scene.server({})
      await expect(scene.state(none.url, { persistence: 'aof-and-replicas' })).rejects.toMatchObject({
        code: 'MILLRACE_REDIS_REFUSED',
      })
    },
    TIMEOUT,
  )

  test(
    'a user with the rights of the guide is enough, and what it may not ask is said',
    async () => {
      const server = await scene.server(SAFE)
      const rights =
        '~millrace:* resetchannels +eval +evalsha +hset +hget +hmget +hdel +hlen +hexists +hgetall +hincrby +hscan +exists +unlink +scan +info +ping +wait +waitaof'.split(
          ' ',
        )
      const known = rights.filter((right) => right !== '+waitaof')
      await server.ask('ACL', 'SETUSER', 'mill', 'on', '>s3cret', ...known)
      const url = `redis://mill:s3cret@127.0.0.1:${server.port}`
      const state = await scene.state(url)
      expect(scene.log.warnings.join()).toContain('could not check appendfsync')
      const store = await storeOf(state, 1)
      await store.write(1, [record('a', '1', 't')])
      await store.seal(1, 1)
      await store.fold(1)
      expect(await values(store, ['a'])).toEqual(['1'])
      expect(await state.discard()).toBeGreaterThan(0)
    },
    TIMEOUT,
  )

  test(
    'a wrong password is told from a server that is away, and is not repeated in the message',
    async () => {
      const server = await scene.server({ ...SAFE, requirepass: 'right' })
      for (const login of [':wr0ng@', 'nobody:wr0ng@', '']) {
        const refused = await scene.state(`redis://${login}127.0.0.1:${server.port}`).catch((error) => error)
        expect(refused).toMatchObject({ code: 'MILLRACE_REDIS_REFUSED' })
        expect(JSON.stringify([refused, refused.message, scene.log.warnings])).not.toContain('wr0ng')
      }
      await server.kill()
      const away = await scene
        .state(`redis://:right@127.0.0.1:${server.port}`, { timeoutMs: 500 })
        .catch((e) => e)
      expect(away).toMatchObject({
        code: 'MILLRACE_REDIS_UNAVAILABLE',
        retriable: true,
        message: expect.stringContaining(`127.0.0.1:${server.port}`),
      })
    },
    TIMEOUT,
  )
})

describe('a server in trouble', () => {
  test(
    'that is full fails the write, keeps the state, and goes on when it has room',
    async () => {
      const server = await scene.server({ ...SAFE, appendfsync: 'no', maxmemory: '10mb' })
      const state = await scene.state(server.url, { persistence: 'any' })
      const store = await storeOf(state, 1)
      await store.write(1, [record('first', '1', 't')])
      await store.seal(1, 1)
      const big = 'x'.repeat(1_000)
      const names = Array.from({ length: 20_000 }, (_, i) => `k${i}`)
      const all = names.map((name) => record(name, big))
      await expect(store.write(2, all)).rejects.toMatchObject({
        code: 'MILLRACE_REDIS_FULL',
        retriable: true,
        message: expect.stringContaining('maxmemory'),
      })
      expect(await values(store, ['first'])).toEqual(['1'])
      // What is there can be sealed and folded while it is full.
      await store.seal(2, 2)
      await store.fold(1)
      expect(await values(store, ['first'])).toEqual(['1'])
      await server.ask('CONFIG', 'SET', 'maxmemory', '100mb')
      await store.write(3, all)
      const next = await storeOf(state, 2, [await store.seal(3, 3)])
      expect(new Set(await values(next, names))).toEqual(new Set([big]))
      expect(await values(next, ['first'])).toEqual(['1'])
    },
    TIMEOUT,
  )

  test(
    'that is loading fails what cannot wait, and answers what can',
    async () => {
      const server = await scene.server({ ...SAFE })
      const patient = await storeOf(await scene.state(server.url, { timeoutMs: 30_000 }), 1)
      const names = Array.from({ length: 1_500 }, (_, i) => `k${i}`)
      for (const name of names) await patient.write(1, [record(name, '1')])
      await server.kill()
      // Microseconds a command; while it loads it looks at its connections every 1,024 commands.
      await server.restart({ 'key-load-delay': '1000' })
      const hasty = await scene.state(server.url, { timeoutMs: 300 }).catch((error) => error)
      expect(hasty).toMatchObject({ code: 'MILLRACE_REDIS_UNAVAILABLE', retriable: true })
      expect(await values(patient, names)).toEqual(names.map(() => '1'))
    },
    TIMEOUT,
  )

  test(
    'that hangs fails commands in time, and what comes late changes nothing',
    async () => {
      const server = await scene.server(SAFE)
      const state = await scene.state(server.url, { timeoutMs: 700 })
      const store = await storeOf(state, 1)
      await store.write(1, [record('a', '1'), record('b', '1')])
      server.signal('SIGSTOP')
      const began = performance.now()
      const hung = {
        code: 'MILLRACE_REDIS_UNAVAILABLE',
        // The client watches its socket for the same time, and whichever timer fires first has the word.
        message: expect.stringMatching(
          /no answer in 700 ms|Socket timeout|Connection is closed|max retries per request/,
        ),
      }
      await Promise.all([
        expect(store.write(1, [record('a', 'late'), record('c', 'late')])).rejects.toMatchObject(hung),
        expect(values(store, ['a'])).rejects.toMatchObject(hung),
      ])
      expect(performance.now() - began).toBeLessThan(5_000)
      server.signal('SIGCONT')
      await until('it answers again', () =>
        values(store, ['b']).then(
          ([value]) => value === '1',
          () => false,
        ),
      )
      await store.write(1, [record('a', 'new'), record('b', 'new'), record('c', 'new')])
      const next = await storeOf(state, 2, [await store.seal(1, 1)])
      expect(await values(next, ['a', 'b', 'c'])).toEqual(['new', 'new', 'new'])
    },
    TIMEOUT,
  )

  test(
    'is not waited for any more when the job has let go of its state',
    async () => {
      const server = await scene.server(SAFE)
      const state = await scene.state(server.url, { timeoutMs: 20_000 })
      const store = await storeOf(state, 1)
      server.signal('SIGSTOP')
      const began = performance.now()
      const write = store.write(1, [record('a', '1')]).catch((error: unknown) => error)
      await state.close()
      for (const end of [write, store.write(1, [record('b', '1')]).catch((error: unknown) => error)])
        expect(await end).toMatchObject({ code: 'MILLRACE_REDIS_UNAVAILABLE' })
      expect(performance.now() - began).toBeLessThan(5_000)
      server.signal('SIGCONT')
    },
    TIMEOUT,
  )
})

describe('no command holds the server up', () => {
  test('while 200,000 records are written, read, folded and scanned', async () => {
    const server = await scene.server({ appendonly: 'no' })
    const state = await scene.state(server.url, { persistence: 'any', timeoutMs: 60_000 })
    const store = await storeOf(state, 1)
    /** CPU time and calls of scripts so far. By the clock a call may be long because the machine did something else. */
    const spent = async (): Promise<{ us: number; calls: number }> => {
      const cpu = [...String(await server.ask('INFO', 'cpu')).matchAll(/_main_thread:([\d.]+)/g)]
      const stats = String(await server.ask('INFO', 'commandstats'))
      const calls = [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)]
      return {
        us: cpu.reduce((sum, [, seconds]) => sum + Number(seconds) * 1e6, 0),
        calls: calls.reduce((sum, [, count]) => sum + Number(count), 0),
      }
    }
    const records = Array.from({ length: 200_000 }, (_, i) => record(`key-${i}`, `value number ${i}`))
    const works: Record<string, () => Promise<unknown>> = {
      write: async () => {
        for (let at = 0; at < records.length; at += 20_000)
          await store.write(1, records.slice(at, at + 20_000))
        await store.seal(1, 1)
      },
      fold: () => store.fold(1),
      load: () => store.load(records.slice(0, 50_000)),
      scan: async () => {
        let found = 0
        for await (const page of store.scan(0, 1)) found += page.length
        expect(found).toBeGreaterThan(1_000)
      },
    }
    for (const [name, work] of Object.entries(works)) {
      const before = await spent()
      await work()
      const after = await spent()
      // Mean of a call, in microseconds; the largest have a few times as many records as the mean.
      const mean = (after.us - before.us) / (after.calls - before.calls)
      expect({ name, mean: mean < 2_500 ? 'short' : mean }).toEqual({ name, mean: 'short' })
    }
    expect(await values(store, ['key-7', 'key-199999'])).toEqual(['value number 7', 'value number 199999'])
  }, 120_000)
})
