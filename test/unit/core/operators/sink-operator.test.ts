import { expect, test } from '@jest/globals'
import type { Sink, SinkWriterContext, TwoPhaseCommittingSink } from '../../../../src/core/connector.ts'
import { SinkOperator, type SinkSettings } from '../../../../src/core/operators/sink-operator.ts'
import { contextFor, deferred, RecordingOutput, settled, vectorOf } from './recording-output.ts'

function settings(): SinkSettings {
  return { checkpointingEnabled: true, recordsOut: { count: 0, inc() {} }, lease: { id: 'tx-1' } }
}

function recordingSink(
  calls: string[],
  twoPhase: boolean,
  flushed: () => void | Promise<void> = () => undefined,
) {
  const sink: any = {
    kind: 'recording',
    describe: () => ({}),
    createWriter: (context: SinkWriterContext) => {
      calls.push(
        `create after ${context.restoredCheckpointId ?? 'nothing'} with ${JSON.stringify(context.lease)}`,
      )
      return {
        open: () => void calls.push('open'),
        write: (vector: any) => void calls.push(`write ${vector.values}`),
        flush: (end: boolean) => {
          calls.push(`flush ${end}`)
          return flushed()
        },
        prepareCommit: (n: number) => {
          calls.push(`prepare ${n}`)
          return Promise.resolve([{ tx: n }])
        },
        notifyCheckpointComplete: (n: number) => void calls.push(`complete ${n}`),
        notifyCheckpointAborted: (n: number) => void calls.push(`aborted ${n}`),
        notifyCheckpointConfirmed: (n: number) => void calls.push(`confirmed ${n}`),
        close: () => void calls.push('close'),
      }
    },
  }
  if (twoPhase) sink.twoPhase = true
  return sink as Sink<unknown> & TwoPhaseCommittingSink<unknown>
}

async function openedSink(sink: Sink<unknown>, restored = 4) {
  const operator = new SinkOperator(sink, settings())
  operator.setup(contextFor(new RecordingOutput()))
  operator.initializeState({ checkpointId: restored, operatorState: {}, splits: undefined })
  await operator.open()
  return operator
}

test('a two-phase sink flushes, then prepares, and its committables are in the snapshot', async () => {
  const calls: string[] = []
  const operator = await openedSink(recordingSink(calls, true))
  operator.processVector(vectorOf(1, 2))
  await operator.prepareSnapshot(5, false)
  expect(operator.snapshot(5)).toEqual({ committables: [{ tx: 5 }] })
  operator.notifyCheckpointComplete(5)
  operator.notifyCheckpointAborted(6)
  operator.notifyCheckpointConfirmed(5)
  await operator.close()
  expect(calls).toEqual([
    'create after 4 with {"id":"tx-1"}',
    'open',
    'write 1,2',
    'flush false',
    'prepare 5',
    'complete 5',
    'aborted 6',
    'confirmed 5',
    'close',
  ])
})

test('what a writer needs to go on is in the snapshot, and comes back to the writers of every subtask', async () => {
  const contexts: SinkWriterContext[] = []
  const sink = {
    kind: 'stateful',
    describe: () => ({}),
    createWriter: (context: SinkWriterContext) => {
      contexts.push(context)
      return { write() {}, flush() {}, close() {}, snapshotState: (n: number) => [`open at ${n}`] }
    },
  }
  const operator = await openedSink(sink)
  expect(contexts[0]).not.toHaveProperty('restoredState')
  await operator.prepareSnapshot(3, false)
  const snapshot = operator.snapshot(3)
  expect(snapshot).toEqual({ operatorState: { writer: { redistribution: 'union', items: ['open at 3'] } } })
  const restored = new SinkOperator(sink, settings())
  restored.setup(contextFor(new RecordingOutput()))
  restored.initializeState({
    checkpointId: 3,
    operatorState: { writer: snapshot.operatorState?.['writer']?.items ?? [] },
    splits: undefined,
  })
  await restored.open()
  expect(contexts[1]?.restoredState).toEqual(['open at 3'])
})

test('a writer hears whether its commit is prepared for a savepoint', async () => {
  const heard: unknown[] = []
  const sink = recordingSink([], true)
  const original = sink.createWriter
  const listening = {
    ...sink,
    createWriter: (context: SinkWriterContext) => ({
      ...original(context),
      prepareCommit: (...given: unknown[]) => {
        heard.push(given)
        return []
      },
    }),
  }
  const operator = await openedSink(listening as never)
  await operator.prepareSnapshot(1, false)
  await operator.prepareSnapshot(2, false, true)
  expect(heard).toEqual([
    [1, false],
    [2, true],
  ])
})

test('nothing is prepared before the flush has finished', async () => {
  const calls: string[] = []
  const gate = deferred()
  const operator = await openedSink(recordingSink(calls, true, () => gate.promise))
  const done = operator.prepareSnapshot(1, true)
  await settled()
  expect(calls.at(-1)).toBe('flush true')
  gate.resolve()
  await done
  expect(calls.at(-1)).toBe('prepare 1')
})

test('a plain sink only flushes and has nothing to store', async () => {
  const calls: string[] = []
  const operator = await openedSink(recordingSink(calls, false))
  await operator.prepareSnapshot(1, false)
  expect(operator.snapshot(1)).toEqual({})
  await operator.endInput()
  expect(calls.slice(2)).toEqual(['flush false', 'flush true'])
})

test('a snapshot that was not prepared is refused, also when another one was', async () => {
  const operator = await openedSink(recordingSink([], true))
  await operator.prepareSnapshot(1, false)
  expect(() => operator.snapshot(2)).toThrow(expect.objectContaining({ code: 'MILLRACE_INTERNAL' }))
})

test('a writer that asks to wait makes the chain wait', async () => {
  const gate = deferred()
  const sink = {
    kind: 'slow',
    describe: () => ({}),
    createWriter: () => ({ write: () => gate.promise, flush() {}, close() {} }),
  }
  const operator = await openedSink(sink)
  expect(operator.processVector(vectorOf(1))).toBe(gate.promise)
})

test('closing twice, or before open, closes the writer once', async () => {
  const calls: string[] = []
  const sink = recordingSink(calls, false)
  const never = new SinkOperator(sink, settings())
  await never.close()
  const operator = await openedSink(sink)
  await operator.close()
  await operator.close()
  expect(calls.filter((call) => call === 'close')).toEqual(['close'])
  expect(() => operator.processVector(vectorOf(1))).toThrow(/while it was not open/)
})
