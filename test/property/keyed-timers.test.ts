import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { KeyedContext, OnTimerContext } from '../../src/core/functions.ts'
import { keyedProcessOperator } from '../../src/core/operators/process.ts'
import { OperatorHarness } from '../../src/testing/operator-harness.ts'

interface Change {
  readonly add: boolean
  readonly time: number
}
/** What the function does when a timer of `key` fires at `time` for the first time. */
type Reactions = Readonly<Record<string, readonly Change[]>>

const change = fc.record({ add: fc.boolean(), time: fc.nat(15) })
const scene = fc.record({
  first: fc.array(fc.record({ key: fc.constantFrom('a', 'b', 'c'), time: fc.nat(15) }), {
    minLength: 1,
    maxLength: 12,
  }),
  reactions: fc.dictionary(
    fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.nat(15)).map(([key, time]) => `${key}${time}`),
    fc.array(change, { maxLength: 4 }),
  ),
  watermarks: fc.array(fc.nat(16), { minLength: 1, maxLength: 4 }),
  vectorSize: fc.integer({ min: 1, max: 5 }),
})

/** One timer after the other out of a set, as if there were no batches. Gives the times at which each key's timers fired. */
function naive(
  first: readonly { key: string; time: number }[],
  reactions: Reactions,
  watermarks: readonly number[],
) {
  const timers = new Set(first.map(({ key, time }) => `${key}${time}`))
  const reacted = new Set<string>()
  const fired: string[] = []
  const timeOf = (timer: string) => Number(timer.slice(1))
  for (const watermark of watermarks) {
    for (;;) {
      const due = [...timers].filter((timer) => timeOf(timer) <= watermark)
      if (due.length === 0) break
      const earliest = Math.min(...due.map(timeOf))
      // Which of several timers of one time comes first is not part of the contract: take them by what the operator chose.
      const timer = due.find((one) => timeOf(one) === earliest)!
      timers.delete(timer)
      fired.push(timer)
      if (reacted.has(timer)) continue
      reacted.add(timer)
      for (const { add, time } of reactions[timer] ?? []) {
        if (add) timers.add(`${timer[0]}${time}`)
        else timers.delete(`${timer[0]}${time}`)
      }
    }
  }
  return { fired, left: timers.size }
}

test('timers fire as if each were taken alone, whatever the firing ones register and delete', async () => {
  await fc.assert(
    fc.asyncProperty(scene, async ({ first, reactions, watermarks, vectorSize }) => {
      const fired: string[] = []
      const reacted = new Set<string>()
      const fn = {
        processElement({ time }: { time: number }, context: KeyedContext<string>) {
          context.timerService().registerEventTimeTimer(time)
        },
        onTimer(time: number, context: OnTimerContext<string>) {
          const timer = `${context.getCurrentKey()}${time}`
          fired.push(timer)
          if (reacted.has(timer)) return
          reacted.add(timer)
          for (const one of reactions[timer] ?? []) {
            if (one.add) context.timerService().registerEventTimeTimer(one.time)
            else context.timerService().deleteEventTimeTimer(one.time)
          }
        },
      }
      const rising = [...watermarks].sort((a, b) => a - b)
      const harness = await OperatorHarness.of<object, never>(
        keyedProcessOperator(fn as never, (value: any) => value.key),
        { keyed: true, vectorSize },
      )
      await harness.processElements(first)
      for (const watermark of rising) await harness.processWatermark(watermark)
      const expected = naive(first, reactions, rising)
      // Keys are independent of each other: compare them one by one, and the order of times over all.
      for (const key of ['a', 'b', 'c'])
        expect(fired.filter((timer) => timer.startsWith(key))).toEqual(
          expected.fired.filter((timer) => timer.startsWith(key)),
        )
      expect(fired.map((timer) => timer.slice(1))).toEqual(expected.fired.map((timer) => timer.slice(1)))
      expect(harness.timerCount()).toBe(expected.left)
    }),
    { numRuns: 400 },
  )
})
