import { describe, expect, test } from '@jest/globals'
import { settingsOfCode, settingsOfFlags } from '../../../src/config/setting.ts'
import { type OptionKey, resolveConfig } from '../../../src/config.ts'

const ON = { 'execution.checkpointing.interval': '1 s' }
const findings = (flags: Record<string, string>) =>
  resolveConfig(settingsOfFlags({ ...ON, ...flags })).findings
const CONCURRENT = 'execution.checkpointing.max-concurrent-checkpoints'

describe('one checkpoint at a time', () => {
  test('a pause between checkpoints forces it, with a note', () => {
    const config = resolveConfig(
      settingsOfFlags({ ...ON, 'execution.checkpointing.min-pause': '1 s', [CONCURRENT]: '3' }),
    )
    expect(config.get(CONCURRENT)).toBe(1)
    expect(config.findings).toEqual([
      expect.objectContaining({
        level: 'note',
        key: CONCURRENT,
        message: expect.stringMatching(/is 1 instead of 3.*min-pause is above 0/),
      }),
    ])
  })

  test('unaligned checkpoints force it, with a note', () => {
    const config = resolveConfig(
      settingsOfFlags({ ...ON, 'execution.checkpointing.unaligned': 'true', [CONCURRENT]: '3' }),
    )
    expect(config.get(CONCURRENT)).toBe(1)
    expect(config.findings.filter(({ level }) => level === 'note')).toMatchObject([
      { message: expect.stringContaining('unaligned is on') },
    ])
  })

  test('without a reason the number stays, without a note', () => {
    const config = resolveConfig(settingsOfFlags({ ...ON, [CONCURRENT]: '3' }))
    expect(config.get(CONCURRENT)).toBe(3)
    expect(config.findings).toEqual([])
  })

  test('nothing is noted when it is one already', () => {
    expect(findings({ 'execution.checkpointing.min-pause': '1 s' })).toEqual([])
  })
})

test('unaligned has no effect where barriers are only counted', () => {
  const config = resolveConfig(
    settingsOfFlags({
      ...ON,
      'execution.checkpointing.unaligned': 'true',
      'execution.checkpointing.mode': 'AT_LEAST_ONCE',
      [CONCURRENT]: '3',
    }),
  )
  expect(config.get('execution.checkpointing.unaligned')).toBe(false)
  expect(config.get(CONCURRENT)).toBe(3)
  expect(config.findings).toMatchObject([{ level: 'warning', key: 'execution.checkpointing.unaligned' }])
})

test('unaligned checkpoints are taken as they are asked for', () => {
  expect(findings({ 'execution.checkpointing.unaligned': 'true' })).toEqual([])
})

describe('what does not go together is refused', () => {
  test.each<[Record<string, string>, RegExp, OptionKey]>([
    [{ 'state.backend': 'filesystem' }, /state\.checkpoints\.dir is not set/, 'state.checkpoints.dir'],
    [
      { 'execution.checkpointing.interval': '5 ms' },
      /is 5 ms: it must be 0 \(off\) or at least 10 ms/,
      'execution.checkpointing.interval',
    ],
    [
      { 'parallelism.default': '200' },
      /is 200, above pipeline\.max-parallelism, which is 128/,
      'parallelism.default',
    ],
    [
      { 'kafka.sasl.username': 'u', 'kafka.sasl.password': 'p' },
      /kafka\.sasl\.mechanism is not set/,
      'kafka.sasl.mechanism',
    ],
    [
      { 'kafka.sasl.mechanism': 'plain', 'kafka.sasl.username': 'u' },
      /kafka\.sasl\.password is not set/,
      'kafka.sasl.password',
    ],
    [{ 'kafka.ssl.ca': 'ca.pem' }, /kafka\.ssl is false: the connection would not be encrypted/, 'kafka.ssl'],
    [{ 'kafka.ssl': 'true', 'kafka.ssl.cert': 'c.pem' }, /kafka\.ssl\.key is not set/, 'kafka.ssl.key'],
    [
      { 'restart-strategy.exponential-delay.initial-backoff': '2 min' },
      /is 2 min, above .*max-backoff, which is 1 min/,
      'restart-strategy.exponential-delay.initial-backoff',
    ],
    [
      { 'kafka.fetch.max-wait': '1 s', 'kafka.request-timeout': '1 s' },
      /must be below kafka\.request-timeout/,
      'kafka.fetch.max-wait',
    ],
  ])('%j', (flags, message, key) => {
    expect(() => findings(flags)).toThrow(
      expect.objectContaining({
        code: 'MILLRACE_INVALID_OPTION',
        message: expect.stringMatching(message),
        details: { key },
      }),
    )
  })

  test.each([
    { 'state.backend': 'filesystem', 'state.checkpoints.dir': '/data' },
    { 'kafka.sasl.mechanism': 'plain', 'kafka.sasl.username': 'u', 'kafka.sasl.password': 'p' },
    { 'kafka.ssl': 'true', 'kafka.ssl.ca': 'ca.pem' },
    { 'kafka.ssl': 'true', 'kafka.ssl.cert': 'c.pem', 'kafka.ssl.key': 'k.pem' },
    { 'parallelism.default': '128' },
  ])('%j is fine', (flags) => {
    expect(findings(flags as unknown as Record<string, string>)).toEqual([])
  })
})

describe('settings without effect are warned of', () => {
  test('an option of a restart strategy that is not chosen', () => {
    expect(findings({ 'restart-strategy.fixed-delay.attempts': '3' })).toMatchObject([
      {
        level: 'warning',
        message: expect.stringMatching(
          /no effect: restart-strategy\.type is exponential-delay, not fixed-delay/,
        ),
      },
    ])
  })

  test('a folder of checkpoints that are kept in a topic', () => {
    expect(findings({ 'state.checkpoints.dir': '/data' })).toMatchObject([
      { level: 'warning', key: 'state.checkpoints.dir' },
    ])
  })

  test('checkpoint options while checkpointing is off', () => {
    expect(
      findings({ 'execution.checkpointing.interval': '0', 'execution.checkpointing.timeout': '1 min' }),
    ).toMatchObject([
      {
        level: 'warning',
        key: 'execution.checkpointing.timeout',
        message: expect.stringContaining('checkpointing is off'),
      },
    ])
  })

  test('not when the job’s code made them: the operator may have chosen something else', () => {
    const code = {
      'restart-strategy.type': 'fixed-delay',
      'restart-strategy.fixed-delay.attempts': 3,
      'execution.checkpointing.timeout': 1_000,
    }
    const config = resolveConfig([
      ...settingsOfCode(code),
      ...settingsOfFlags({ 'restart-strategy.type': 'none' }),
    ])
    expect(config.findings).toEqual([])
  })
})
