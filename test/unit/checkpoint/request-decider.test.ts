import { describe, expect, test } from '@jest/globals'
import { CheckpointRequestDecider } from '../../../src/checkpoint/request-decider.ts'

const manual = (id: string) => ({ id, kind: 'checkpoint' as const, thenStop: false })
const stop = { id: 'stop', kind: 'checkpoint' as const, thenStop: true }
const last = { id: 'end', kind: 'final' as const, thenStop: false }
const periodic = { type: 'trigger', request: { id: undefined, kind: 'checkpoint', thenStop: false } }

describe('when the next checkpoint may start', () => {
  test('nothing is triggered that nobody asked for', () => {
    expect(new CheckpointRequestDecider({ minPauseMs: 0, maxConcurrent: 1 }).decide(0, 0)).toEqual({
      type: 'none',
    })
  })

  test('missed periodic ones collapse into one', () => {
    const decider = new CheckpointRequestDecider({ minPauseMs: 0, maxConcurrent: 2 })
    for (let i = 0; i < 3; i++) decider.periodic()
    expect(decider.decide(0, 0)).toEqual(periodic)
    expect(decider.decide(0, 1)).toEqual({ type: 'none' })
  })

  test('no more are in flight than allowed, and what waits is kept', () => {
    const decider = new CheckpointRequestDecider({ minPauseMs: 0, maxConcurrent: 2 })
    decider.request(manual('a'))
    expect(decider.decide(0, 2)).toEqual({ type: 'none' })
    expect(decider.decide(0, 1)).toEqual({ type: 'trigger', request: manual('a') })
  })

  test('requests are served in their order, before the periodic one', () => {
    const decider = new CheckpointRequestDecider({ minPauseMs: 0, maxConcurrent: 9 })
    decider.periodic()
    decider.request(manual('a'))
    decider.request(manual('b'))
    expect([0, 1, 2].map((inFlight) => decider.decide(0, inFlight))).toEqual([
      { type: 'trigger', request: manual('a') },
      { type: 'trigger', request: manual('b') },
      periodic,
    ])
  })

  test('the pause counts from the end of the last one and forces one at a time', () => {
    const decider = new CheckpointRequestDecider({ minPauseMs: 500, maxConcurrent: 4 })
    decider.periodic()
    expect(decider.decide(1_000, 1)).toEqual({ type: 'none' })
    decider.ended(1_000)
    expect(decider.decide(1_200, 0)).toEqual({ type: 'wait', delayMs: 300 })
    expect(decider.decide(1_500, 0)).toEqual(periodic)
  })

  test('a clock that was set back does not stretch the pause', () => {
    const decider = new CheckpointRequestDecider({ minPauseMs: 500, maxConcurrent: 1 })
    decider.ended(10_000_000)
    decider.periodic()
    expect(decider.decide(1_000, 0)).toEqual({ type: 'wait', delayMs: 500 })
  })

  test.each([stop, last])(
    '%j waits neither for the pause nor for the one in flight, and goes first',
    (request) => {
      const decider = new CheckpointRequestDecider({ minPauseMs: 500, maxConcurrent: 1 })
      decider.ended(1_000)
      decider.request(manual('a'))
      decider.request(request)
      expect(decider.decide(1_001, 1)).toEqual({ type: 'trigger', request })
      expect(decider.decide(1_001, 2)).toEqual({ type: 'none' })
    },
  )

  test('drain gives back what will never be served', () => {
    const decider = new CheckpointRequestDecider({ minPauseMs: 0, maxConcurrent: 1 })
    decider.periodic()
    decider.request(manual('a'))
    decider.request(manual('b'))
    expect(decider.drain().map(({ id }) => id)).toEqual(['a', 'b'])
    expect(decider.decide(0, 0)).toEqual({ type: 'none' })
  })
})
