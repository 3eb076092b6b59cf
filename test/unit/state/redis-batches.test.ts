import { describe, expect, test } from '@jest/globals'
import { batches, byGroup, inWindow } from '../../../src/state/redis-batches.ts'

const cut = (items: string[], limits: { items?: number; bytes?: number; groups?: number }) =>
  [
    ...batches(
      byGroup(items, (item) => item[0]!),
      { items: 100, bytes: 100, groups: 100, ...limits },
      (item) => item.length,
    ),
  ].map((batch) => batch.map(({ group, items: some }) => `${group}: ${some.join(' ')}`))

describe('commands', () => {
  test('hold items of several groups, in their order', () => {
    expect(cut(['a1', 'b1', 'a2', 'c1'], {})).toEqual([['a: a1 a2', 'b: b1', 'c: c1']])
    expect(cut([], {})).toEqual([])
  })

  test('are cut at each limit', () => {
    expect(cut(['a1', 'a2', 'a3', 'b1', 'b2'], { items: 2 })).toEqual([
      ['a: a1 a2'],
      ['a: a3', 'b: b1'],
      ['b: b2'],
    ])
    expect(cut(['a1', 'b1', 'c1', 'a2'], { groups: 1 })).toEqual([['a: a1 a2'], ['b: b1'], ['c: c1']])
    expect(cut(['a123', 'a1', 'b12345678', 'b1'], { bytes: 6 })).toEqual([
      ['a: a123 a1'],
      ['b: b12345678'],
      ['b: b1'],
    ])
  })
})

describe('work in a window', () => {
  test('is done a few at a time', async () => {
    let [running, most] = [0, 0]
    const done: number[] = []
    await inWindow(
      [1, 2, 3, 4, 5],
      async (job) => {
        most = Math.max(most, ++running)
        await Promise.resolve()
        running--
        done.push(job)
      },
      2,
    )
    expect([most, done.toSorted()]).toEqual([2, [1, 2, 3, 4, 5]])
  })

  test('that fails lets what has begun end, and begins nothing more', async () => {
    const log: string[] = []
    const work = inWindow(
      ['fails', 'slow', 'never'],
      async (job) => {
        log.push(`${job} begins`)
        if (job === 'fails') throw new Error('on cue')
        for (let i = 0; i < 5; i++) await Promise.resolve()
        log.push(`${job} ends`)
      },
      2,
    )
    await expect(work).rejects.toThrow('on cue')
    expect(log).toEqual(['fails begins', 'slow begins', 'slow ends'])
  })
})
