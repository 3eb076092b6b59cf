/** One worker of the demo's job: the `millrace run` command as a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const ROOT = join(import.meta.dirname, '..', '..', '..')
/** Lines of its log that are kept for a report. */
const TAIL_LINES = 30

/** How a process ended. */
export interface WorkerEnd {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export class Worker {
  readonly startedAt = Date.now()
  readonly ended: Promise<WorkerEnd>
  readonly #child: ChildProcess
  readonly #tail: string[] = []
  #running = true

  /** Starts the job module with these variables; `onLine` gets each line of its log as text. */
  constructor(job: string, variables: Readonly<Record<string, string>>, onLine: (line: string) => void) {
    this.#child = spawn(process.execPath, [join(ROOT, 'dist', 'cli', 'main.js'), 'run', job], {
      cwd: ROOT,
      env: { ...process.env, ...variables },
      stdio: ['ignore', 'inherit', 'pipe'],
    })
    const killAtExit = (): void => this.kill()
    process.once('exit', killAtExit)
    this.ended = new Promise((resolve, reject) => {
      this.#child.once('error', reject)
      this.#child.once('exit', (code, signal) => {
        this.#running = false
        process.removeListener('exit', killAtExit)
        resolve({ code, signal })
      })
    })
    // Whoever waits for the end gets the error; nobody may be waiting yet.
    this.ended.catch(() => undefined)
    createInterface({ input: this.#child.stderr! }).on('line', (line) => {
      this.#tail.push(line)
      if (this.#tail.length > TAIL_LINES) this.#tail.shift()
      onLine(messageOf(line))
    })
  }

  get running(): boolean {
    return this.#running
  }

  /** The last lines of its log. */
  get tail(): string {
    return this.#tail.join('\n')
  }

  /** `kill -9`. */
  kill(): void {
    if (this.#running) this.#child.kill('SIGKILL')
  }
}

/** The message of a JSON log line; the line itself if it is none. */
function messageOf(line: string): string {
  try {
    const { level, message } = JSON.parse(line)
    return typeof message === 'string' ? `${level === 'info' ? '' : `${level}: `}${message}` : line
  } catch {
    return line
  }
}
