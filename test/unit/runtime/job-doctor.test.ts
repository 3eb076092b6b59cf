/** What doctor looks at that is not in Kafka. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { fileFormats, fileSink, StreamExecutionEnvironment } from 'millrace'
import { loadConfig } from '../../../src/config.ts'
import type { Diagnosis } from '../../../src/core/diagnosis.ts'
import { buildJobGraph } from '../../../src/core/graph/job-graph-builder.ts'
import { compareClocks, timeOfRedis } from '../../../src/runtime/clock-diagnosis.ts'
import { diagnoseJob } from '../../../src/runtime/job-doctor.ts'
import { RecordingExecutor } from '../api/recording-executor.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-doctor-'))
})
afterEach(() => rm(folder, { recursive: true }))

/** What is found of a job that writes files into `out`. */
async function diagnose(flags: Record<string, string>, flinkFile?: string): Promise<readonly Diagnosis[]> {
  const executor = new RecordingExecutor()
  const env = StreamExecutionEnvironment.getExecutionEnvironment()
  env
    .fromSequence(1, 3)
    .uid('in')
    .sinkTo(fileSink({ path: join(folder, 'a file', 'out'), format: fileFormats.jsonLines() }))
    .name('files')
    .uid('out')
  await env.executeAsync('job')
  return diagnoseJob({
    jobName: 'job',
    loadConfig: () =>
      loadConfig({ flags, folder, environment: {}, ...(flinkFile === undefined ? {} : { flinkFile }) }),
    buildGraph: () =>
      buildJobGraph(executor.last.graph, { jobName: 'job', defaultParallelism: 1, maxParallelism: 128 }),
    withCluster: async () => undefined,
  })
}

const checks = (found: readonly Diagnosis[]): string[] => found.map(({ check }) => check)

describe('folders', () => {
  test('of file sinks are looked at', async () => {
    const name = `the path of sink 'files': ${join(folder, 'a file', 'out')}`
    expect(checks(await diagnose({}))).toContain(name)
    await writeFile(join(folder, 'a file'), '')
    const found = (await diagnose({})).filter(({ status }) => status === 'fix')
    expect(found.map(({ check }) => check)).toEqual([expect.stringContaining("the path of sink 'files'")])
  })

  test('of RocksDB are looked at: those of the option, or the one for temporary files', async () => {
    const rocksdb = { 'state.backend': 'rocksdb', 'state.checkpoints.dir': folder }
    const roots = (found: readonly Diagnosis[]): string[] =>
      checks(found).filter((check) => check.startsWith('taskmanager.state.local.root-dirs'))
    expect(roots(await diagnose(rocksdb))).toEqual([
      `taskmanager.state.local.root-dirs ${join(tmpdir(), 'millrace')}`,
    ])
    const [a, b] = [join(folder, 'a'), join(folder, 'b')]
    expect(roots(await diagnose({ ...rocksdb, 'taskmanager.state.local.root-dirs': `${a},${b}` }))).toEqual([
      `taskmanager.state.local.root-dirs ${a}`,
      `taskmanager.state.local.root-dirs ${b}`,
    ])
    expect(roots(await diagnose({}))).toEqual([])
  })
})

test("keys of Flink's file that mean nothing here are told, and are no fault", async () => {
  const file = join(folder, 'flink-conf.yaml')
  await writeFile(file, 'jobmanager.memory.process.size: 1600m\n')
  expect(await diagnose({}, file)).toEqual(
    expect.arrayContaining([
      { check: 'configuration', status: 'ok', message: 'all options are known and go together' },
      {
        check: 'configuration',
        status: 'ok',
        message: expect.stringContaining('jobmanager.memory.process.size'),
      },
    ]),
  )
})

test('clocks that are apart are to be fixed, whoever is ahead', () => {
  expect(compareClocks('clocks', 'Redis', 100_000, 104_000)).toMatchObject({ status: 'ok' })
  expect(compareClocks('clocks', 'Redis', 100_000, 160_000)).toMatchObject({
    status: 'fix',
    message: 'this machine is 60 s ahead of Redis',
  })
  expect(compareClocks('clocks', 'Redis', 160_000, 100_000).message).toBe('this machine is 60 s behind Redis')
  expect(timeOfRedis(['1700000000', '250000'])).toBe(1_700_000_000_250)
  expect(timeOfRedis('now')).toBeUndefined()
})
