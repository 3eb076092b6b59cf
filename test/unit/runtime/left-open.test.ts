/** Who may abort what a failed attempt left open, and what must stay. */
import { expect, test } from '@jest/globals'
import type {
  AbortOptions,
  CheckpointStore,
  OutputTransactions,
  RecoveryFacts,
} from '../../../src/checkpoint/checkpoint-store.ts'
import { MillraceError } from '../../../src/errors.ts'
import { LeftOpen } from '../../../src/runtime/left-open.ts'
import { VirtualWorld } from './virtual-world.ts'

const committable = (transactionalId: string) => ({ transactionalId })
const facts = (confirmed: number): RecoveryFacts =>
  ({
    confirmed,
    completed: [
      { n: 1, states: [{ committables: [committable('old')] }] },
      { n: 2, states: [{ committables: [committable('new')] }, { committables: ['a file'] }, {}] },
    ],
  }) as unknown as RecoveryFacts

/** What is kept when the job ends; undefined: nothing is aborted. */
async function keptBy(prepare: (left: LeftOpen) => void): Promise<readonly string[] | undefined> {
  const calls: AbortOptions[] = []
  const transactions = {
    abortOpen: async (how: AbortOptions) => {
      await how.proveLeadership?.()
      calls.push(how)
    },
  } as unknown as OutputTransactions
  const store = { proveLeadership: async () => undefined } as unknown as CheckpointStore
  const left = new LeftOpen()
  prepare(left)
  await left.abort({ transactions, store, world: new VirtualWorld().world })
  return calls[0]?.keep
}

const error = new Error('x')
const lost = new MillraceError('MILLRACE_ATTEMPT_LOST', 'another one leads')

test('nothing failed: nothing is aborted', async () => {
  expect(await keptBy((left) => left.found(facts(-1)))).toBeUndefined()
})

test('what the attempt promised stays', async () => {
  expect(
    await keptBy((left) => {
      left.found(facts(-1))
      left.failed(error, ['promised'])
    }),
  ).toEqual(['promised'])
})

test('a take-over that failed keeps what it found promised and not confirmed', async () => {
  const failedTakeOver = (confirmed: number) => (left: LeftOpen) => {
    left.found(facts(confirmed))
    left.failed(error, undefined)
  }
  expect(await keptBy(failedTakeOver(-1))).toEqual(['old', 'new'])
  expect(await keptBy(failedTakeOver(1))).toEqual(['new'])
  expect(await keptBy(failedTakeOver(2))).toEqual([])
})

test('a job that was lost touches nothing, whatever failed before', async () => {
  expect(
    await keptBy((left) => {
      left.failed(error, [])
      left.failed(lost, [])
    }),
  ).toBeUndefined()
})
