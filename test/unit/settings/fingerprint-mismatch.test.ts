/** What a worker does that finds another graph under the name of its job. */
import { expect, test } from '@jest/globals'
import {
  json,
  kafkaSink,
  kafkaSource,
  OffsetsInitializer,
  type StreamExecutionEnvironment,
  WatermarkStrategy,
} from 'millrace'
import type { EndedJob, RunningJob } from '../../../src/api/job-handle.ts'
import { MemoryBlobStore } from '../../../src/state/memory-blob-store.ts'
import { captureJob } from '../../../src/testing/captured-job.ts'
import { CheckpointLog } from '../../../src/testing/checkpoint-log.ts'
import { DrivenWorker } from '../../../src/testing/driven-worker.ts'
import { recordingLogger } from '../../../src/testing/recorded-log.ts'
import { SeededRandom } from '../../../src/testing/seeded-random.ts'
import { SimulatedKafka } from '../../../src/testing/simulated-cluster.ts'
import { VirtualTime } from '../../../src/testing/virtual-time.ts'

const copy =
  (uid: string) =>
  (env: StreamExecutionEnvironment): void => {
    env
      .fromSource(
        kafkaSource<number>({
          topics: ['in'],
          groupId: 'g',
          startingOffsets: OffsetsInitializer.earliest(),
          value: json(),
        }),
        WatermarkStrategy.noWatermarks<number>(),
        'in',
      )
      .uid('in')
      .map((value) => value)
      .uid(uid)
      .sinkTo(kafkaSink({ topic: 'out', value: json() }))
      .uid('out')
  }

/** Two worker processes of one job name over the same brokers; the second one has another graph. */
async function twoGraphs(onMismatch: 'fail' | 'wait') {
  const random = new SeededRandom(1)
  const time = new VirtualTime({ random: random.fork('order') })
  const kafka = new SimulatedKafka({ clock: time, timers: time, random: random.fork('kafka') })
  for (const topic of ['in', 'out'])
    await time.settle(kafka.client('setup').createTopics([{ topic, partitions: 1, replicationFactor: 1 }]))
  const blobs = new MemoryBlobStore()
  const start = async (name: string, uid: string): Promise<DrivenWorker> => {
    const { submission } = await captureJob({
      declare: copy(uid),
      start: { number: 1 },
      jobName: 'job',
      running: {} as RunningJob,
      clock: time,
      patienceMs: 60_000,
    })
    const worker = new DrivenWorker({
      name,
      submission,
      defaults: { 'parallelism.default': 1, 'restart-strategy.type': 'none' },
      config: { 'execution.checkpointing.interval': 1_000, 'on-fingerprint-mismatch': onMismatch },
      start: { fresh: false, allowNonRestoredState: false, acceptLostTransactions: [] },
      kafka,
      time,
      random: random.fork(name),
      logger: recordingLogger([], time),
      local: { store: new CheckpointLog(blobs), blobs },
      realWaitMs: 3_000,
      onPoint: () => undefined,
      onEnd: (_end: EndedJob) => undefined,
    })
    worker.start()
    return worker
  }
  const until = async (holds: () => boolean): Promise<void> => {
    expect(await time.runUntil(holds, { maxMs: 120_000 })).toBe('reached')
  }
  const running = await start('a', 'copy')
  await until(() => running.status === 'RUNNING')
  return { time, until, running, other: await start('b', 'other copy') }
}

test('fail: a job with another graph ends with an error while the running one goes on', async () => {
  const { until, running, other } = await twoGraphs('fail')
  await until(() => !other.alive)
  expect(other.end).toMatchObject({ status: 'FAILED', error: { code: 'MILLRACE_JOB_CONFLICT' } })
  expect(running.status).toBe('RUNNING')
})

test('wait: a job with another graph stands by, and runs when the running one is gone', async () => {
  const { time, until, running, other } = await twoGraphs('wait')
  await time.advance(60_000)
  expect([running.status, other.status, other.alive]).toEqual(['RUNNING', 'CREATED', true])
  running.stop()
  await until(() => other.status === 'RUNNING')
  expect(running.end?.status).toBe('SUSPENDED')
})
