import { describe, expect, test } from '@jest/globals'
import { BarrierHandler, type InputEvent } from '../../../src/checkpoint/barrier-handler.ts'

const barrier = (channel: number, n: number): InputEvent => ({
  type: 'barrier',
  channel,
  n,
  kind: 'checkpoint',
})
const trigger = (n: number) => ({ type: 'trigger', n, kind: 'checkpoint' })
const block = (channel: number) => ({ type: 'block', channel })
const resume = { type: 'resume-all' }
const aborted = (n: number) => ({ type: 'abort', n, reason: expect.any(String) })

describe('exactly once', () => {
  test('a channel waits from its barrier until the last channel brings it, then the snapshot comes before the records', () => {
    const handler = new BarrierHandler(3, 'EXACTLY_ONCE')
    expect(handler.handle(barrier(1, 1))).toEqual([block(1)])
    expect(handler.handle(barrier(0, 1))).toEqual([block(0)])
    expect(handler.collecting).toEqual({ n: 1, missing: [2] })
    expect(handler.handle(barrier(2, 1))).toEqual([block(2), trigger(1), resume])
    expect(handler.collecting).toBeUndefined()
  })

  test('the kind of the barrier is the kind of the snapshot', () => {
    const handler = new BarrierHandler(1, 'EXACTLY_ONCE')
    expect(handler.handle({ type: 'barrier', channel: 0, n: 4, kind: 'savepoint' })).toContainEqual({
      type: 'trigger',
      n: 4,
      kind: 'savepoint',
    })
  })

  test('a newer barrier on a channel that still owes the older one cancels the older one and collects the newer', () => {
    const handler = new BarrierHandler(2, 'EXACTLY_ONCE')
    handler.handle(barrier(0, 1))
    expect(handler.handle(barrier(1, 2))).toEqual([aborted(1), resume, block(1)])
    expect(handler.collecting).toEqual({ n: 2, missing: [0] })
    expect(handler.handle(barrier(0, 2))).toEqual([block(0), trigger(2), resume])
  })

  test('a late barrier of an older checkpoint than the one that is collected is swallowed', () => {
    const handler = new BarrierHandler(2, 'EXACTLY_ONCE')
    handler.handle(barrier(0, 2))
    expect(handler.handle(barrier(1, 1))).toEqual([])
    expect(handler.handle(barrier(1, 2))).toContainEqual(trigger(2))
  })

  test('an abort unblocks the channels at once, and its late barriers are swallowed', () => {
    const handler = new BarrierHandler(2, 'EXACTLY_ONCE')
    handler.handle(barrier(0, 1))
    expect(handler.handle({ type: 'abort', n: 1 })).toEqual([aborted(1), resume])
    expect(handler.handle(barrier(1, 1))).toEqual([])
    expect(handler.collecting).toBeUndefined()
    expect([...handler.handle(barrier(0, 2)), ...handler.handle(barrier(1, 2))]).toContainEqual(trigger(2))
  })

  test('an abort that overtakes every barrier is remembered', () => {
    const handler = new BarrierHandler(2, 'EXACTLY_ONCE')
    expect(handler.handle({ type: 'abort', n: 5 })).toEqual([aborted(5)])
    expect(handler.handle(barrier(0, 5))).toEqual([])
    expect(handler.handle(barrier(1, 5))).toEqual([])
  })

  test('a cancel marker aborts like the coordinator does, and is passed on once', () => {
    const handler = new BarrierHandler(2, 'EXACTLY_ONCE')
    handler.handle(barrier(0, 1))
    expect(handler.handle({ type: 'cancel', channel: 1, n: 1 })).toEqual([aborted(1), resume])
    expect(handler.handle({ type: 'cancel', channel: 0, n: 1 })).toEqual([])
    expect(handler.handle({ type: 'abort', n: 1 })).toEqual([])
  })

  test('an abort of a snapshot that was taken already changes nothing here', () => {
    const handler = new BarrierHandler(1, 'EXACTLY_ONCE')
    handler.handle(barrier(0, 1))
    expect(handler.handle({ type: 'abort', n: 1 })).toEqual([])
  })

  test('the end of a channel counts as aligned, also as the last thing that was missing', () => {
    const handler = new BarrierHandler(2, 'EXACTLY_ONCE')
    handler.handle(barrier(0, 1))
    expect(handler.handle({ type: 'channel-ended', channel: 1 })).toEqual([trigger(1), resume])
    expect(handler.handle(barrier(0, 2))).toEqual([block(0), trigger(2), resume])
  })

  test('the end of a channel without a checkpoint does nothing', () => {
    expect(new BarrierHandler(2, 'EXACTLY_ONCE').handle({ type: 'channel-ended', channel: 1 })).toEqual([])
  })

  test('barriers that cannot be are illegal: from an ended channel, twice, or through a blocked channel', () => {
    const ended = new BarrierHandler(2, 'EXACTLY_ONCE')
    ended.handle({ type: 'channel-ended', channel: 0 })
    expect(() => ended.handle(barrier(0, 1))).toThrow(/not legal in state channel ended/)
    const twice = new BarrierHandler(2, 'EXACTLY_ONCE')
    twice.handle(barrier(0, 1))
    expect(() => twice.handle(barrier(0, 1))).toThrow(/second barrier on channel 0/)
    const blocked = new BarrierHandler(2, 'EXACTLY_ONCE')
    blocked.handle(barrier(0, 1))
    expect(() => blocked.handle(barrier(0, 2))).toThrow(/channel 0 blocked for 1/)
  })

  test('barriers of long aborted checkpoints stay swallowed however many were aborted since', () => {
    const handler = new BarrierHandler(2, 'EXACTLY_ONCE')
    for (let n = 1; n <= 500; n++) handler.handle({ type: 'abort', n })
    for (const n of [1, 2, 300, 435, 436, 437, 500])
      expect([n, handler.handle(barrier(0, n))]).toEqual([n, []])
    expect(handler.handle(barrier(0, 501))).toEqual([block(0)])
  })

  test('aborts of many later checkpoints do not strand the one that is collected', () => {
    const handler = new BarrierHandler(2, 'EXACTLY_ONCE')
    handler.handle(barrier(0, 1))
    for (let n = 2; n <= 200; n++) handler.handle({ type: 'abort', n })
    expect(handler.handle(barrier(1, 1))).toEqual([block(1), trigger(1), resume])
  })
})

describe('at least once', () => {
  test('barriers are counted and nobody is blocked', () => {
    const handler = new BarrierHandler(2, 'AT_LEAST_ONCE')
    expect(handler.handle(barrier(0, 1))).toEqual([])
    expect(handler.handle(barrier(0, 2))).toEqual([])
    expect(handler.handle(barrier(1, 1))).toEqual([trigger(1)])
    expect(handler.handle(barrier(1, 2))).toEqual([trigger(2)])
  })

  test('a newer checkpoint that is aligned first aborts the older one', () => {
    const handler = new BarrierHandler(2, 'AT_LEAST_ONCE')
    handler.handle(barrier(0, 1))
    handler.handle(barrier(0, 2))
    expect(handler.handle(barrier(1, 2))).toEqual([aborted(1), trigger(2)])
    expect(handler.handle(barrier(1, 1))).toEqual([])
  })

  test('the end of a channel may align several: all are taken, in order', () => {
    const handler = new BarrierHandler(2, 'AT_LEAST_ONCE')
    handler.handle(barrier(0, 1))
    handler.handle(barrier(0, 2))
    expect(handler.handle({ type: 'channel-ended', channel: 1 })).toEqual([trigger(1), trigger(2)])
  })

  test('an abort forgets one checkpoint and leaves the others', () => {
    const handler = new BarrierHandler(2, 'AT_LEAST_ONCE')
    handler.handle(barrier(0, 1))
    handler.handle(barrier(0, 2))
    expect(handler.handle({ type: 'abort', n: 1 })).toEqual([aborted(1)])
    expect(handler.handle(barrier(1, 1))).toEqual([])
    expect(handler.handle(barrier(1, 2))).toEqual([trigger(2)])
  })
})
