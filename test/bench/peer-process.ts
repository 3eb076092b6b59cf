/** Starts and ends the processes of one peer and hears their FIRST marks. */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, createWriteStream, mkdirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { BenchJob } from './data.ts'
import { cpuSeconds, peakMegabytes } from './process-stats.ts'

/** What a peer runs on. */
export interface PeerRun {
  readonly command: readonly string[]
  readonly processes: number
  readonly bootstrap: string
  readonly input: string
  readonly output: string
  readonly job: BenchJob
  readonly appId: string
  readonly commitMs: number
  readonly graceMs: number
  /** Folder for logs and state. */
  readonly workDir: string
  readonly env?: Readonly<Record<string, string>>
}

const STOP_TIMEOUT_MS = 8_000

/** All processes of one peer. */
export class PeerProcesses {
  /** Epoch ms at which the first record reached user code, in any process; undefined until then. */
  first: number | undefined
  readonly #run: PeerRun
  readonly #children: ChildProcess[] = []
  #starts = 0

  constructor(run: PeerRun) {
    this.#run = run
  }

  /** Starts one more set of processes. */
  start(): void {
    const run = this.#run
    mkdirSync(run.workDir, { recursive: true })
    const generation = this.#starts++
    for (let process_ = 0; process_ < run.processes; process_++) {
      const [program, ...args] = run.command as [string, ...string[]]
      const log = `${process_}-${generation}`
      const errors = openSync(join(run.workDir, `stderr-${log}.log`), 'w')
      const child = spawn(program, args, {
        stdio: ['ignore', 'pipe', errors],
        env: {
          ...process.env,
          ...run.env,
          BOOTSTRAP: run.bootstrap,
          IN_TOPIC: run.input,
          OUT_TOPIC: run.output,
          JOB: run.job,
          APP_ID: run.appId,
          STATE_DIR: join(run.workDir, `state-${process_}`),
          COMMIT_MS: String(run.commitMs),
          GRACE_MS: String(run.graceMs),
          PROC: String(process_),
          PROCS: String(run.processes),
        },
      })
      closeSync(errors)
      child.once('error', (error) => {
        throw new Error(`cannot start ${program}`, { cause: error })
      })
      const output = createWriteStream(join(run.workDir, `stdout-${log}.log`))
      createInterface({ input: child.stdout! })
        .on('line', (line) => {
          if (line.startsWith('FIRST ')) this.first ??= Number(line.slice(6))
          output.write(`${line}\n`)
        })
        .once('close', () => output.end())
      this.#children.push(child)
    }
  }

  /** True while every process that was started last runs. */
  get isAlive(): boolean {
    return this.#children
      .slice(-this.#run.processes)
      .every((child) => child.exitCode === null && child.signalCode === null)
  }

  get cpuSeconds(): number {
    return this.#children.reduce((sum, child) => sum + cpuSeconds(child.pid!), 0)
  }

  get peakMegabytes(): number {
    return this.#children.reduce((sum, child) => sum + peakMegabytes(child.pid!), 0)
  }

  /** Ends all processes; with SIGTERM they have some seconds to do it themselves. */
  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    const running = this.#children.filter((child) => child.exitCode === null && child.signalCode === null)
    await Promise.all(
      running.map((child) => {
        const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
        child.kill(signal)
        const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
        return exited.finally(() => clearTimeout(timer))
      }),
    )
  }
}
