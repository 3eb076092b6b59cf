/** What the harness tells a peer's process through its environment; external peers read the same variables. */
import type { BenchJob } from './data.ts'

export interface PeerSettings {
  readonly bootstrap: string
  readonly input: string
  readonly output: string
  readonly job: BenchJob
  /** In the name of every topic, group and transactional id that the peer makes; they are deleted afterwards. */
  readonly appId: string
  readonly stateDir: string
  readonly commitMs: number
  readonly graceMs: number
  /** This process, from 0, of `processes`. */
  readonly process: number
  readonly processes: number
}

/** @throws Error that names the variable which is missing or wrong. */
export function readPeerSettings(): PeerSettings {
  const env = process.env
  const required = (name: string): string => {
    const value = env[name]
    if (value === undefined || value === '')
      throw new Error(`${name} is not set; peers are started by the benchmark`)
    return value
  }
  const job = required('JOB')
  if (job !== 'etl' && job !== 'count' && job !== 'window') throw new Error(`no such job: ${job}`)
  return {
    bootstrap: required('BOOTSTRAP'),
    input: required('IN_TOPIC'),
    output: required('OUT_TOPIC'),
    job,
    appId: required('APP_ID'),
    stateDir: env['STATE_DIR'] ?? '',
    commitMs: Number(env['COMMIT_MS'] ?? 1000),
    graceMs: Number(env['GRACE_MS'] ?? 0),
    process: Number(env['PROC'] ?? 0),
    processes: Number(env['PROCS'] ?? 1),
  }
}

/** Ends the process on SIGTERM by exit, so that a profile is written; `leave` runs before. */
export function exitOnSigterm(leave: () => Promise<void> = async () => {}): void {
  process.once('SIGTERM', () => {
    leave().then(
      () => process.exit(0),
      (error: unknown) => {
        console.error(error)
        process.exit(1)
      },
    )
  })
}
