import { describe, expect, test } from '@jest/globals'
import {
  CHECKPOINT_FORMAT,
  type CompletedCheckpoint,
  committableName,
  decodeCheckpoint,
  encodeCheckpoint,
  handlesOf,
} from '../../../src/checkpoint/completed-checkpoint.ts'
import { isMillraceError } from '../../../src/errors.ts'

const checkpoint: CompletedCheckpoint = {
  format: CHECKPOINT_FORMAT,
  run: 'r',
  attempt: 2,
  n: 7,
  kind: 'checkpoint',
  triggeredAt: 1,
  completedAt: 2,
  operators: [{ uid: 'count', name: 'Count', parallelism: 2, maxParallelism: 128 }],
  states: [
    {
      uid: 'count',
      subtask: 0,
      keyed: { handle: { kind: 'inline', bytes: 'AQ==', size: 1 }, keyGroups: [[0, 0, 1]] },
      operator: { kind: 'file', path: 'a/b', size: 9, crc32: 5 },
    },
    { uid: 'sink', subtask: 1, committables: [{ id: 1 }] },
  ],
  confirmed: 6,
  stateBytes: 10,
}

function codeOf(text: string): string {
  try {
    decodeCheckpoint(text, 'topic key')
  } catch (error) {
    expect((error as Error).message).toContain('topic key')
    return isMillraceError(error) ? error.code : String(error)
  }
  return 'decoded'
}

describe('checkpoint metadata', () => {
  test('comes back as it was written', () => {
    expect(decodeCheckpoint(encodeCheckpoint(checkpoint), 'x')).toEqual(checkpoint)
  })

  test.each([
    ['cut off', encodeCheckpoint(checkpoint).slice(0, -5)],
    ['null', 'null'],
    ['a number', '7'],
    ['without a format', JSON.stringify({ ...checkpoint, format: undefined })],
    ['without a run', JSON.stringify({ ...checkpoint, run: undefined })],
    ['with an id that is no number', JSON.stringify({ ...checkpoint, n: '7' })],
    ['with an id that is no whole number', JSON.stringify({ ...checkpoint, n: 7.5 })],
    ['without what is confirmed', JSON.stringify({ ...checkpoint, confirmed: undefined })],
    ['without states', JSON.stringify({ ...checkpoint, states: {} })],
    ['without operators', JSON.stringify({ ...checkpoint, operators: undefined })],
    ['of a newer format', JSON.stringify({ ...checkpoint, format: CHECKPOINT_FORMAT + 1 })],
  ])('%s is lost state, said with its place', (_what, text) => {
    expect(codeOf(text)).toBe('MILLRACE_STATE_LOST')
  })

  test('its handles are those of keyed and of operator state, and nothing else', () => {
    expect(handlesOf(checkpoint).map(({ kind }) => kind)).toEqual(['inline', 'file'])
  })

  test('a committable is given up by the name of its transaction, which no later one has', () => {
    expect(committableName({ transactionalId: 't.0.1', producerId: '77', producerEpoch: 3 })).toBe(
      't.0.1:77:3',
    )
    expect(committableName({ path: 'part-0' })).toBeUndefined()
    expect(committableName('text')).toBeUndefined()
    expect(committableName(null)).toBeUndefined()
  })
})
