import { describe, expect, test } from '@jest/globals'
import { CommittedReader } from '../../../src/testing/committed-reader.ts'
import { encodePlainBatch } from '../../../src/testing/plain-batch.ts'
import { SimulatedLog } from '../../../src/testing/simulated-log.ts'

function scene() {
  const log = new SimulatedLog(
    () => ({ maxMessageBytes: 1 << 20, compacted: false, logAppendTime: false, retentionMs: -1 }),
    () => 0,
  )
  const reader = new CommittedReader(log)
  const sequences = new Map<bigint, number>()
  return {
    log,
    plain: (...values: string[]) =>
      log.append(encodePlainBatch({ records: values.map((value) => ({ value })) }), 0),
    within: (producerId: bigint, ...values: string[]) => {
      const baseSequence = sequences.get(producerId) ?? 0
      sequences.set(producerId, baseSequence + values.length)
      const batch = {
        records: values.map((value) => ({ value })),
        producerId,
        producerEpoch: 0,
        baseSequence,
        transactional: true,
      }
      log.append(encodePlainBatch(batch), 0)
    },
    end: (producerId: bigint, commit: boolean) =>
      log.appendMarker({ commit, producerId, producerEpoch: 0, coordinatorEpoch: 0 }, 0),
    read: () => reader.read().map(({ value }) => value!.toString()),
    reader,
  }
}

describe('reading committed records', () => {
  test('records behind an open transaction are not seen before it ends', () => {
    const { plain, within, end, read } = scene()
    plain('a')
    within(1n, 'b')
    plain('c')
    expect(read()).toEqual(['a'])
    expect(read()).toEqual([])
    end(1n, true)
    expect(read()).toEqual(['b', 'c'])
  })

  test('records of aborted transactions are never seen, those of the same producer after it are', () => {
    const { plain, within, end, read, reader } = scene()
    within(1n, 'a')
    within(2n, 'b')
    end(1n, false)
    plain('c')
    end(2n, true)
    within(1n, 'd')
    end(1n, true)
    expect(read()).toEqual(['b', 'c', 'd'])
    expect(reader.position).toBe(7n)
  })
})
