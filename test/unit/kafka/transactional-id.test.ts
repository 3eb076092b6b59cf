import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  coordinatorId,
  jobTopic,
  ownerOfId,
  parseTransactionalId,
  transactionalId,
  transactionalIdPrefix,
  workerGroupId,
  workerGroupOf,
} from '../../../src/kafka/transactional-id.ts'

describe('transactional ids', () => {
  test('are made of prefix, subtask and slot, and parsed again', () => {
    const prefix = transactionalIdPrefix('orders', 'totals', 'team')
    expect(prefix).toBe('team.millrace.orders.totals')
    expect(parseTransactionalId(transactionalId(prefix, 12, 3))).toEqual({ prefix, subtask: 12, slot: 3 })
  })

  test('of job `a` are not those of job `a.b`, though one text begins with the other', () => {
    const a = transactionalIdPrefix('a', 'b', undefined)
    const ab = transactionalIdPrefix('a.b', 'c', undefined)
    expect(parseTransactionalId(transactionalId(ab, 0, 0))!.prefix).not.toBe(a)
    expect(ab.startsWith(`${a}.`)).toBe(false)
    expect(transactionalIdPrefix('a_b', 'c', undefined)).not.toBe(ab)
  })

  test('tell the job and the prefix of the user, whatever dots and names are in it', () => {
    const ownerOf = (job: string, prefix: string | undefined) =>
      ownerOfId(transactionalId(transactionalIdPrefix(job, 'totals', prefix), 1, 2))
    expect(ownerOf('orders', undefined)).toEqual({ userPrefix: undefined, job: 'orders' })
    expect(ownerOf('orders', 'team.a')).toEqual({ userPrefix: 'team.a', job: 'orders' })
    expect(ownerOf('orders', 'x.millrace.y')).toEqual({ userPrefix: 'x.millrace.y', job: 'orders' })
    expect(workerGroupOf(ownerOf('a.b', 'team')!.job)).toBe(workerGroupId('a.b'))
    expect(ownerOfId(coordinatorId('orders'))).toEqual({ userPrefix: undefined, job: 'orders' })
    expect(ownerOfId('somebody.0.1')).toBeUndefined()
  })

  test.each(['', 'orders', 'a.b', 'a.b.c', 'millrace.orders.coordinator', 'x.1.2.3x', 'x.-1.2', '.1.2'])(
    '%j is not one of ours',
    (id) => {
      expect(parseTransactionalId(id)).toBeUndefined()
    },
  )

  test('stay within 249 characters whatever the names', () => {
    const long = '長い名前/ with spaces '.repeat(40)
    const prefix = transactionalIdPrefix(long, long, 'p'.repeat(100))
    expect(transactionalId(prefix, 999_999, 9_999).length).toBeLessThanOrEqual(249)
    for (const name of [
      coordinatorId(long),
      jobTopic(long, 'checkpoints'),
      jobTopic(long, 'control'),
      workerGroupId(long),
    ]) {
      expect(name.length).toBeLessThanOrEqual(249)
      expect(name).toMatch(/^[a-zA-Z0-9._-]+$/)
    }
  })

  test('different jobs and operators have different ids, and every id is parsed to its parts', () => {
    const name = fc.string({ minLength: 1, maxLength: 100 })
    fc.assert(
      fc.property(
        name,
        name,
        name,
        name,
        fc.nat(99),
        fc.nat(9),
        (job, uid, otherJob, otherUid, subtask, slot) => {
          const prefix = transactionalIdPrefix(job, uid, undefined)
          expect(parseTransactionalId(transactionalId(prefix, subtask, slot))).toEqual({
            prefix,
            subtask,
            slot,
          })
          if (job !== otherJob || uid !== otherUid)
            expect(transactionalIdPrefix(otherJob, otherUid, undefined)).not.toBe(prefix)
          if (job !== otherJob) {
            expect(coordinatorId(job)).not.toBe(coordinatorId(otherJob))
            expect(jobTopic(job, 'checkpoints')).not.toBe(jobTopic(otherJob, 'checkpoints'))
          }
        },
      ),
      { numRuns: 200 },
    )
  })
})
