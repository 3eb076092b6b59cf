/**
 * Jobs without Kafka that run in this process as in production: settings are read, and everything is composed, as `env.execute` does it.
 * What they log is kept from the terminal.
 */
import { type Dirent, existsSync } from 'node:fs'
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { jest } from '@jest/globals'
import {
  type Collector,
  type JobClient,
  KeyedProcessFunction,
  type RuntimeContext,
  StreamExecutionEnvironment,
  type ValueState,
  ValueStateDescriptor,
  WatermarkStrategy,
} from 'millrace'
import type { FedSource } from './fed-source.ts'

export type Settings = Readonly<Record<string, string | number | boolean>>

export class LocalJobs {
  readonly folder: string
  /** All that went to stderr. */
  readonly stderr: string[] = []
  readonly #clients: JobClient[] = []
  readonly #undo: () => void

  private constructor(folder: string) {
    this.folder = folder
    const spy = jest.spyOn(process.stderr, 'write').mockImplementation((text) => {
      this.stderr.push(String(text))
      return true
    })
    this.#undo = () => spy.mockRestore()
  }

  static async open(): Promise<LocalJobs> {
    return new LocalJobs(await mkdtemp(join(tmpdir(), 'millrace-settings-')))
  }

  get checkpoints(): string {
    return join(this.folder, 'checkpoints')
  }

  /** Starts a job; the settings are those of its code. */
  async start(declare: (env: StreamExecutionEnvironment) => void, settings: Settings): Promise<JobClient> {
    const env = StreamExecutionEnvironment.getExecutionEnvironment({
      'state.checkpoints.dir': this.checkpoints,
      'execution.checkpointing.interval': '1 h',
      'restart-strategy.type': 'none',
      'log.format': 'json',
      ...settings,
    })
    declare(env)
    const client = await env.executeAsync('job')
    this.#clients.push(client)
    return client
  }

  /** Files below a folder of the test, relative to it, with their sizes. */
  async files(folder: string): Promise<Map<string, number>> {
    const entries = await entriesBelow(folder)
    const sizes = new Map<string, number>()
    for (const entry of entries) {
      if (!entry.isFile()) continue
      const path = join(entry.parentPath, entry.name)
      const found = await stat(path).catch(() => undefined)
      // A running job may have removed it meanwhile.
      if (found !== undefined) sizes.set(relative(folder, path), found.size)
    }
    return sizes
  }

  /** Numbers of the checkpoints that lie in the directory. */
  async stored(): Promise<number[]> {
    const folders = [...(await this.files(this.checkpoints)).keys()].map(
      (path) => /chk-(\d+)/.exec(path)?.[1],
    )
    return [...new Set(folders.filter((n) => n !== undefined).map(Number))].sort((a, b) => a - b)
  }

  async until(what: string, isTrue: () => boolean | Promise<boolean>): Promise<void> {
    const deadline = Date.now() + 20_000
    while (!(await isTrue())) {
      if (Date.now() > deadline) throw new Error(`not within 20 s: ${what}\n${this.stderr.join('')}`)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.cancel()))
    this.#undo()
    await rm(this.folder, { recursive: true, force: true })
  }
}

export interface Counted {
  readonly key: number
  readonly count: number
}

/** Each subtask gets a copy of its own, so it has no #private fields: its constructor takes something. */
class Count extends KeyedProcessFunction<number, number, Counted> {
  private count!: ValueState<{ count: number; pad: string }>
  private readonly pad: string
  constructor(stateBytes: number) {
    super()
    this.pad = 'x'.repeat(stateBytes)
  }
  override open(context: RuntimeContext): void {
    this.count = context.getState(new ValueStateDescriptor('count'))
  }
  override processElement(_key: number, context: this['Context'], out: Collector<Counted>): void {
    const count = (this.count.value()?.count ?? 0) + 1
    this.count.update({ count, pad: this.pad })
    out.collect({ key: context.getCurrentKey(), count })
  }
}

/** Counts the numbers that it is fed, each as a key of its own; `onCount` hears of each, and may throw. `stateBytes`: of each key, about. */
export function counting(
  source: FedSource<number>,
  onCount: (counted: Counted) => void = () => undefined,
  { parallelism = 1, stateBytes = 50 } = {},
): (env: StreamExecutionEnvironment) => void {
  return (env) => {
    env
      .fromSource(source, WatermarkStrategy.noWatermarks(), 'numbers')
      .uid('numbers')
      .setParallelism(1)
      .keyBy((n) => n)
      .process(new Count(stateBytes))
      .uid('count')
      .setParallelism(parallelism)
      .map((counted) => {
        onCount(counted)
        return counted
      })
      .uid('look')
      .setParallelism(parallelism)
      .sinkTo({
        kind: 'nothing',
        describe: () => ({}),
        createWriter: () => ({ write: () => undefined, flush: () => undefined, close: () => undefined }),
      })
      .uid('nothing')
      .setParallelism(parallelism)
  }
}

/** All entries; none if the folder is missing. A running job may remove folders while they are read: then it is read again. */
async function entriesBelow(folder: string): Promise<Dirent[]> {
  for (;;) {
    try {
      return await readdir(folder, { recursive: true, withFileTypes: true })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      if (!existsSync(folder)) return []
    }
  }
}
