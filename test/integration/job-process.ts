/** A job module as a process of its own, as a user starts it. */
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..', '..')
const COMMAND = join(ROOT, 'src', 'cli', 'main.ts')
/** Characters of the process's log that a failed expectation shows. */
const TAIL = 4_000

/** How a process ended. */
export interface JobExit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface JobStart {
  /** Path of the module below test/. */
  readonly module: string
  readonly environment: Readonly<Record<string, string>>
  /** Options of `millrace run`; undefined runs the module with plain node. */
  readonly command?: readonly string[] | undefined
}

export class JobProcess {
  readonly startedAt = Date.now()
  readonly exited: Promise<JobExit>
  #exit: JobExit | undefined
  #exitedAt = 0
  #stdout = ''
  #stderr = ''
  readonly #child: ChildProcess
  readonly #watchers = new Set<() => void>()

  constructor({ module, environment, command }: JobStart) {
    const file = join(ROOT, 'test', module)
    const args = command === undefined ? [file] : [COMMAND, 'run', ...command, file]
    this.#child = spawn(process.execPath, ['--conditions=millrace-source', ...args], {
      // The repository's root holds no millrace.yaml; without jest's own options.
      cwd: ROOT,
      // A Redis that runs for other tests is named only where a test names it.
      env: { ...process.env, NODE_OPTIONS: '', REDIS_URL: '', ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text
      this.#changed()
    })
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text
      this.#changed()
    })
    this.exited = new Promise((resolve, reject) => {
      this.#child.once('error', reject)
      // 'close' comes after the last output.
      this.#child.once('close', (code, signal) => {
        this.#exit = { code, signal }
        this.#exitedAt = Date.now()
        this.#changed()
        resolve(this.#exit)
      })
    })
  }

  get pid(): number {
    return this.#child.pid ?? -1
  }

  get stdout(): string {
    return this.#stdout
  }

  get stderr(): string {
    return this.#stderr
  }

  get running(): boolean {
    return this.#exit === undefined
  }

  /** Milliseconds from the start to the end. */
  get lifetime(): number {
    return this.#exitedAt - this.startedAt
  }

  signal(signal: NodeJS.Signals): void {
    if (this.running) this.#child.kill(signal)
  }

  /** `kill -9`; resolves when the process is gone. */
  async kill(): Promise<void> {
    this.signal('SIGKILL')
    await this.exited
  }

  /** Resolves when stdout or stderr holds `text` (again: `times`). @throws Error with the log when the process ends first, or it takes too long. */
  said(text: string | RegExp, timeoutMs = 30_000): Promise<void> {
    return this.#until(`it said ${String(text)}`, timeoutMs, () => this.#holds(text))
  }

  /** The exit code. @throws Error with the log when it takes too long. */
  async code(timeoutMs = 30_000): Promise<number | null> {
    await this.#until('it ended', timeoutMs, () => !this.running)
    return (this.#exit as JobExit).code
  }

  /** The end of its log, for messages. */
  get log(): string {
    return `${this.#stdout.slice(-TAIL)}\n${this.#stderr.slice(-TAIL)}`
  }

  #holds(text: string | RegExp): boolean {
    if (typeof text === 'string') return this.#stdout.includes(text) || this.#stderr.includes(text)
    return text.test(this.#stdout) || text.test(this.#stderr)
  }

  #until(what: string, timeoutMs: number, isTrue: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const check = (): void => {
        const done = isTrue()
        if (!done && this.running) return
        finish()
        if (done) resolve()
        else
          reject(new Error(`the process ended (${JSON.stringify(this.#exit)}) before ${what}:\n${this.log}`))
      }
      const timer = setTimeout(() => {
        finish()
        reject(new Error(`not within ${timeoutMs} ms: ${what}\n${this.log}`))
      }, timeoutMs)
      const finish = (): void => {
        clearTimeout(timer)
        this.#watchers.delete(check)
      }
      this.#watchers.add(check)
      check()
    })
  }

  #changed(): void {
    for (const check of [...this.#watchers]) check()
  }
}
