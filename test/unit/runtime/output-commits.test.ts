import { describe, expect, test } from '@jest/globals'
import { lostCommittable, lostOutput } from '../../../src/checkpoint/lost-output.ts'
import type { CommitPermit } from '../../../src/core/connector.ts'
import { recoverAll } from '../../../src/runtime/output-commits.ts'

describe('commits that are finished at take-over', () => {
  test('a loss stops nothing: all else is finished, and one error names everything that is lost', async () => {
    const recovered: unknown[] = []
    const committer = (uid: string) => ({
      commit: async () => undefined,
      recover: async (_permit: CommitPermit, committables: readonly unknown[]) => {
        recovered.push(uid)
        if (uid === 'b') return
        const named = { transactionalId: uid, producerId: '1', producerEpoch: 0 }
        throw lostOutput([lostCommittable(named, `${committables.length} transaction of ${uid} is lost`)])
      },
      close: async () => undefined,
    })
    const uids = ['a', 'b', 'c']
    const error = await recoverAll(
      new Map(uids.map((uid) => [uid, committer(uid)])),
      { checkpointId: 1, confirmed: 0 } as CommitPermit,
      uids.map((uid) => ({ uid, subtask: 0, committables: [{}] })),
    ).catch((thrown: unknown) => thrown)
    expect(recovered).toEqual(uids)
    expect(error).toMatchObject({
      code: 'MILLRACE_TRANSACTION_LOST',
      details: { lost: ['a:1:0', 'c:1:0'] },
      message: expect.stringMatching(/1 transaction of a is lost\n.*1 transaction of c is lost/),
    })
  })

  test('any other failure ends it there', async () => {
    const away = {
      commit: async () => undefined,
      recover: async () => {
        throw new Error('away')
      },
      close: async () => undefined,
    }
    await expect(
      recoverAll(new Map([['a', away]]), { checkpointId: 1, confirmed: 0 } as CommitPermit, [
        { uid: 'a', subtask: 0, committables: [{}] },
      ]),
    ).rejects.toThrow('away')
  })
})
