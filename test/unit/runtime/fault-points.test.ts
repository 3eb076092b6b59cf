import { describe, expect, test } from '@jest/globals'
import { FAULT_POINTS, faultHook } from '../../../src/runtime/fault-points.ts'

describe('a fault point', () => {
  const hookOf = (chosen: string | undefined) => {
    let deaths = 0
    const hook = faultHook(chosen, () => deaths++)
    return { hook, deaths: () => deaths }
  }

  test('does not exist without the variable, so that nothing is paid for it', () => {
    expect(hookOf(undefined).hook).toBeUndefined()
    expect(hookOf('').hook).toBeUndefined()
  })

  test.each(FAULT_POINTS)('%s ends the process there and nowhere else', (chosen) => {
    const { hook, deaths } = hookOf(chosen)
    for (const point of FAULT_POINTS) if (point !== chosen) hook?.(point)
    expect(deaths()).toBe(0)
    hook?.(chosen)
    expect(deaths()).toBe(1)
  })

  test('with a count ends the process when it comes by for that time', () => {
    const { hook, deaths } = hookOf('before-ack:3')
    hook?.('before-ack')
    hook?.('before-ack')
    expect(deaths()).toBe(0)
    hook?.('before-ack')
    expect(deaths()).toBe(1)
  })

  test.each(['nowhere', 'before-ack:0', 'before-ack:x', 'before-ack:1:2', ':1'])(
    '%s is refused with the list of places',
    (chosen) => {
      expect(() => hookOf(chosen)).toThrow(
        /MILLRACE_FAULT_POINT cannot be '.*': expected name\[:count\] with one of before-prepare, /,
      )
    },
  )
})
