import { describe, expect, test } from '@jest/globals'
import { asyncMap } from '../../../../src/api/async-map.ts'
import { type HarnessOptions, OperatorHarness } from '../../../../src/testing/operator-harness.ts'

describe('records in flight behind keyBy', () => {
  const keys = Array.from({ length: 40 }, (_, i) => i)
  const keyOf = (value: number) => `key-${value}`
  /** The function never answers. */
  const keyed = (asked: number[], harness: HarnessOptions, withKeys = true) =>
    OperatorHarness.of<number, string>(
      asyncMap(
        (value: number) => {
          asked.push(value)
          return new Promise<string>(() => {})
        },
        { capacity: 100 },
        withKeys ? keyOf : undefined,
      ).factory,
      harness,
    )
  /** What each of `parallelism` subtasks asks for after a restore. */
  const askedAt = async (
    parallelism: number,
    restore: HarnessOptions['restore'],
    withKeys = true,
  ): Promise<{ readonly asked: number[]; readonly owned: number[] }[]> =>
    Promise.all(
      Array.from({ length: parallelism }, async (_, subtaskIndex) => {
        const asked: number[] = []
        const harness = await keyed(asked, { parallelism, subtaskIndex, restore: restore! }, withKeys)
        return { asked, owned: keys.filter((key) => harness.owns(keyOf(key))) }
      }),
    )
  const snapshotsOf = (parallelism: number, withKeys = true) =>
    Promise.all(
      Array.from({ length: parallelism }, async (_, subtaskIndex) => {
        const harness = await keyed([], { parallelism, subtaskIndex }, withKeys)
        await harness.processElements(keys.filter((key) => harness.owns(keyOf(key))))
        return harness.snapshot()
      }),
    )

  test.each([1, 2, 3, 5])('go to the subtasks of their keys, at parallelism %i', async (parallelism) => {
    for (const { asked, owned } of await askedAt(parallelism, await snapshotsOf(2)))
      expect(asked.toSorted((a, b) => a - b)).toEqual(owned)
  })

  test.each([
    [true, false],
    [false, true],
    [false, false],
  ])('are each asked for once when a job had keys there: %s, and has them now: %s', async (had, has) => {
    const restored = await askedAt(3, await snapshotsOf(2, had), has)
    expect(restored.flatMap(({ asked }) => asked).toSorted((a, b) => a - b)).toEqual(keys)
  })
})
