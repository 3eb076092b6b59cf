/** With one retained checkpoint on disk: whatever moment a process dies at, what the next start needs has not been removed. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, jest, test } from '@jest/globals'
import { logReliability } from '../reliability-log.ts'
import { OrderRun, verdict } from './order-run.ts'
import { SeededRandom } from './seeded-random.ts'

jest.setTimeout(240_000)

/** Checkpoint n+1 is on its way, and n is removed with or after the commit point that follows it. */
const MOMENTS = [
  'before-commit-point:4',
  'after-commit-point:2',
  'after-commit-point:3',
  'before-notify:3',
  'after-end-txn:4',
  'before-confirm:2',
  'after-confirm:2',
]

test('a job whose only retained checkpoint is replaced as it dies finds one that is whole, each time', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-cleanup-'))
  const run = await OrderRun.open({
    random: new SeededRandom(1),
    environment: {
      INTERVAL: '150',
      MILLRACE_STATE_BACKEND: 'filesystem',
      MILLRACE_STATE_CHECKPOINTS_DIR: folder,
      MILLRACE_STATE_CHECKPOINTS_NUM_RETAINED: '1',
      // Every snapshot is a file.
      MILLRACE_STATE_BACKEND_FS_MEMORY_THRESHOLD: '0',
    },
  })
  try {
    const starts: unknown[] = []
    for (const moment of MOMENTS) {
      const job = run.start({ MILLRACE_FAULT_POINT: moment })
      const { signal } = await job.exited
      starts.push({ moment, signal, anew: job.stderr.includes('starts a new run') })
    }
    const last = run.start()
    await run.progress(60_000)
    const outcome = await run.finish([last])
    for (const where of MOMENTS)
      logReliability({
        suite: 'checkpoint-cleanup',
        fault: 'kill -9, one checkpoint retained',
        where,
        count: 1,
        records: outcome.records,
        outcome: verdict(outcome),
      })
    expect(starts).toEqual(MOMENTS.map((moment, index) => ({ moment, signal: 'SIGKILL', anew: index === 0 })))
    expect(last.stderr).toContain('resumes from checkpoint')
    expect(last.stderr).not.toContain('MILLRACE_STATE')
    expect(outcome).toMatchObject({ etl: [], totals: [], open: [] })
  } finally {
    await run.close()
    await rm(folder, { recursive: true, force: true })
  }
})
