import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import { decodeCheckpoint, encodeCheckpoint, handlesOf } from '../../src/checkpoint/completed-checkpoint.ts'
import { identityOf, type KafkaCommittable } from '../../src/kafka/kafka-committable.ts'
import { isSplitFinished, type KafkaSplit } from '../../src/kafka/offsets.ts'
import { golden } from './checkpoint/format-1.ts'

const text = readFileSync(new URL('./checkpoint/format-1.metadata', import.meta.url), 'utf8').trimEnd()

describe('checkpoint metadata of format 1', () => {
  test('is read for ever', () => {
    expect(decodeCheckpoint(text, 'format-1.metadata')).toEqual(golden)
  })

  test('is written as it was: names in it are never changed', () => {
    expect(encodeCheckpoint(golden)).toBe(text)
  })

  test('names all its blobs', () => {
    expect(handlesOf(decodeCheckpoint(text, 'format-1.metadata')).map(({ kind }) => kind)).toEqual([
      'inline',
      'file',
      'topic',
    ])
  })

  test('keeps 64-bit positions and producer ids exact, and what is finished', () => {
    const { states } = decodeCheckpoint(text, 'format-1.metadata')
    const splits = states.flatMap((state) => (state.splits ?? []) as KafkaSplit[])
    expect(splits.map((split) => BigInt(split.position))).toEqual([9007199254740993n, 12n])
    expect(splits.map(isSplitFinished)).toEqual([false, true])
    const [committable] = states.flatMap((state) => (state.committables ?? []) as KafkaCommittable[])
    expect(identityOf(committable!)).toEqual({
      transactionalId: 'millrace.job.totals.0.2',
      producerId: 4611686018427387905n,
      producerEpoch: 12,
    })
  })
})
