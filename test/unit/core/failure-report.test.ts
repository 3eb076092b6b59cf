import { describe, expect, test } from '@jest/globals'
import { lostCommittable, lostOutput } from '../../../src/checkpoint/lost-output.ts'
import { type FailureFacts, failureReport } from '../../../src/core/failure-report.ts'
import { MillraceError, UserFunctionError } from '../../../src/errors.ts'

const COMMAND = { start: 'millrace run -D log.level=warn', job: 'etl.ts -- --day 7' }
const FACTS: FailureFacts = {
  run: 'r1',
  restarts: 2,
  checkpoint: 12,
  older: [10, 11],
  place: '/c/etl/r1/chk-12',
}
const PLAIN = '    millrace run -D log.level=warn etl.ts -- --day 7'

const report = (error: unknown, facts: Partial<FailureFacts> = {}): string =>
  failureReport(error, 'etl', { ...FACTS, ...facts }, COMMAND)

const failed = (cause: unknown) => new MillraceError('MILLRACE_JOB_FAILED', "job 'etl' FAILED", { cause })

describe('the report of a job that FAILED', () => {
  test("says what failed, the record's place, what is kept, and the command that goes on from it", () => {
    const error = failed(
      new UserFunctionError('MILLRACE_USER_FUNCTION', 'map failed: thirteen', {
        cause: new Error('thirteen'),
        details: { record: '13', position: 'orders-0, offsets 0 to 19' },
      }),
    )
    const lines = report(error).split('\n')
    expect(lines[0]).toBe("job 'etl' FAILED [MILLRACE_JOB_FAILED]")
    expect(lines).toContain('    record=13 position=orders-0, offsets 0 to 19')
    expect(lines).toContain(
      "Kept: job 'etl' failed after 2 restarts behind checkpoint 12 of run r1, which is kept in /c/etl/r1/chk-12.",
    )
    expect(lines.slice(-2)).toEqual(['When the cause is mended, go on with', PLAIN])
    expect(lines.length).toBeLessThan(24)
  })

  test('checkpoint 0 is the positions at the start', () => {
    expect(report(failed(new Error('x')), { checkpoint: 0, place: 'topic t' })).toContain(
      'behind checkpoint 0 (the positions at the start, without state) of run r1, which is kept in topic t.',
    )
  })

  test('a job that failed before its run says that nothing was changed', () => {
    expect(report(failed(new Error('x')), { run: '', restarts: 0 })).toContain(
      "Kept: job 'etl' failed before a record was read; nothing was changed.",
    )
  })

  test('a job without Kafka begins anew', () => {
    const text = report(failed(new Error('x')), { place: undefined })
    expect(text).toContain('the next start begins anew')
    expect(text.split('\n').slice(-2)).toEqual(['Start it again with', PLAIN])
  })

  test('without facts it is the error alone', () => {
    expect(failureReport(new Error('x'), 'etl', undefined, COMMAND)).not.toContain('Kept')
  })
})

describe('the command fits the failure', () => {
  test('lost output: one flag for each transaction', () => {
    const lost = ['a', 'b'].map((id) =>
      lostCommittable({ transactionalId: id, producerId: '1', producerEpoch: 0 }, `${id} is lost`),
    )
    const text = report(failed(lostOutput(lost)))
    const flagged = text
      .split('\n')
      .find((line) => line.startsWith('    millrace run') && line.includes('--accept'))
    expect(flagged?.match(/--accept-lost-transaction \S+/g)).toHaveLength(2)
    expect(flagged?.endsWith('etl.ts -- --day 7')).toBe(true)
    // The new run finishes what the old one promised, so it needs the flags as well.
    expect(text).toContain('or begin a new run with an older checkpoint (kept: 10, 11) with')
    expect(text).toContain(`${flagged?.replace(' etl.ts', ' --from-checkpoint 11 etl.ts')}`)
  })

  test('state that nobody claims', () => {
    expect(report(failed(new MillraceError('MILLRACE_STATE_NOT_RESTORED', 'x')))).toContain(
      'millrace run -D log.level=warn --allow-non-restored-state etl.ts',
    )
  })

  test('lost state: mend it, or an older checkpoint, or from the beginning', () => {
    const text = report(failed(new MillraceError('MILLRACE_STATE_LOST', 'x')))
    for (const part of [PLAIN, '--from-checkpoint 11', '--fresh']) expect(text).toContain(part)
  })

  test('no older checkpoint is offered where there is none', () => {
    expect(report(failed(new MillraceError('MILLRACE_STATE_LOST', 'x')), { older: [] })).not.toContain(
      '--from-checkpoint',
    )
  })
})
