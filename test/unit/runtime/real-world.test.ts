import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { REAL_TIMERS } from '../../../src/runtime/real-world.ts'

const DAY_MS = 86_400_000

describe('a wait that is longer than Node.js can do at once', () => {
  beforeEach(() => void jest.useFakeTimers())
  afterEach(() => void jest.useRealTimers())

  test('ends when its time has come, not at once', () => {
    const action = jest.fn()
    REAL_TIMERS.schedule(60 * DAY_MS, action)
    jest.advanceTimersByTime(60 * DAY_MS - 1)
    expect(action).not.toHaveBeenCalled()
    jest.advanceTimersByTime(1)
    expect(action).toHaveBeenCalledTimes(1)
  })

  test('can be cancelled in any of its parts', () => {
    const action = jest.fn()
    const timer = REAL_TIMERS.schedule(60 * DAY_MS, action)
    jest.advanceTimersByTime(30 * DAY_MS)
    timer.cancel()
    jest.advanceTimersByTime(60 * DAY_MS)
    expect(action).not.toHaveBeenCalled()
  })

  test('holds for a sleep, too', async () => {
    let isOver = false
    const sleep = REAL_TIMERS.sleep(30 * DAY_MS).then(() => {
      isOver = true
    })
    await jest.advanceTimersByTimeAsync(29 * DAY_MS)
    expect(isOver).toBe(false)
    await jest.advanceTimersByTimeAsync(2 * DAY_MS)
    await sleep
  })
})
