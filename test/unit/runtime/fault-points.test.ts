import { describe, expect, test } from '@jest/globals'
import { FAULT_POINTS, faultHook, HEALING_FAULT_POINTS } from '../../../src/runtime/fault-points.ts'

describe('a fault point', () => {
  const hookOf = (chosen: string | undefined) => {
    const signals: string[] = []
    const hook = faultHook(chosen, (signal) => signals.push(signal))
    return { hook, signals, deaths: () => signals.filter((signal) => signal === 'SIGKILL').length }
  }

  test('does not exist without the variable, so that nothing is paid for it', () => {
    expect(hookOf(undefined).hook).toBeUndefined()
    expect(hookOf('').hook).toBeUndefined()
  })

  test.each([...FAULT_POINTS, ...HEALING_FAULT_POINTS])(
    '%s ends the process there and nowhere else',
    (chosen) => {
      const { hook, deaths } = hookOf(chosen)
      for (const point of [...FAULT_POINTS, ...HEALING_FAULT_POINTS]) if (point !== chosen) hook?.(point)
      expect(deaths()).toBe(0)
      hook?.(chosen)
      expect(deaths()).toBe(1)
    },
  )

  test('with a count ends the process when it comes by for that time', () => {
    const { hook, deaths } = hookOf('before-ack:3')
    hook?.('before-ack')
    hook?.('before-ack')
    expect(deaths()).toBe(0)
    hook?.('before-ack')
    expect(deaths()).toBe(1)
  })

  test('with stop is left alone from the time on that it was stopped there', () => {
    const { hook, signals } = hookOf('before-ack:2:stop')
    for (let i = 0; i < 4; i++) hook?.('before-ack')
    expect(signals).toEqual(['SIGSTOP'])
  })

  test('with terminate asks the process to stop, once', () => {
    const { hook, signals } = hookOf('before-ack:1:terminate')
    for (let i = 0; i < 2; i++) hook?.('before-ack')
    expect(signals).toEqual(['SIGTERM'])
  })

  test.each(['nowhere', 'before-ack:0', 'before-ack:x', 'before-ack:1:2', 'before-ack:1:stop:1', ':1'])(
    '%s is refused with the list of places',
    (chosen) => {
      expect(() => hookOf(chosen)).toThrow(
        /MILLRACE_FAULT_POINT cannot be '.*': expected name\[:count\[:stop\|terminate\]\] with one of before-prepare, /,
      )
    },
  )
})
