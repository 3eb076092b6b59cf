import { describe, expect, test } from '@jest/globals'
import { CheckpointFailureManager } from '../../../src/checkpoint/failure-manager.ts'

describe('tolerable checkpoint failures', () => {
  test('with none tolerated the first time-out or decline fails the job', () => {
    expect(new CheckpointFailureManager(0).failed('timeout')).toBe(true)
    expect(new CheckpointFailureManager(0).failed('declined')).toBe(true)
    expect(new CheckpointFailureManager(0).failed('refused')).toBe(true)
  })

  test('failures in a row count, and a completed checkpoint forgives them', () => {
    const manager = new CheckpointFailureManager(2)
    expect([manager.failed('timeout'), manager.failed('declined')]).toEqual([false, false])
    manager.completed()
    expect(manager.failuresInRow).toBe(0)
    expect([manager.failed('timeout'), manager.failed('timeout'), manager.failed('timeout')]).toEqual([
      false,
      false,
      true,
    ])
  })

  test('subsumed and cancelled ones are no failures', () => {
    const manager = new CheckpointFailureManager(0)
    expect([manager.failed('subsumed'), manager.failed('cancelled')]).toEqual([false, false])
    expect(manager.failuresInRow).toBe(0)
  })

  test('with all tolerated none fails the job', () => {
    const manager = new CheckpointFailureManager(Number.POSITIVE_INFINITY)
    expect(Array.from({ length: 1_000 }, () => manager.failed('timeout'))).not.toContain(true)
  })
})
