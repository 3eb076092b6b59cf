import { beforeEach, describe, expect, test } from '@jest/globals'
import { HeapTimerQueues, type OwnedTimers, type TimerOwner } from '../../../../src/core/time/timer-queues.ts'
import { SeededRandom } from '../../../../src/testing/seeded-random.ts'

class Owner implements TimerOwner {
  readonly key: string
  timers: OwnedTimers | undefined
  constructor(key: string) {
    this.key = key
  }
}

let owners: Map<string, Owner>
let current: string
let calls: string[]
let queues: HeapTimerQueues

beforeEach(() => {
  owners = new Map()
  current = 'a'
  calls = []
  queues = new HeapTimerQueues({
    currentForWrite: () => {
      if (!owners.has(current)) owners.set(current, new Owner(current))
      return owners.get(current)!
    },
    current: () => owners.get(current),
    beforeChange: (owner) => calls.push(`before ${owner.key}`),
    released: (owner) => calls.push(`released ${owner.key}`),
  })
})

const fired = (time: number, limit = 100) =>
  queues.dueEventTimers(time, limit).map(({ key, namespace, time: at }) => `${key}/${namespace}@${at}`)

describe('timers', () => {
  test('fire by time, and timers of one time in the order of their registration', () => {
    for (const [key, time] of [
      ['c', 2],
      ['a', 1],
      ['b', 2],
      ['a', 2],
    ] as const) {
      current = key
      queues.registerEventTimeTimer('', time)
    }
    expect(fired(2)).toEqual(['a/@1', 'c/@2', 'b/@2', 'a/@2'])
    expect(queues.size).toBe(0)
  })

  test('at the asked time are due, later ones are not', () => {
    queues.registerEventTimeTimer('', 10)
    queues.registerEventTimeTimer('', 11)
    expect(fired(9)).toEqual([])
    expect(fired(10)).toEqual(['a/@10'])
    expect(queues.size).toBe(1)
  })

  test('that are registered twice fire once; other keys, namespaces and domains are other timers', () => {
    queues.registerEventTimeTimer('', 1)
    queues.registerEventTimeTimer('', 1)
    queues.registerEventTimeTimer('1', 1)
    queues.registerEventTimeTimer(1, 1)
    queues.registerProcessingTimeTimer('', 1)
    current = 'b'
    queues.registerEventTimeTimer('', 1)
    expect(queues.size).toBe(5)
    expect(fired(1)).toEqual(['a/@1', 'a/1@1', 'a/1@1', 'b/@1'])
    expect(queues.dueProcessingTimers(1, 9)).toEqual([{ key: 'a', namespace: '', time: 1 }])
  })

  test('that are deleted do not fire, and deleting an unknown one does nothing', () => {
    queues.registerEventTimeTimer('', 1)
    queues.registerEventTimeTimer('', 2)
    queues.deleteEventTimeTimer('', 1)
    queues.deleteEventTimeTimer('', 7)
    queues.deleteProcessingTimeTimer('', 2)
    current = 'nobody'
    queues.deleteEventTimeTimer('', 2)
    expect(fired(9)).toEqual(['a/@2'])
  })

  test('come out at most as many as asked for', () => {
    for (let time = 0; time < 10; time++) queues.registerEventTimeTimer('', time)
    expect(fired(100, 3)).toHaveLength(3)
    expect(queues.size).toBe(7)
  })

  test('tell the earliest processing time', () => {
    expect(queues.nextProcessingTime()).toBeUndefined()
    queues.registerProcessingTimeTimer('', 9)
    queues.registerProcessingTimeTimer('', 4)
    expect(queues.nextProcessingTime()).toBe(4)
  })

  test('announce each change that comes from firing, and owners that have none any more', () => {
    queues.registerEventTimeTimer('', 1)
    queues.registerEventTimeTimer('', 2)
    fired(1)
    expect(calls).toEqual(['before a'])
    queues.deleteEventTimeTimer('', 2)
    expect(calls).toEqual(['before a', 'released a'])
    expect(owners.get('a')!.timers).toBeUndefined()
  })

  test('keep their order over a restore, and new ones come after them', () => {
    const [a, b] = [new Owner('a'), new Owner('b')]
    queues.restore('event', a, '', 5, 10)
    queues.restore('event', b, '', 5, 3)
    queues.restore('event', b, '', 5, 3)
    current = 'c'
    queues.registerEventTimeTimer('', 5)
    expect(fired(5)).toEqual(['b/@5', 'a/@5', 'c/@5'])
  })

  test('of NaN are refused, as they would never fire and spoil the order', () => {
    expect(() => queues.registerEventTimeTimer('', Number.NaN)).toThrow(/NaN/)
  })

  test('of many keys, with many of one key, behave as a sorted list under random operations', () => {
    const random = new SeededRandom(7)
    let model: { key: string; time: number; order: number }[] = []
    for (let step = 0; step < 5_000; step++) {
      current = `k${random.integer(0, 3)}`
      const time = random.integer(0, 200)
      const known = model.findIndex((timer) => timer.key === current && timer.time === time)
      const draw = random.next()
      if (draw < 0.6) {
        queues.registerEventTimeTimer('', time)
        if (known < 0) model.push({ key: current, time, order: step })
      } else if (draw < 0.95) {
        queues.deleteEventTimeTimer('', time)
        if (known >= 0) model.splice(known, 1)
      } else {
        const until = random.integer(0, 200)
        const due = model
          .filter((timer) => timer.time <= until)
          .sort((a, b) => a.time - b.time || a.order - b.order)
          .slice(0, 20)
        expect(fired(until, 20)).toEqual(due.map((timer) => `${timer.key}/@${timer.time}`))
        model = model.filter((timer) => !due.includes(timer))
      }
      expect(queues.size).toBe(model.length)
    }
  })
})
