import { beforeEach, describe, expect, test } from '@jest/globals'
import { RecordBatchReader } from '../../../src/kafka/record-batch.ts'
import { encodePlainBatch, readBatchHeader, splitBatches } from '../../../src/testing/plain-batch.ts'
import { type LogSettings, SimulatedLog } from '../../../src/testing/simulated-log.ts'

let now = 0
let settings: LogSettings
let log: SimulatedLog

beforeEach(() => {
  now = 1_000_000
  settings = { maxMessageBytes: 1_000_000, compacted: true, logAppendTime: false, retentionMs: -1 }
  log = new SimulatedLog(
    () => settings,
    () => now,
  )
})

function put(
  entries: Record<string, string | null>,
  producer?: { id: bigint; sequence: number; transactional?: boolean },
) {
  const records = Object.entries(entries).map(([key, value]) => ({ key, value }))
  const appended = log.append(
    encodePlainBatch({
      records,
      timestamp: now,
      ...(producer && {
        producerId: producer.id,
        producerEpoch: 0,
        baseSequence: producer.sequence,
        transactional: producer.transactional ?? false,
      }),
    }),
    0,
  )
  expect(appended.errorCode).toBe(0)
  return appended.baseOffset
}

function end(producerId: bigint, commit: boolean): void {
  log.appendMarker({ commit, producerId, producerEpoch: 0, coordinatorEpoch: 0 }, 0)
}

/** What the product's reader makes of the log. */
function readCommitted(from = 0n) {
  const slice = log.read(from, 1_000_000, 'read_committed', true)
  const reader = new RecordBatchReader('t', 0)
  reader.open(slice.records, from, slice.abortedTransactions)
  const seen: string[] = []
  while (reader.next()) {
    const key = reader.buffer.toString('utf8', reader.keyStart, reader.keyEnd)
    const value =
      reader.valueStart < 0 ? null : reader.buffer.toString('utf8', reader.valueStart, reader.valueEnd)
    seen.push(`${reader.offset()} ${key}=${value}`)
  }
  return { seen, nextOffset: reader.nextOffset }
}

describe('compaction', () => {
  test('of each key the latest record stays, at its offset', () => {
    put({ a: '1', b: '1', c: '1' })
    put({ a: '2' })
    put({ b: '2' })
    log.compact()
    expect(readCommitted()).toEqual({ seen: ['2 c=1', '3 a=2', '4 b=2'], nextOffset: 5n })
    expect(log.highWatermark).toBe(5n)
  })

  test('a reader that stands in a gap goes on behind it', () => {
    put({ a: '1' })
    put({ a: '2' })
    put({ a: '3' })
    log.compact()
    for (const from of [0n, 1n, 2n]) expect(readCommitted(from)).toEqual({ seen: ['2 a=3'], nextOffset: 3n })
  })

  test('aborted records go and do not shadow committed ones', () => {
    put({ a: 'kept' })
    put({ a: 'aborted' }, { id: 1n, sequence: 0, transactional: true })
    put({ b: 'aborted' }, { id: 1n, sequence: 1, transactional: true })
    end(1n, false)
    log.compact()
    expect(readCommitted()).toEqual({ seen: ['0 a=kept'], nextOffset: 4n })
  })

  test('nothing at or above the last stable offset is touched', () => {
    put({ a: '1' })
    put({ x: '1' }, { id: 1n, sequence: 0, transactional: true })
    put({ a: '2' })
    log.compact()
    expect(splitBatches(log.read(0n, 1_000_000, 'read_uncommitted', true).records).length).toBe(3)
    expect(readCommitted()).toEqual({ seen: ['0 a=1'], nextOffset: 1n })
  })

  test("a producer's last batch stays, empty, and its sequence is known", () => {
    put({ a: '1' }, { id: 1n, sequence: 0 })
    put({ a: '2' })
    log.compact()
    const [first] = splitBatches(log.read(0n, 1_000_000, 'read_uncommitted', true).records)
    expect(readBatchHeader(first!)).toMatchObject({
      baseOffset: 0n,
      count: 0,
      lastOffsetDelta: 0,
      producerId: 1n,
    })
    expect(readCommitted()).toEqual({ seen: ['1 a=2'], nextOffset: 2n })
    expect(put({ a: '1' }, { id: 1n, sequence: 0 })).toBe(0n)
    expect(put({ b: '1' }, { id: 1n, sequence: 1 })).toBe(2n)
  })

  test('tombstones stay until they are told to go', () => {
    put({ a: '1' })
    put({ a: null, b: '1' })
    log.compact()
    expect(readCommitted().seen).toEqual(['1 a=null', '2 b=1'])
    log.compact({ withTombstones: true })
    expect(readCommitted()).toEqual({ seen: ['2 b=1'], nextOffset: 3n })
  })
})

describe('retention and append time', () => {
  test('batches older than retention.ms go from the start', () => {
    settings = { ...settings, retentionMs: 500 }
    put({ a: '1' })
    now += 400
    put({ b: '1' })
    now += 200
    log.applyRetention()
    expect(log.logStartOffset).toBe(1n)
    now += 1_000
    log.applyRetention()
    expect([log.logStartOffset, log.highWatermark]).toEqual([2n, 2n])
    expect(log.read(0n, 100, 'read_committed', true).errorCode).toBe(1)
  })

  test('an open transaction is kept whatever its age', () => {
    settings = { ...settings, retentionMs: 1 }
    put({ a: '1' }, { id: 1n, sequence: 0, transactional: true })
    now += 1_000
    log.applyRetention()
    expect(log.logStartOffset).toBe(0n)
  })

  test('with LogAppendTime records carry the time of the broker', () => {
    settings = { ...settings, logAppendTime: true }
    log.append(encodePlainBatch({ records: [{ key: 'a', value: '1', timestamp: 5 }] }), 0)
    expect(log.offsetAt({ timestamp: now }, 'read_committed')).toBe(0n)
    expect(log.offsetAt({ timestamp: now + 1 }, 'read_committed')).toBe(-1n)
  })
})

describe('markers', () => {
  test('a late marker of an older epoch is dropped', () => {
    put({ a: '1' }, { id: 1n, sequence: 0, transactional: true })
    log.appendMarker({ commit: false, producerId: 1n, producerEpoch: 2, coordinatorEpoch: 0 }, 0)
    expect(log.highWatermark).toBe(2n)
    end(1n, true)
    expect(log.highWatermark).toBe(2n)
    expect(readCommitted().seen).toEqual([])
  })

  test('sequences wrap around after the largest one', () => {
    put({ a: '1' }, { id: 1n, sequence: 0x7ffffffe })
    expect(put({ a: '2', b: '2' }, { id: 1n, sequence: 0x7fffffff })).toBe(1n)
    expect(put({ c: '3' }, { id: 1n, sequence: 1 })).toBe(3n)
  })
})
