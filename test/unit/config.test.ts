import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { settingsOfCode, settingsOfFlags } from '../../src/config/setting.ts'
import {
  type Config,
  type ConfigRequest,
  loadConfig,
  resolveConfig,
  validateSettings,
} from '../../src/config.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-config-'))
})
afterEach(() => rm(folder, { recursive: true }))

const load = (request: Partial<ConfigRequest>): Promise<Config> =>
  loadConfig({ folder, environment: {}, ...request })
const sourceOf = (config: Config, key: string) => config.describe().find((option) => option.key === key)

describe('the order of strength', () => {
  const code = { 'log.level': 'debug' }
  const environment = { MILLRACE_LOG_LEVEL: 'warn' }
  const flags = { 'log.level': 'error' }

  test('default < code < file < environment < flag', async () => {
    expect((await load({})).get('log.level')).toBe('info')
    expect((await load({ code })).get('log.level')).toBe('debug')
    await writeFile(join(folder, 'millrace.yaml'), 'log.level: info')
    expect((await load({ code })).get('log.level')).toBe('info')
    expect((await load({ code, environment })).get('log.level')).toBe('warn')
    expect((await load({ code, environment, flags })).get('log.level')).toBe('error')
  })

  test('a shared variable beats the file, and the own variable beats both', async () => {
    await writeFile(join(folder, 'millrace.yaml'), 'kafka.brokers: file:1')
    const shared = { KAFKA_BROKERS: 'shared:1' }
    expect((await load({ environment: shared })).get('kafka.brokers')).toEqual(['shared:1'])
    expect(
      (await load({ environment: { ...shared, MILLRACE_KAFKA_BROKERS: 'own:1' } })).get('kafka.brokers'),
    ).toEqual(['own:1'])
  })

  test('describe tells where each value came from', async () => {
    await writeFile(join(folder, 'millrace.yaml'), '\nparallelism.default: 2')
    const config = await load({
      code: { 'execution.checkpointing.interval': 1_000 },
      environment: { KAFKA_BROKERS: 'a:1' },
      flags,
    })
    expect(sourceOf(config, 'execution.checkpointing.interval')).toMatchObject({
      value: '1 s',
      source: "the job's code",
    })
    expect(sourceOf(config, 'parallelism.default')).toMatchObject({ value: '2', source: 'millrace.yaml:2' })
    expect(sourceOf(config, 'kafka.brokers')).toMatchObject({
      value: 'a:1',
      source: 'variable KAFKA_BROKERS',
    })
    expect(sourceOf(config, 'log.level')).toMatchObject({ value: 'error', source: '-D log.level' })
    expect(sourceOf(config, 'log.format')).toMatchObject({ value: 'auto', source: 'default' })
    expect(sourceOf(config, 'state.checkpoints.dir')).toMatchObject({ value: undefined, source: 'default' })
    expect(config.isSet('log.level')).toBe(true)
    expect(config.isSet('log.format')).toBe(false)
  })
})

test('values have the types of the table', () => {
  const config = resolveConfig([])
  const interval: number = config.get('execution.checkpointing.interval')
  const folderOrNone: string | undefined = config.get('state.checkpoints.dir')
  const backend: 'jobmanager' | 'filesystem' | 'rocksdb' | 'redis' = config.get('state.backend')
  const parallelism: number | 'auto' = config.get('parallelism.default')
  const brokers: readonly string[] | undefined = config.get('kafka.brokers')
  const asynchronous: boolean = config.get('state.backend.async')
  expect([interval, folderOrNone, backend, parallelism, brokers, asynchronous]).toEqual([
    0,
    undefined,
    'jobmanager',
    'auto',
    undefined,
    true,
  ])
  expect(config.get('execution.checkpointing.timeout')).toBe(600_000)
  expect(config.get('state.backend.fs.memory-threshold')).toBe(1_024)
})

describe('an unknown key', () => {
  const refusal = (key: string) => {
    try {
      resolveConfig(settingsOfFlags({ [key]: 'x' }))
    } catch (error) {
      return error as Error & { code: string }
    }
    throw new Error('it was accepted')
  }

  test('is refused with where it came from and the nearest known one', () => {
    expect(refusal('state.bakend')).toMatchObject({
      code: 'MILLRACE_UNKNOWN_OPTION',
      message: "Unknown option 'state.bakend' (-D state.bakend); did you mean 'state.backend'?",
      details: { key: 'state.bakend', nearest: 'state.backend' },
    })
  })

  test.each([
    ['bootstrap.servers', 'kafka.brokers'],
    ['state.backend.type', 'state.backend'],
    ['execution.checkpointing.dir', 'state.checkpoints.dir'],
    ['restart-strategy', 'restart-strategy.type'],
  ])('%s, as other systems call it, leads to %s', (key, known) => {
    expect(refusal(key).message).toContain(`did you mean '${known}'?`)
  })

  test('that resembles nothing gets no suggestion', () => {
    expect(refusal('rest.port').message).not.toContain('did you mean')
  })

  test('in the file names file and line', async () => {
    await writeFile(join(folder, 'millrace.yaml'), 'log:\n  level: info\n  lvel: info\n')
    await expect(load({})).rejects.toThrow(
      "Unknown option 'log.lvel' (millrace.yaml:3); did you mean 'log.level'?",
    )
  })

  test('in the environment names the variables', async () => {
    await expect(load({ environment: { MILLRACE_LOG_LEVL: 'info' } })).rejects.toThrow(
      "The variable MILLRACE_LOG_LEVL names no option; did you mean 'MILLRACE_LOG_LEVEL'?",
    )
  })
})

describe('a value that does not fit', () => {
  test('is refused with key, value, source and what was expected', async () => {
    await expect(
      load({ environment: { MILLRACE_EXECUTION_CHECKPOINTING_TIMEOUT: 'soon' } }),
    ).rejects.toMatchObject({
      code: 'MILLRACE_INVALID_OPTION',
      message:
        "execution.checkpointing.timeout cannot be 'soon' (variable MILLRACE_EXECUTION_CHECKPOINTING_TIMEOUT): " +
        'expected a duration such as "500 ms" or "10 min", at least 10 ms',
    })
  })

  test('is refused even when a stronger setting hides it', async () => {
    await writeFile(join(folder, 'millrace.yaml'), 'log.level: loud')
    await expect(load({ flags: { 'log.level': 'info' } })).rejects.toThrow(
      /log\.level cannot be 'loud' \(millrace\.yaml:1\)/,
    )
  })

  test('all problems are told at once', () => {
    expect(() => resolveConfig(settingsOfFlags({ 'log.level': 'loud', 'log.lvel': 'info' }))).toThrow(
      /2 problems:\n {2}- log\.level cannot be 'loud'.*\n {2}- Unknown option 'log\.lvel'/,
    )
  })
})

test('secrets show neither in describe nor in errors', async () => {
  const environment = {
    MILLRACE_KAFKA_SASL_PASSWORD: 'hunter2',
    SCHEMA_REGISTRY_URL: 'http://u:hunter2@host:1',
  }
  const flags = { 'kafka.sasl.mechanism': 'plain', 'kafka.sasl.username': 'u' }
  const config = await load({ environment, flags })
  expect(config.get('kafka.sasl.password')).toBe('hunter2')
  expect(JSON.stringify(config.describe())).not.toContain('hunter2')
  expect(JSON.stringify(config)).not.toContain('hunter2')
  await expect(load({ environment: { SCHEMA_REGISTRY_URL: 'ftp://u:hunter2@host' } })).rejects.toThrow(
    /^((?!hunter2).)*$/s,
  )
})

test('settings alone are checked one by one: whether they go together is known only with the code', async () => {
  const request = { folder, environment: {}, flags: { 'state.backend': 'filesystem' } }
  await expect(validateSettings(request)).resolves.toBeUndefined()
  await expect(loadConfig(request)).rejects.toThrow(/state\.checkpoints\.dir is not set/)
  await expect(loadConfig({ ...request, code: { 'state.checkpoints.dir': '/data' } })).resolves.toBeDefined()
  await expect(validateSettings({ ...request, flags: { nope: '1' } })).rejects.toMatchObject({
    code: 'MILLRACE_UNKNOWN_OPTION',
  })
})

test('settings of code may be numbers, booleans and lists', () => {
  const code = {
    'execution.checkpointing.interval': 250,
    'state.backend.async': false,
    'kafka.brokers': ['a:1', 'b:2'],
  }
  const config = resolveConfig(settingsOfCode(code))
  expect(config.get('execution.checkpointing.interval')).toBe(250)
  expect(config.get('state.backend.async')).toBe(false)
  expect(config.get('kafka.brokers')).toEqual(['a:1', 'b:2'])
})

test.each([
  ['rest.port', '8081', /^rest\.port \(-D rest\.port\) is not in this version: no web page is served/],
  ['metrics.reporter.prom.port', '9249', /is not in this version: no reporter is built in/],
])('%s is said to be not in this version', async (key, value, message) => {
  await expect(load({ flags: { [key]: value } })).rejects.toMatchObject({
    code: 'MILLRACE_UNKNOWN_OPTION',
    message: expect.stringMatching(message),
  })
})

test('the threshold of small state acts on savepoints whatever the backend: no warning', () => {
  for (const backend of ['jobmanager', 'filesystem']) {
    const settings = settingsOfFlags({
      'state.backend': backend,
      'state.backend.fs.memory-threshold': '2kb',
      ...(backend === 'filesystem' ? { 'state.checkpoints.dir': '/c' } : {}),
    })
    expect(resolveConfig(settings).findings).toEqual([])
  }
})
