import { describe, expect, test } from '@jest/globals'
import {
  isOperators,
  settingsOfCode,
  settingsOfEnvironment,
  settingsOfFlags,
} from '../../../src/config/setting.ts'

describe('the environment', () => {
  test('a variable sets the option that it is named after', () => {
    expect(
      settingsOfEnvironment({ MILLRACE_EXECUTION_CHECKPOINTING_MIN_PAUSE: '1 s', PATH: '/bin' }),
    ).toEqual([
      {
        key: 'execution.checkpointing.min-pause',
        input: '1 s',
        origin: 'environment',
        source: 'variable MILLRACE_EXECUTION_CHECKPOINTING_MIN_PAUSE',
        writtenAs: 'MILLRACE_EXECUTION_CHECKPOINTING_MIN_PAUSE',
      },
    ])
  })

  test('a shared name comes first, so that the own one beats it', () => {
    const settings = settingsOfEnvironment({ MILLRACE_KAFKA_BROKERS: 'own:1', KAFKA_BROKERS: 'shared:1' })
    expect(settings.map(({ key, input }) => [key, input])).toEqual([
      ['kafka.brokers', 'shared:1'],
      ['kafka.brokers', 'own:1'],
    ])
  })

  test('an empty variable counts as not set', () => {
    expect(settingsOfEnvironment({ KAFKA_BROKERS: '', MILLRACE_LOG_LEVEL: '', MILLRACE_TYPO: '' })).toEqual(
      [],
    )
  })

  test('an unknown name with the prefix is kept, to be refused', () => {
    expect(settingsOfEnvironment({ MILLRACE_KAFKA_BROKER: 'a:1' })).toMatchObject([
      { key: 'MILLRACE_KAFKA_BROKER' },
    ])
  })

  test('variables that Kubernetes makes for a service of that name are no settings', () => {
    const links = {
      MILLRACE_SERVICE_HOST: '10.0.0.1',
      MILLRACE_SERVICE_PORT: '8081',
      MILLRACE_UI_SERVICE_PORT_HTTP: '8081',
      MILLRACE_PORT: 'tcp://10.0.0.1:8081',
      MILLRACE_PORT_8081_TCP: 'tcp://10.0.0.1:8081',
      MILLRACE_UI_PORT_8081_TCP_ADDR: '10.0.0.1',
    }
    expect(settingsOfEnvironment(links)).toEqual([])
  })
})

test('a setting of code that is undefined was not made', () => {
  expect(settingsOfCode({ 'log.level': undefined, 'parallelism.default': 4 })).toMatchObject([
    { key: 'parallelism.default', input: 4, source: "the job's code" },
  ])
})

test('only settings from outside the code are the operator’s', () => {
  const [code] = settingsOfCode({ 'log.level': 'info' })
  const [flag] = settingsOfFlags({ 'log.level': 'info' })
  expect([isOperators(code!), isOperators(flag!)]).toEqual([false, true])
})
