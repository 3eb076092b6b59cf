/** The counting job of the tests of savepoints, and what is done with it again and again. */
import { expect } from '@jest/globals'
import {
  type Collector,
  type CollectSink,
  KeyedProcessFunction,
  type RuntimeContext,
  type Sink,
  type StreamExecutionEnvironment,
  type ValueState,
  ValueStateDescriptor,
} from 'millrace'
import type { JobMaster } from '../../../src/runtime/job-master.ts'
import type { SavepointTarget, SnapshotFolders, StateStorage } from '../../../src/runtime/state-storage.ts'
import type { SavepointScene, SceneJob } from './savepoint-scene.ts'

export const KEYS = 7
export const RECORDS = 9_000

export interface Count {
  readonly key: number
  readonly count: number
}

export class CountPerKey extends KeyedProcessFunction<number, number, Count> {
  #count!: ValueState<number>
  override open(context: RuntimeContext): void {
    this.#count = context.getState(new ValueStateDescriptor<number>('count'))
  }
  override processElement(_value: number, context: this['Context'], out: Collector<Count>): void {
    const count = (this.#count.value() ?? 0) + 1
    this.#count.update(count)
    out.collect({ key: context.getCurrentKey(), count })
  }
}

/** A sink that holds its job back once it has seen `limit` records, so that a savepoint falls into the middle of the input. */
export class Brake {
  seen = 0
  limit = Number.POSITIVE_INFINITY
  /** Behind the limit, for each vector. */
  pauseMs = 5
  readonly sink: Sink<unknown> = {
    kind: 'brake',
    describe: () => ({}),
    createWriter: () => ({
      write: () => {
        this.seen++
        return new Promise<void>((resolve) => setTimeout(resolve, this.seen > this.limit ? this.pauseMs : 0))
      },
      flush: () => undefined,
      close: () => undefined,
    }),
  }
}

interface CountJob {
  readonly out: CollectSink<Count>
  readonly brake?: Brake
  readonly parallelism?: number
  /** How many keys there are; more keys, more bytes. */
  readonly keys?: number
  readonly uids?: { readonly count?: string }
}

/** Counts per key; with a brake it does not come to its end. */
export function counting({
  out,
  brake,
  parallelism = 1,
  keys = KEYS,
  uids = {},
}: CountJob): (env: StreamExecutionEnvironment) => void {
  return (env) => {
    const counts = env
      .fromSequence(1, RECORDS)
      .setParallelism(1)
      .uid('numbers')
      .keyBy((value) => value % keys)
      .process(new CountPerKey())
      .uid(uids.count ?? 'count')
      .setParallelism(parallelism)
    counts.sinkTo(out).uid('out').setParallelism(1)
    if (brake !== undefined) counts.sinkTo(brake.sink).uid('brake').setParallelism(parallelism)
  }
}

/** Every count of every key, once. */
export function allCounts(): string[] {
  const counts = new Map<number, number>()
  return Array.from({ length: RECORDS }, (_, i) => {
    const key = (i + 1) % KEYS
    counts.set(key, (counts.get(key) ?? 0) + 1)
    return `${key}:${counts.get(key)}`
  }).sort()
}

export function written(...sinks: CollectSink<Count>[]): string[] {
  return sinks.flatMap((sink) => sink.values().map(({ key, count }) => `${key}:${count}`)).sort()
}

export async function waitFor(scene: SavepointScene, what: string, isTrue: () => boolean): Promise<void> {
  const deadline = Date.now() + 10_000
  while (!isTrue()) {
    if (Date.now() > deadline) throw new Error(`not within 10 s: ${what}\n${scene.logged.join('\n')}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/**
 * Runs the counting job, takes checkpoint 1 and then a savepoint whose leader dies after its commits and before its metadata. Resolves with
 * the savepoint's folder.
 */
export async function dieBehindSavepoint(
  scene: SavepointScene,
  out: CollectSink<Count>,
  job: Pick<SceneJob, 'config' | 'redis'> = {},
): Promise<string> {
  const [brake, { store }] = [new Brake(), scene]
  brake.limit = 10
  brake.pauseMs = 200
  const commitPoint = store.commitPoint.bind(store)
  const dead = () => Promise.reject(new Error('the leader is dead'))
  let path = ''
  const master = await scene.start({
    ...job,
    declare: counting({ out, brake }),
    storage: (storage) => ({
      ...storage,
      folders: {
        ...folderCalls(storage),
        create: async (directory, id) => {
          const target = await storage.folders!.create(directory, id)
          path = target.path
          store.commitPoint = async (...args) => {
            const outcome = await commitPoint(...args)
            store.commitPoint = dead
            return outcome
          }
          return { ...targetCalls(target), path, finish: dead }
        },
      },
    }),
  })
  const end = master.run()
  await waitFor(scene, 'the job is in the middle of its input', () => brake.seen > 20)
  await master.triggerCheckpoint()
  await expect(master.triggerSavepoint()).rejects.toBeDefined()
  await expect(master.triggerCheckpoint()).rejects.toBeDefined()
  expect((await end).status).not.toBe('FINISHED')
  store.commitPoint = commitPoint
  return path
}

const folderCalls = ({ folders }: StateStorage): SnapshotFolders => ({
  create: (directory, id) => folders!.create(directory, id),
  finish: (checkpoint) => folders!.finish(checkpoint),
  open: (path) => folders!.open(path),
  keep: (checkpoint) => folders!.keep(checkpoint),
})

const targetCalls = (target: SavepointTarget): SavepointTarget => ({
  path: target.path,
  blobs: target.blobs,
  seal: () => target.seal(),
  unseal: () => target.unseal(),
  finish: (checkpoint) => target.finish(checkpoint),
  abandon: () => target.abandon(),
})

/** Runs the counting job into its middle and stops it with a savepoint. */
export async function stopInTheMiddle(
  scene: SavepointScene,
  out: CollectSink<Count>,
  config: SceneJob['config'] = {},
  drain = false,
): Promise<string> {
  const brake = new Brake()
  brake.limit = 10
  const master = await scene.start({ declare: counting({ out, brake }), config })
  const end = master.run()
  await waitFor(scene, 'the job is in the middle of its input', () => brake.seen > 20)
  const path = await master.stopWithSavepoint(undefined, { drain })
  expect(await end).toEqual({ status: 'FINISHED' })
  expect(written(out).length).toBeGreaterThan(0)
  expect(written(out).length).toBeLessThan(RECORDS)
  return path
}

export async function finish(scene: SavepointScene, job: SceneJob): Promise<JobMaster> {
  const master = await scene.start(job)
  const end = await master.run()
  if (end.status !== 'FINISHED') throw end.error
  return master
}

export const RESTARTS = {
  'restart-strategy.type': 'fixed-delay',
  'restart-strategy.fixed-delay.attempts': 20,
  'restart-strategy.fixed-delay.delay': '10 ms',
}

/** Begin with what lies at the path. */
export const from = (path: string): Pick<SceneJob, 'restoreFrom'> => ({ restoreFrom: { type: 'path', path } })
