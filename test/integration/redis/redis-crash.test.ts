import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { RedisConnection } from '../../../src/state/redis-connection.ts'
import type { RedisScript } from '../../../src/state/redis-scripts.ts'
import type { RedisStore } from '../../../src/state/redis-store.ts'
import { Crash, type Fate, faultyConnection, storeOver } from './faulty-connection.ts'
import { RedisProcess, SAFE } from './redis-process.ts'
import { everything, RedisScene, record, storeOf, timersOf, values } from './redis-scene.ts'

let server: RedisProcess
beforeAll(async () => {
  server = await RedisProcess.start({ ...SAFE, appendfsync: 'no' })
})
afterAll(() => server.stop())

let scene: RedisScene
beforeEach(async () => {
  await server.ask('FLUSHALL')
  scene = new RedisScene()
})
afterEach(() => scene.close())

type Contents = Record<string, readonly [string | null, string | null]>

describe('an attempt that dies while it folds', () => {
  const names = Array.from({ length: 2_000 }, (_, i) => `key-${i}`)
  /** Long enough for Redis to keep them in a table, which it goes through in pieces. */
  const [old, recent] = ['old'.padEnd(80), 'new'.padEnd(80)]
  const base: Contents = Object.fromEntries(names.slice(0, 900).map((name) => [name, [old, 'old timer']]))
  /** Removes, replaces and adds, with timers and without. */
  const changes: Contents = Object.fromEntries(
    names
      .slice(300)
      .map((name, i) => [name, [i % 3 === 0 ? null : recent, i % 5 === 0 ? 'new timer' : null]]),
  )
  const expected: Contents = Object.fromEntries(
    Object.entries({ ...base, ...changes }).filter(
      ([, [value, timers]]) => value !== null || timers !== null,
    ),
  )
  const recordsOf = (contents: Contents) =>
    Object.entries(contents).map(([name, [value, timers]]) => record(name, value, timers))

  /** Lets the second fold die at its piece number `piece`, then starts over. Returns false when there was no such piece. */
  async function dieAt(piece: number, fate: Fate): Promise<boolean> {
    await server.ask('FLUSHALL')
    let pieces = Number.NEGATIVE_INFINITY
    const connection = await faultyConnection(server.url, scene.log, (script) =>
      script === 'fold' && ++pieces > piece ? fate : 'done',
    )
    try {
      const store = await storeOver(connection, scene.log, 1)
      await store.write(1, recordsOf(base))
      await store.seal(1, 1)
      await store.fold(1)
      await store.write(2, recordsOf(changes))
      const handle = await store.seal(2, 2)
      pieces = 0
      const died = await store.fold(2).then(
        () => false,
        (error: unknown) => error instanceof Crash,
      )
      const state = await scene.state(server.url, { persistence: 'any' })
      const next = await storeOf(state, 2, [handle])
      await expectContents(next, 0)
      await next.write(1, [record('key-0', 'newest')])
      await next.fold(0)
      expect(await values(next, ['key-0'])).toEqual(['newest'])
      await next.write(1, [record('key-0', old, 'old timer')])
      await next.seal(1, 3)
      await next.fold(1)
      await expectContents(next, 1)
      expect((await server.keys()).filter((key) => /:\d/.test(key))).toEqual([])
      return died
    } finally {
      await connection.close()
      await scene.close()
    }
  }

  async function expectContents(store: RedisStore, segment: number): Promise<void> {
    const timers = Object.entries(expected).flatMap(([name, [, timed]]) =>
      timed === null ? [] : [[name, timed]],
    )
    expect(await everything(store, segment)).toEqual(expected)
    expect(await timersOf(store)).toEqual(Object.fromEntries(timers))
    expect(await values(store, names)).toEqual(names.map((name) => expected[name]?.[0] ?? null))
  }

  test.each(['lost before', 'lost after'] as const)(
    'loses nothing at any piece (%s)',
    async (fate) => {
      let piece = 0
      while (await dieAt(piece, fate)) piece++
      // Otherwise the segments were folded whole, and nothing was cut short.
      expect(piece).toBeGreaterThanOrEqual(8)
    },
    120_000,
  )
})

describe('a fold whose answers are lost', () => {
  test('is repeated by the same attempt, piece by piece or whole, and counts nothing twice', async () => {
    const names = Array.from({ length: 3_000 }, (_, i) => `key-${i}`)
    const long = 'x'.repeat(80)
    let pieces = 0
    let lose: (piece: number) => Fate = () => 'done'
    const connection = await faultyConnection(server.url, scene.log, (script) =>
      script === 'fold' ? lose(++pieces) : 'done',
    )
    try {
      const store = await storeOver(connection, scene.log, 1)
      await store.write(
        1,
        names.slice(0, 2_000).map((name) => record(name, `1${long}`, 't')),
      )
      await store.seal(1, 1)
      // Every other answer is lost, and asked for again at once.
      lose = (piece) => (piece % 2 === 1 ? 'unanswered' : 'done')
      await store.fold(1)
      expect(pieces).toBeGreaterThanOrEqual(16)
      const changes = names.slice(1_000).map((name, i) => record(name, i % 3 === 0 ? null : `2${long}`))
      await store.write(2, changes)
      const handle = await store.seal(2, 2)
      // One answer more each time, until the last one of all comes.
      let died = 0
      for (let piece = 1; ; piece++) {
        pieces = 0
        lose = (each) => (each === piece ? 'lost after' : 'done')
        const error = await store.fold(2).catch((caught: unknown) => caught)
        if (error === undefined) break
        expect(error).toBeInstanceOf(Crash)
        died++
      }
      expect(died).toBeGreaterThanOrEqual(4)
      const expected = Object.fromEntries(
        names.flatMap((name, i) =>
          i < 1_000 ? [[name, [`1${long}`, 't']]] : (i - 1_000) % 3 === 0 ? [] : [[name, [`2${long}`, null]]],
        ),
      )
      expect(await everything(store, 2)).toEqual(expected)
      const state = await scene.state(server.url, { persistence: 'any' })
      expect(await everything(await storeOf(state, 2, [handle]), 0)).toEqual(expected)
    } finally {
      await connection.close()
    }
  }, 60_000)
})

/** One step of an attempt. */
type Step =
  | { readonly kind: 'write'; readonly rows: readonly (readonly [number, string | null, string | null])[] }
  | { readonly kind: 'seal' | 'complete' | 'fold' | 'crash' | 'break' }

const NAMES = Array.from({ length: 24 }, (_, i) => `n${i}`)
const row = fc.tuple(
  fc.nat(NAMES.length - 1),
  fc.oneof(fc.constant(null), fc.constantFrom('', '\0', 'a', 'bb', 'long '.repeat(40))),
  fc.oneof({ weight: 3, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: fc.constantFrom('t', 'u') }),
)
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('write' as const), rows: fc.array(row, { maxLength: 12 }) }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom('seal', 'complete', 'fold') }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('crash', 'break') }) },
) as fc.Arbitrary<Step>

/** What a correct store holds: a map for each segment that may still be asked for. */
class Model {
  live = new Map<string, readonly [string | null, string | null]>()
  sealed: { segment: number; handle: unknown; contents: Contents }[] = []
  completed: { handle: unknown; contents: Contents } | undefined

  contents(): Contents {
    return Object.fromEntries(
      [...this.live].filter(([, [value, timers]]) => value !== null || timers !== null),
    )
  }
}

describe('any history of writes, seals, folds, breaks and crashes', () => {
  test('leaves the state of the last completed checkpoint, and zombies change nothing', async () => {
    let run = 0
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 5, maxLength: 40 }),
        fc.infiniteStream(fc.nat(19)),
        async (steps, luck) => {
          await server.ask('FLUSHALL')
          run++
          let attempt = 0
          let breaking: RedisScript | undefined
          const connections: RedisConnection[] = []
          const zombies: { store: RedisStore; segment: number }[] = []
          const model = new Model()
          let store!: RedisStore
          let segment = 1
          const begin = async () => {
            attempt++
            breaking = undefined
            segment = 1
            model.sealed = []
            model.live = new Map(Object.entries(model.completed?.contents ?? {}))
            const own = attempt
            const connection = await faultyConnection(server.url, scene.log, (script) => {
              if (own !== attempt || script !== breaking) return 'done'
              return luck.next().value! % 2 === 0 ? 'lost before' : 'lost after'
            })
            connections.push(connection)
            store = await storeOver(
              connection,
              scene.log,
              attempt,
              model.completed ? [model.completed.handle] : [],
            )
            expect(await everything(store, 0)).toEqual(model.contents())
          }
          try {
            await begin()
            for (const [at, { kind, ...more }] of steps.entries()) {
              try {
                if (kind === 'write' && 'rows' in more) {
                  await store.write(
                    segment,
                    more.rows.map(([i, value, timers]) => record(NAMES[i]!, value, timers)),
                  )
                  for (const [i, value, timers] of more.rows) model.live.set(NAMES[i]!, [value, timers])
                } else if (kind === 'seal') {
                  const handle = await store.seal(segment, at + 1)
                  model.sealed.push({ segment, handle, contents: model.contents() })
                  segment++
                } else if (kind === 'complete') {
                  // Any of those in flight may be the one that completes; earlier ones are subsumed.
                  const index = model.sealed.length === 0 ? -1 : luck.next().value! % model.sealed.length
                  if (index < 0) continue
                  model.completed = model.sealed[index]!
                  model.sealed = model.sealed.slice(index)
                } else if (kind === 'fold') {
                  const oldest = model.sealed[0]
                  const completed = model.completed
                  if (oldest !== undefined && oldest === completed) await store.fold(oldest.segment)
                } else if (kind === 'break') {
                  breaking = (['write', 'seal', 'fold'] as const)[luck.next().value! % 3]
                  continue
                } else {
                  zombies.push({ store, segment })
                  await begin()
                  continue
                }
              } catch (error) {
                if (!(error instanceof Crash)) throw error
                zombies.push({ store, segment })
                await begin()
                continue
              }
              const contents = model.contents()
              expect(await values(store, NAMES)).toEqual(NAMES.map((name) => contents[name]?.[0] ?? null))
            }
            for (const zombie of zombies) {
              const before = await server.ask('DEBUG', 'DIGEST')
              const zombieWrite = zombie.store.write(zombie.segment + 1, [record('n0', 'zombie')])
              await expect(zombieWrite).rejects.toMatchObject({ code: 'MILLRACE_ATTEMPT_LOST' })
              expect(await server.ask('DEBUG', 'DIGEST')).toEqual(before)
            }
            await begin()
            await store.fold(0)
            expect(await everything(store, 0)).toEqual(model.contents())
            // Nothing of a dead attempt is left: what is there now is named by the last completed checkpoint.
            expect((await server.keys()).filter((key) => /:\d/.test(key))).toEqual([])
          } finally {
            for (const connection of connections) await connection.close()
          }
        },
      ),
      { numRuns: 150, interruptAfterTimeLimit: 80_000, markInterruptAsFailure: false },
    )
    expect(run).toBeGreaterThan(10)
  }, 120_000)
})
