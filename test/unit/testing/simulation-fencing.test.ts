import { describe, expect, test } from '@jest/globals'
import { SimulationFencing } from '../../../src/testing/simulation-fencing.ts'

const COORDINATOR = 'millrace.j.coordinator'
const SINK = 'millrace.j.sink.0.0'

/** Workers a and b, what they send, and what is wrong with it. */
function scene() {
  const wrong: string[] = []
  const fencing = new SimulationFencing({
    coordinatorId: COORDINATOR,
    workerOf: (clientId) => clientId,
    onViolation: (what) => wrong.push(what),
  })
  const identity = (epoch: number) => ({ transactionalId: SINK, producerId: 7n, producerEpoch: epoch })
  const call = (clientId: string, api: string, args: readonly unknown[], attempt = 1) => ({
    clientId,
    api,
    args,
    attempt,
  })
  return {
    wrong,
    /** The worker is given the sink's id under this epoch. */
    given: (worker: string, epoch: number) =>
      fencing.answered(call(worker, 'InitProducerId', []), identity(epoch)),
    initialises: (worker: string, transactionalId: string, expected?: object) =>
      fencing.sent(
        call(worker, 'InitProducerId', [
          { transactionalId, ...(expected === undefined ? {} : { expected }) },
        ]),
      ),
    writes: (worker: string, epoch: number) =>
      fencing.sent(call(worker, 'AddPartitionsToTxn', [identity(epoch), []])),
    ends: (worker: string, epoch: number, result: 'commit' | 'abort', attempt = 1) =>
      fencing.sent(call(worker, 'EndTxn', [identity(epoch), result], attempt)),
    ended: (worker: string, epoch: number, result: 'commit' | 'abort') =>
      fencing.answered(call(worker, 'EndTxn', [identity(epoch), result]), undefined),
  }
}

describe('the watch over transactions', () => {
  test('a worker that writes, commits and goes on under a new epoch breaks no rule', () => {
    const { wrong, given, initialises, writes, ends, ended } = scene()
    initialises('a', COORDINATOR)
    initialises('a', SINK, { producerId: 7n, producerEpoch: 0 })
    given('a', 1)
    writes('a', 1)
    ends('a', 1, 'commit')
    ends('a', 1, 'commit', 2)
    ended('a', 1, 'commit')
    given('a', 2)
    writes('a', 2)
    ends('a', 2, 'abort')
    expect(wrong).toEqual([])
  })

  test('only the id of the coordinator may be initialised bare', () => {
    const { wrong, initialises } = scene()
    initialises('a', SINK)
    expect(wrong).toEqual([`a initialises ${SINK} without naming the holder that it expects`])
  })

  test('a zombie may not abort what its successor has open', () => {
    const { wrong, given, ends } = scene()
    given('a', 1)
    given('b', 3)
    ends('a', 1, 'abort')
    ends('a', 3, 'abort')
    expect(wrong).toEqual([`a aborts the transaction of ${SINK} (7, 3), which it was never given`])
  })

  test('an epoch serves one worker and one transaction', () => {
    const { wrong, writes, ended } = scene()
    writes('a', 1)
    writes('b', 1)
    ended('a', 1, 'commit')
    writes('a', 1)
    expect(wrong).toEqual([
      `b writes with ${SINK} (7, 1), with which a wrote`,
      `a begins a second transaction with ${SINK} (7, 1)`,
    ])
  })

  test('a commit may be repeated after the job was taken over again, not before', () => {
    const { wrong, ends, ended, initialises } = scene()
    ended('a', 1, 'commit')
    initialises('a', COORDINATOR)
    ends('a', 1, 'commit')
    expect(wrong).toEqual([])
    ended('a', 1, 'commit')
    ends('a', 1, 'commit')
    expect(wrong).toEqual([`a commits ${SINK} (7, 1) again in the same attempt`])
  })
})
