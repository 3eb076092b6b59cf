/** Runs the `millrace` command as a process of its own, as an operator does. */
import { type ChildProcess, execFile } from 'node:child_process'
import { join } from 'node:path'

const COMMAND = join(import.meta.dirname, '..', '..', 'src', 'cli', 'main.ts')

/** How it ended, and what it said. `code` is undefined if a signal ended it. */
export interface CommandEnd {
  readonly code: number | undefined
  readonly stdout: string
  readonly stderr: string
}

/** One run of the command. */
export class MillraceCommand {
  readonly ended: Promise<CommandEnd>
  #child!: ChildProcess
  #stderr = ''

  constructor(brokers: string, args: readonly string[]) {
    this.ended = new Promise((resolve) => {
      this.#child = execFile(
        process.execPath,
        ['--conditions=millrace-source', COMMAND, ...args],
        { env: { ...process.env, NODE_OPTIONS: '', KAFKA_BROKERS: brokers } },
        (error, stdout, stderr) => {
          const code = error === null ? 0 : typeof error.code === 'number' ? error.code : undefined
          resolve({ code, stdout, stderr })
        },
      )
    })
    this.#child.stderr?.on('data', (text: string) => {
      this.#stderr += text
    })
  }

  /** What it has written to stderr so far. */
  get said(): string {
    return this.#stderr
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }
}

/** Runs it to its end. */
export function millrace(brokers: string, ...args: readonly string[]): Promise<CommandEnd> {
  return new MillraceCommand(brokers, args).ended
}
