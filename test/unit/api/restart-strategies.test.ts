import { describe, expect, test } from '@jest/globals'
import { RestartStrategies } from 'millrace'
import { restartStrategyOptions } from '../../../src/api/settings.ts'
import { isOptionKey } from '../../../src/config/option-table.ts'

describe('restart strategies', () => {
  test('are plain data', () => {
    expect(RestartStrategies.fixedDelay(3, 1000)).toEqual({ kind: 'fixed-delay', attempts: 3, delayMs: 1000 })
    expect(RestartStrategies.none()).toEqual({ kind: 'none' })
    expect(RestartStrategies.fixedDelay(0, 1000)).toEqual({ kind: 'none' })
    expect(RestartStrategies.exponentialDelay({ maxMs: 5000, attempts: 4 })).toEqual({
      kind: 'exponential-delay',
      initialMs: 1000,
      maxMs: 5000,
      multiplier: 1.5,
      resetMs: 3_600_000,
      jitter: 0.1,
      attempts: 4,
    })
  })

  test.each([
    ['fixed-delay.attempts', () => RestartStrategies.fixedDelay(-1, 1)],
    ['fixed-delay.delay', () => RestartStrategies.fixedDelay(1, 0.5)],
    ['exponential-delay.max-backoff', () => RestartStrategies.exponentialDelay({ initialMs: 10, maxMs: 5 })],
    ['exponential-delay.jitter-factor', () => RestartStrategies.exponentialDelay({ jitter: 2 })],
    ['exponential-delay.backoff-multiplier', () => RestartStrategies.exponentialDelay({ multiplier: 0.5 })],
    ['failure-rate.max-failures-per-interval', () => RestartStrategies.failureRate(0, 1, 1)],
  ])('a wrong %s is refused by its name', (key, make) => {
    expect(make).toThrow(`restart-strategy.${key} must be`)
  })

  test('have options of the same meaning, each of them known', () => {
    const strategies = [
      RestartStrategies.fixedDelay(3, 1000),
      RestartStrategies.exponentialDelay(),
      RestartStrategies.failureRate(1, 1, 1),
      RestartStrategies.none(),
    ]
    const keys = strategies.flatMap((strategy) => Object.keys(restartStrategyOptions(strategy)))
    expect(keys.filter((key) => !isOptionKey(key))).toEqual([])
    expect(restartStrategyOptions(strategies[0]!)).toEqual({
      'restart-strategy.type': 'fixed-delay',
      'restart-strategy.fixed-delay.attempts': 3,
      'restart-strategy.fixed-delay.delay': 1000,
    })
  })
})
