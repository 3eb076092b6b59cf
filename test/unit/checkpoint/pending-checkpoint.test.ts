import { describe, expect, test } from '@jest/globals'
import { PendingCheckpoint } from '../../../src/checkpoint/pending-checkpoint.ts'

const pending = (requests: readonly string[] = []) =>
  new PendingCheckpoint(3, 'checkpoint', 1_000, ['a/0', 'b/0'], requests)

describe('pending checkpoint', () => {
  test('is full with the last missing acknowledgement and keeps all states', () => {
    const checkpoint = pending()
    expect(checkpoint.acknowledge('b/0', [{ uid: 'b', subtask: 0 }])).toBe(false)
    expect(checkpoint.missing).toEqual(['a/0'])
    expect(checkpoint.acknowledge('a/0', [{ uid: 'a', subtask: 0 }])).toBe(true)
    expect(checkpoint.phase).toBe('Full')
    expect(checkpoint.states.map(({ uid }) => uid)).toEqual(['b', 'a'])
  })

  test('a repeated or unknown acknowledgement changes nothing', () => {
    const checkpoint = pending()
    checkpoint.acknowledge('a/0', [{ uid: 'a', subtask: 0 }])
    expect(checkpoint.acknowledge('a/0', [{ uid: 'a', subtask: 0 }])).toBe(false)
    expect(checkpoint.acknowledge('z/9', [{ uid: 'z', subtask: 9 }])).toBe(false)
    expect(checkpoint.states).toHaveLength(1)
    expect(checkpoint.phase).toBe('Collecting')
  })

  test('an acknowledgement after the end is not taken', () => {
    const checkpoint = pending()
    checkpoint.move('Aborted')
    expect(checkpoint.acknowledge('a/0', [])).toBe(false)
    expect(checkpoint.missing).toEqual(['a/0', 'b/0'])
  })

  test('keeps its own list of requests', () => {
    const requests = ['r1']
    const checkpoint = pending(requests)
    checkpoint.requests.push('r2')
    expect(requests).toEqual(['r1'])
  })

  test('cannot be written before it is full, nor leave an end', () => {
    expect(() => pending().move('Writing')).toThrow(
      /'Writing' is not legal in state Collecting \(checkpoint 3\)/,
    )
    const written = pending()
    for (const phase of ['Full', 'Writing', 'Completed'] as const) written.move(phase)
    expect(() => written.move('Aborted')).toThrow(/not legal in state Completed/)
  })
})
