import { execFile } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The entry point of the `millrace` command, as source. */
export const MAIN = join(import.meta.dirname, '..', '..', '..', 'src', 'cli', 'main.ts')

/** How a process ended, and what it wrote. */
export interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Variables of this process that would change what the command does. */
const DISTURBING = /^(NODE_OPTIONS$|KAFKA_BROKERS$|REDIS_URL$|SCHEMA_REGISTRY_URL$|MILLRACE_)/

/** Runs this version of Node.js in `folder`. Compiled code is kept between runs: most of the time of a short command is compilation. */
export function runNode(folder: string, args: readonly string[]): Promise<Ended> {
  const inherited = Object.entries(process.env).filter(([name]) => !DISTURBING.test(name))
  const env = {
    ...Object.fromEntries(inherited),
    NODE_COMPILE_CACHE: join(tmpdir(), 'millrace-compile-cache'),
  }
  return new Promise((resolve) => {
    execFile(process.execPath, args, { cwd: folder, env }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr })
    })
  })
}
