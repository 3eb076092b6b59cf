import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { parseFlinkFile, translate } from '../../../src/config/flink-file.ts'
import { type ConfigRequest, loadConfig } from '../../../src/config.ts'

const read = async (text: string, name = 'flink-conf.yaml') =>
  translate(await parseFlinkFile(text, name), name)

/** Key and value of each setting. */
const made = async (text: string, name?: string): Promise<Record<string, unknown>> =>
  Object.fromEntries((await read(text, name)).settings.map(({ key, input }) => [key, input]))

describe('flink-conf.yaml', () => {
  test('is read line by line as Flink does: what YAML would refuse is no obstacle', async () => {
    const text = [
      '# a comment',
      'env.java.opts.all: -Dfile.encoding=UTF-8 -Dx: y',
      'execution.checkpointing.interval: 3min   # often',
      'parallelism.default:2',
      'taskmanager.numberOfTaskSlots: 4',
      'execution.checkpointing.mode:   AT_LEAST_ONCE',
    ].join('\n')
    expect(await made(text)).toEqual({
      'execution.checkpointing.interval': '3min',
      'taskmanager.numberOfTaskSlots': '4',
      'execution.checkpointing.mode': 'AT_LEAST_ONCE',
    })
    const [interval] = (await read(text)).settings
    expect(interval).toMatchObject({ origin: 'flink', source: 'flink-conf.yaml:3' })
  })

  test('says once which keys mean nothing here', async () => {
    const { notes, settings } = await read('jobmanager.rpc.port: 6123\nrest.port: 8081\nfoo: bar')
    expect(notes).toHaveLength(2)
    expect(notes[1]).toBe(
      'flink-conf.yaml: rest.port is not in this version and is ignored: no web page is served; millrace info, events and list reach a job through Kafka',
    )
    expect(notes[0]).toMatch(
      /^flink-conf.yaml: \d settings mean nothing here and are ignored: jobmanager.rpc.port, /,
    )
    expect(notes[0]).toContain('foo')
    expect(settings.map(({ key }) => key)).not.toContain('foo')
  })
})

describe('config.yaml', () => {
  test('is nested YAML; lists of maps and keys without a value are no obstacle', async () => {
    const text = `
execution:
  checkpointing:
    interval: 10 s
    unaligned: { enabled: true }
    aligned-checkpoint-timeout: 30 s
restart-strategy:
  type: fixed-delay
  fixed-delay: { attempts: 3, delay: 10 s }
jobmanager:
  rpc: { address: }
security: { contexts: [{ a: 1 }] }
`
    expect(await made(text, 'conf/config.yaml')).toEqual({
      'execution.checkpointing.interval': '10 s',
      'execution.checkpointing.unaligned': 'true',
      'execution.checkpointing.aligned-checkpoint-timeout': '30 s',
      'restart-strategy.type': 'fixed-delay',
      'restart-strategy.fixed-delay.attempts': '3',
      'restart-strategy.fixed-delay.delay': '10 s',
    })
  })
})

describe('names of Flink', () => {
  test.each([
    ['execution.checkpointing.dir: file:///c', 'state.checkpoints.dir', 'file:///c'],
    ['state.backend.fs.checkpointdir: /c', 'state.checkpoints.dir', '/c'],
    ['execution.checkpointing.savepoint-dir: /s', 'state.savepoints.dir', '/s'],
    ['execution.checkpointing.num-retained: 3', 'state.checkpoints.num-retained', '3'],
    ['execution.checkpointing.data-inline-threshold: 20kb', 'state.backend.fs.memory-threshold', '20kb'],
    [
      'execution.checkpointing.alignment-timeout: 5 s',
      'execution.checkpointing.aligned-checkpoint-timeout',
      '5 s',
    ],
    [
      'execution.checkpointing.max-concurrent-checkpoints: 3',
      'execution.checkpointing.max-concurrent-checkpoints',
      '3',
    ],
    ['restart-strategy: failure-rate', 'restart-strategy.type', 'failure-rate'],
    ['restart-strategy.type: disable', 'restart-strategy.type', 'none'],
    ['restart-strategy: off', 'restart-strategy.type', 'none'],
    ['pipeline.max-parallelism: 256', 'pipeline.max-parallelism', '256'],
  ])('%s', async (line, key, value) => {
    expect(await made(line)).toMatchObject({ [key]: value })
  })

  test('the newest of several names for one option counts, wherever it stands', async () => {
    expect(
      await made(
        'execution.checkpointing.dir: /new\nstate.checkpoints.dir: /old\nstate.backend.fs.checkpointdir: /oldest',
      ),
    ).toMatchObject({ 'state.checkpoints.dir': '/new' })
  })

  test('-1 is no parallelism but none', async () => {
    expect(await made('parallelism.default: -1\npipeline.max-parallelism: -1')).toEqual({})
  })
})

describe('state.backend is what backend and storage say together', () => {
  test.each([
    ['state.backend.type: hashmap', 'jobmanager'],
    [
      'state.backend.type: hashmap\nstate.checkpoint-storage: filesystem\nstate.checkpoints.dir: /c',
      'filesystem',
    ],
    [
      'state.backend.type: hashmap\nexecution.checkpointing.storage: jobmanager\nstate.checkpoints.dir: /c',
      'jobmanager',
    ],
    ['execution.checkpointing.dir: /c', 'filesystem'],
    ['state.backend: filesystem\nstate.checkpoints.dir: /c', 'filesystem'],
    ['state.backend: memory', 'jobmanager'],
    ['state.backend: jobmanager\nstate.checkpoint-storage: filesystem', 'filesystem'],
    ['state.backend.type: rocksdb\nstate.checkpoints.dir: /c', 'rocksdb'],
  ])('%j', async (text, backend) => {
    expect(await made(text)).toMatchObject({ 'state.backend': backend })
  })
})

describe('what Flink means in another way', () => {
  test('NO_EXTERNALIZED_CHECKPOINTS deletes on cancellation, and a warning says that a failed job keeps its own', async () => {
    const { settings, warnings } = await read(
      'execution.checkpointing.externalized-checkpoint-retention: NO_EXTERNALIZED_CHECKPOINTS',
    )
    expect(settings[0]?.input).toBe('DELETE_ON_CANCELLATION')
    expect(warnings).toEqual([expect.stringContaining('a job that FAILED keeps its checkpoints')])
  })

  test.each(['execution.state-recovery.path: /s', 'execution.savepoint.path: /s'])(
    '%s is a warning that names the flag',
    async (line) => {
      const { settings, warnings, notes } = await read(line)
      expect({ settings, notes }).toEqual({ settings: [], notes: [] })
      expect(warnings).toEqual([expect.stringContaining('--from-savepoint')])
    },
  )
})

describe('in the layers', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-flink-'))
    await writeFile(
      join(folder, 'flink-conf.yaml'),
      'execution.checkpointing.interval: 1 min\nexecution.checkpointing.timeout: 2 min\nstate.backend: com.example.Backend\nrest.bind-port: 1\n',
    )
    await writeFile(join(folder, 'millrace.yaml'), 'execution.checkpointing.timeout: 3 min\n')
  })
  afterAll(() => rm(folder, { recursive: true }))

  const load = (request: Partial<ConfigRequest> = {}) =>
    loadConfig({ folder, environment: {}, flinkFile: 'flink-conf.yaml', ...request })

  test('the file beats the job and is beaten by millrace.yaml; what is overridden is not even looked at', async () => {
    const config = await load({
      code: { 'execution.checkpointing.interval': 5 },
      flags: { 'state.backend': 'jobmanager' },
    })
    expect(config.get('execution.checkpointing.interval')).toBe(60_000)
    expect(config.get('execution.checkpointing.timeout')).toBe(180_000)
    expect(config.describe().find(({ key }) => key === 'execution.checkpointing.interval')?.source).toBe(
      'flink-conf.yaml:1',
    )
  })

  test('a value that does not fit is refused with its line', async () => {
    await expect(load()).rejects.toMatchObject({
      code: 'MILLRACE_INVALID_OPTION',
      message: expect.stringMatching(
        /state\.backend cannot be 'com\.example\.Backend' \(flink-conf\.yaml:3\)/,
      ),
    })
  })

  test('what is ignored is one note', async () => {
    const { findings } = await load({ flags: { 'state.backend': 'jobmanager' } })
    expect(findings.filter(({ level }) => level === 'note')).toEqual([
      { level: 'note', message: expect.stringContaining('rest.bind-port') },
    ])
  })

  test('a file that is not there is an error', async () => {
    await expect(load({ flinkFile: 'nope.yaml' })).rejects.toMatchObject({ code: 'MILLRACE_CONFIG_FILE' })
  })
})
