import { describe, expect, test } from '@jest/globals'
import type { RestartStrategyConfig } from '../../../src/core/restart-strategy-config.ts'
import { MillraceError } from '../../../src/errors.ts'
import { isFinal, RestartStrategy } from '../../../src/runtime/restart-strategy.ts'

const crash = new Error('crash')
const delays = (
  config: RestartStrategyConfig,
  failures: readonly number[],
  chance = 0.5,
): (number | string)[] => {
  const strategy = new RestartStrategy(config)
  return failures.map((at) => {
    const decision = strategy.failed(crash, at, chance)
    return decision.type === 'restart' ? decision.delayMs : decision.reason
  })
}
const exponential: RestartStrategyConfig = {
  kind: 'exponential-delay',
  initialMs: 1_000,
  maxMs: 5_000,
  multiplier: 2,
  resetMs: 60_000,
  jitter: 0.1,
  attempts: undefined,
}

describe('after a failure', () => {
  test('none: it is over', () => {
    expect(delays({ kind: 'none' }, [0])).toEqual(['the restart strategy is none'])
  })

  test('fixed delay: so many restarts, then it is over', () => {
    expect(delays({ kind: 'fixed-delay', attempts: 2, delayMs: 300 }, [0, 1_000, 9_000_000])).toEqual([
      300,
      300,
      'all 2 restarts are used up',
    ])
  })

  test('failure rate: only failures within the interval count', () => {
    const config: RestartStrategyConfig = {
      kind: 'failure-rate',
      maxFailures: 2,
      intervalMs: 1_000,
      delayMs: 10,
    }
    expect(delays(config, [0, 500, 1_600, 1_700, 1_800])).toEqual([
      10,
      10,
      10,
      10,
      'more than 2 failures within 1000 ms',
    ])
  })

  test('exponential delay: grows to its maximum, and begins anew after a quiet time', () => {
    expect(delays(exponential, [0, 1, 2, 3, 4, 70_000])).toEqual([1_000, 2_000, 4_000, 5_000, 5_000, 1_000])
  })

  test('exponential delay: chance moves it by the jitter, both ways', () => {
    expect(delays(exponential, [0], 0)).toEqual([900])
    expect(delays(exponential, [0], 0.999999)).toEqual([1_100])
  })

  test('exponential delay: attempts are counted anew after a quiet time', () => {
    expect(delays({ ...exponential, attempts: 1 }, [0, 1, 100_000])).toEqual([
      1_000,
      'all 1 restarts are used up',
      1_000,
    ])
  })

  test('restarts are counted', () => {
    const strategy = new RestartStrategy({ kind: 'fixed-delay', attempts: 5, delayMs: 0 })
    strategy.failed(crash, 0, 0)
    strategy.failed(crash, 0, 0)
    expect(strategy.restarts).toBe(2)
  })
})

describe('errors that trying again cannot help', () => {
  test.each([
    ['MILLRACE_DESERIALIZATION', true],
    ['MILLRACE_DATA_LOSS', true],
    ['MILLRACE_STATE_LOST', true],
    ['MILLRACE_TRANSACTION_LOST', true],
    ['MILLRACE_TOPIC_MISSING', true],
    ['MILLRACE_JOB_CONFLICT', true],
    ['MILLRACE_USER_FUNCTION', false],
    ['MILLRACE_TRANSACTION_FENCED', false],
    ['MILLRACE_KAFKA_UNREACHABLE', false],
    ['MILLRACE_CHECKPOINT_STORAGE', false],
    ['MILLRACE_INTERNAL', false],
  ] as const)('%s: %p', (code, final) => {
    expect(isFinal(new MillraceError(code, 'x'))).toBe(final)
  })

  test('are found beneath others too, and any other error is not one', () => {
    const lost = new MillraceError('MILLRACE_TRANSACTION_LOST', 'x')
    const outer = new MillraceError('MILLRACE_CHECKPOINT_FAILED', 'y', {
      cause: new Error('z', { cause: lost }),
    })
    expect(isFinal(outer)).toBe(true)
    expect(isFinal(new TypeError('x'))).toBe(false)
    expect(isFinal('text')).toBe(false)
    const circle: { cause?: unknown } = {}
    circle.cause = circle
    expect(isFinal(circle)).toBe(false)
  })

  test('fail at once', () => {
    const decision = new RestartStrategy(exponential).failed(
      new MillraceError('MILLRACE_DATA_LOSS', 'x'),
      0,
      0,
    )
    expect(decision).toMatchObject({ type: 'fail' })
  })
})

describe("the user's own errors", () => {
  const user = (message = 'map failed at record 5') => new MillraceError('MILLRACE_USER_FUNCTION', message)

  test('the same one three times without a completed checkpoint between is the end', () => {
    const strategy = new RestartStrategy(exponential)
    expect([0, 1, 2].map((now) => strategy.failed(user(), now, 0.5).type)).toEqual([
      'restart',
      'restart',
      'fail',
    ])
  })

  test('a completed checkpoint between, or another error, begins anew', () => {
    const strategy = new RestartStrategy(exponential)
    strategy.failed(user(), 0, 0.5)
    strategy.failed(user(), 1, 0.5)
    strategy.progressed()
    expect(strategy.failed(user(), 2, 0.5).type).toBe('restart')
    strategy.failed(user('another record'), 3, 0.5)
    expect(strategy.failed(user('another record'), 4, 0.5).type).toBe('restart')
    expect(strategy.failed(user('another record'), 5, 0.5).type).toBe('fail')
  })
})
