import { describe, expect, test } from '@jest/globals'
import { isLostOutput, lostCommittable, lostOutput } from '../../../src/checkpoint/lost-output.ts'
import { MillraceError } from '../../../src/errors.ts'

const committable = (id: string) => ({ transactionalId: id, producerId: '7', producerEpoch: 1 })

describe('output that is lost', () => {
  test('of one transaction is said as it is, with the flag that goes on without it', () => {
    const cause = new Error('fenced')
    const loss = lostCommittable(committable('a'), '5 records are lost', { cause, details: { topic: 't' } })
    expect(isLostOutput(loss)).toBe(true)
    expect(lostOutput([loss])).toMatchObject({
      code: 'MILLRACE_TRANSACTION_LOST',
      message: '5 records are lost',
      cause,
      details: { topic: 't', lost: ['a:7:1'] },
      remedy:
        'Start the job with --accept-lost-transaction a:7:1 to go on without these records, or restore an older checkpoint.',
    })
  })

  test('of several is one error that names all of it and gives it up with one command', () => {
    const losses = ['a', 'b'].map((id) => lostCommittable(committable(id), `records of ${id} are lost`))
    const both = lostOutput(losses)
    expect(both.message).toBe(
      'output of 2 transactions is lost:\n  records of a are lost\n  records of b are lost',
    )
    expect(both.remedy).toContain('--accept-lost-transaction a:7:1 --accept-lost-transaction b:7:1 ')
    const more = lostOutput([both, lostCommittable(committable('c'), 'records of c are lost')])
    expect(more.details['lost']).toEqual(['a:7:1', 'b:7:1', 'c:7:1'])
    expect(more.message.split('\n').filter((line) => line.startsWith('output of'))).toEqual([
      'output of 3 transactions is lost:',
    ])
  })

  test('is nothing else that went wrong', () => {
    expect(isLostOutput(new MillraceError('MILLRACE_TRANSACTION_FENCED', 'x'))).toBe(false)
    expect(isLostOutput(undefined)).toBe(false)
  })
})
