import { describe, expect, test } from '@jest/globals'
import { expectationOf, MASK, readOption, showInput, showValue } from '../../../src/config/option-reader.ts'
import type { OptionSpec } from '../../../src/config/option-spec.ts'
import { specOf } from '../../../src/config/option-table.ts'

const doc = 'A test.'

describe('reading', () => {
  test.each([
    ['execution.checkpointing.mode', 'exactly-once', 'EXACTLY_ONCE'],
    ['execution.checkpointing.mode', 'At_Least_Once', 'AT_LEAST_ONCE'],
    ['restart-strategy.type', 'FIXED_DELAY', 'fixed-delay'],
    ['state.backend.async', 'TRUE', true],
    ['state.backend.async', false, false],
    ['parallelism.default', 'AUTO', 'auto'],
    ['parallelism.default', ' 4 ', 4],
    ['restart-strategy.exponential-delay.jitter-factor', '.5', 0.5],
    ['kafka.brokers', 'a:1, b:2,', ['a:1', 'b:2']],
    ['kafka.brokers', ['[::1]:9092'], ['[::1]:9092']],
    ['state.checkpoints.dir', 'file:///data/check%20points', '/data/check points'],
    ['state.checkpoints.dir', './data', './data'],
    ['execution.checkpointing.interval', 1000, 1000],
    ['kafka.sasl.password', ' blanks count ', ' blanks count '],
  ] as const)('%s: %j is read as %j', (key, input, value) => {
    expect(readOption(specOf(key), input)).toEqual(value)
  })

  test.each([
    ['execution.checkpointing.mode', 'sometimes'],
    ['state.backend.async', 'yes'],
    ['parallelism.default', '0'],
    ['parallelism.default', '1.5'],
    ['parallelism.default', '32769'],
    ['parallelism.default', ['1']],
    ['restart-strategy.exponential-delay.jitter-factor', '1.01'],
    ['restart-strategy.exponential-delay.jitter-factor', '1e-1'],
    ['kafka.brokers', 'a'],
    ['kafka.brokers', 'a:1;b:2'],
    ['kafka.brokers', ''],
    ['state.checkpoints.dir', 's3://bucket/x'],
    ['state.checkpoints.dir', 'file://host/x'],
    ['state.checkpoints.dir', ''],
    ['schema.registry.url', 'localhost:8081'],
    ['execution.checkpointing.timeout', '9 ms'],
    ['state.backend.fs.memory-threshold', '2 mb'],
    ['kafka.client-id', ' '],
  ] as const)('%s cannot be %j', (key, input) => {
    expect(readOption(specOf(key), input)).toBeUndefined()
  })

  test('the expectation names the limits', () => {
    expect(expectationOf(specOf('execution.checkpointing.timeout'))).toMatch(/duration.*at least 10 ms/)
    expect(expectationOf(specOf('state.backend.fs.memory-threshold'))).toMatch(/size.*at most 1 mb/)
    expect(expectationOf(specOf('parallelism.default'))).toBe('"auto" or a whole number from 1 to 32768')
    expect(expectationOf(specOf('state.backend'))).toBe('one of jobmanager, filesystem, rocksdb, redis')
  })
})

describe('secrets', () => {
  const password = specOf('kafka.sasl.password')
  const url = { type: 'url', secret: 'url-password', doc } as const satisfies OptionSpec

  test('a secret value is never shown, nor what somebody wrote instead of it', () => {
    expect(showValue(password, 'hunter2')).toBe(MASK)
    expect(showInput(password, 'hunter2')).toBe(MASK)
  })

  test.each([
    ['http://user:hunter2@registry:8081/x', `http://user:${MASK}@registry:8081/x`],
    ['http://user:p@ss/w:rd@registry:8081', `http://user:${MASK}@registry:8081`],
    ['http://registry:8081', 'http://registry:8081'],
    ['user:hunter2@registry', `user:${MASK}@registry`],
  ])('of %s only the password is hidden', (text, shown) => {
    expect(showValue(url, text)).toBe(shown)
    expect(showInput(url, text)).toBe(`'${shown}'`)
  })
})

test('values are shown as a person would write them', () => {
  expect(showValue(specOf('execution.checkpointing.timeout'), 600_000)).toBe('10 min')
  expect(showValue(specOf('kafka.fetch.max-bytes'), 1_048_576)).toBe('1 mb')
  expect(showValue(specOf('kafka.brokers'), ['a:1', 'b:2'])).toBe('a:1,b:2')
  expect(showValue(specOf('parallelism.default'), 4)).toBe('4')
})
