import { describe, expect, test } from '@jest/globals'
import { EMPTY_BASE, RedisGroup } from '../../../src/state/redis-group.ts'
import { groupsOfOrigins, redisHandle } from '../../../src/state/redis-handle.ts'
import { RedisGroupKeys, redisKeyPattern, runOfRedisKey } from '../../../src/state/redis-keys.ts'

const space = { job: 'totals', run: '7f-1', operator: 'count' }

/** Format 1, as released; it may never change. */
const GOLDEN =
  '{"format":1,"job":"totals","run":"7f-1","operator":"count","groups":[[3,["2.1.0",10,4],[["2.0.0",2,5,1,90],["3.1.0",1,1,0,12]]]]}'

function group(): RedisGroup {
  const made = new RedisGroup(new RedisGroupKeys(space, 3), { id: '2.1.0', records: 10, timers: 4 }, '', [])
  const put = (attempt: number, segment: number, counts: readonly number[]) => {
    const [writes, records, timers, bytes] = counts as [number, number, number, number]
    Object.assign(made.part(attempt, segment, 0), { writes, sent: writes, records, timers, bytes })
  }
  put(2, 0, [2, 5, 1, 90])
  put(3, 1, [1, 1, 0, 12])
  put(3, 2, [1, 1, 0, 12])
  return made
}

describe('what a checkpoint says of state in Redis', () => {
  test('is format 1, up to the segment that was sealed', () => {
    const empty = new RedisGroup(new RedisGroupKeys(space, 4), EMPTY_BASE, '', [])
    const text = JSON.stringify(redisHandle(space, [group(), empty], 1))
    expect(text).toBe(GOLDEN)
  })

  test('is read by range, and told from that of other runs', () => {
    const read = (of: typeof space, range: readonly [number, number]) =>
      groupsOfOrigins(of, { start: 0, end: 7 }, [{ range, sealed: JSON.parse(GOLDEN) }])
    const { own, foreign } = read(space, [0, 7])
    expect(own.get(3)).toMatchObject({
      base: { id: '2.1.0', records: 10, timers: 4 },
      parts: [
        { id: '2.0.0', writes: 2, records: 5, timers: 1, bytes: 90, segment: 0, durable: true },
        { id: '3.1.0', writes: 1, records: 1, timers: 0, bytes: 12, segment: 0, durable: true },
      ],
    })
    expect(foreign).toEqual([])
    expect(read(space, [4, 7]).own.size).toBe(0)
    expect(read({ ...space, run: 'other' }, [0, 7])).toMatchObject({ foreign: [{ keyGroup: 3, space }] })
  })

  test.each([
    null,
    'text',
    {},
    { ...JSON.parse(GOLDEN), format: 2 },
    { ...JSON.parse(GOLDEN), groups: [[3, ['2.1.0', 10], []]] },
    { ...JSON.parse(GOLDEN), groups: [[3, ['2.1.0', 10, 4], [['2.2.0', 2, -5, 1, 90]]]] },
  ])('is lost state when it is not understood', (sealed) => {
    expect(() => groupsOfOrigins(space, { start: 0, end: 7 }, [{ range: [0, 7], sealed }])).toThrow(
      expect.objectContaining({ code: 'MILLRACE_STATE_LOST' }),
    )
  })
})

describe('a key group', () => {
  test('is read from the newest part to the base', () => {
    const some = group()
    expect(some.hashes().map(({ values }) => values.split(':').at(-1))).toEqual([
      '3.2.0',
      '3.1.0',
      '2.0.0',
      'base',
    ])
    expect(some.hashes(1).map(({ values }) => values.split(':').at(-1))).toEqual(['3.1.0', '2.0.0', 'base'])
  })

  test('keeps parts in the order of their segments, whichever came first', () => {
    const some = new RedisGroup(new RedisGroupKeys(space, 3), EMPTY_BASE, '', [])
    for (const [segment, number] of [
      [2, 0],
      [1, 0],
      [3, 1],
      [1, 1],
      [3, 0],
    ] as const)
      some.part(5, segment, number)
    expect(some.parts.map(({ id }) => id)).toEqual(['5.1.0', '5.1.1', '5.2.0', '5.3.0', '5.3.1'])
    expect(some.part(5, 1, 1)).toBe(some.parts[1])
  })
})

describe('names of keys', () => {
  test('are those of the guide', () => {
    const keys = new RedisGroupKeys({ job: 'to{ta}ls', run: '7f-1', operator: 'a/b' }, 12)
    expect(keys.marker).toMatch(/^millrace:\{to-ta-ls-[0-9a-f]{32}\/7f-1\/a-b-[0-9a-f]{32}\/12\}:marker$/)
    expect(keys.timers('3.1.0')).toBe(keys.marker.replace('marker', '3.1.0-timers'))
    expect(runOfRedisKey(keys.base)).toBe('7f-1')
  })

  test('of one job are not found by the pattern of another', () => {
    expect(redisKeyPattern('a')).toBe('millrace:{a/*')
    expect(redisKeyPattern('a', 'r')).toBe('millrace:{a/r/*')
    expect(() => redisKeyPattern('a', '*')).toThrow(/id of a run/)
  })
})
