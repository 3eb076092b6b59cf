import { describe, expect, test } from '@jest/globals'
import type { OperatorSpec } from '../../../../src/api/graph-builder.ts'
import { IntervalJoin, type IntervalJoined } from '../../../../src/api/interval-join.ts'
import type { OpenStream } from '../../../../src/api/open-stream.ts'
import { MAX_WATERMARK } from '../../../../src/core/element.ts'
import { ProcessJoinFunction } from '../../../../src/core/operators/join-context.ts'
import { OutputTag } from '../../../../src/core/output-tag.ts'
import { OperatorHarness } from '../../../../src/testing/operator-harness.ts'

interface Left {
  readonly k: string
  readonly l: number
}
interface Right {
  readonly k: string
  readonly r: number
}
/** Where a spec goes instead of a graph. */
interface SpecStream extends OpenStream {
  readonly stream: OperatorSpec
}

const keyOf = ({ k }: { k: string }) => k
const between = (lower: number, upper: number): IntervalJoined<Left, Right, SpecStream> =>
  new IntervalJoin<Left, Right, SpecStream>({ add: (spec) => spec }, [keyOf, keyOf]).between(lower, upper)

/** 'l+r' for each pair. */
class Pairs extends ProcessJoinFunction<Left, Right, string> {
  override processElement(left: Left, right: Right, context: this['Context'], out: any) {
    expect([context.getLeftTimestamp(), context.getRightTimestamp()]).toEqual([left.l, right.r])
    expect(context.getTimestamp()).toBe(Math.max(left.l, right.r))
    out.collect(`${left.l}+${right.r}`)
  }
}

const open = (spec: OperatorSpec, options = {}): Promise<OperatorHarness<Left, string, Right>> =>
  OperatorHarness.of<Left, string, Right>(spec.factory, { keyed: true, ...options })
const left = (harness: OperatorHarness<Left, any, Right>, l: number, k = 'a') =>
  harness.processElement({ k, l }, l)
const right = (harness: OperatorHarness<Left, any, Right>, r: number, k = 'a') =>
  harness.processElement2({ k, r }, r)

describe('an interval join', () => {
  test('joins what is within the bounds, both included, whichever comes first', async () => {
    const harness = await open(between(-2, 3).process(new Pairs()))
    for (const time of [7, 8, 10]) await right(harness, time)
    await left(harness, 10)
    for (const time of [13, 14]) await right(harness, time)
    expect(harness.values()).toEqual(['10+8', '10+10', '10+13'])
  })

  test('leaves out a bound that is exclusive', async () => {
    const values = async (joined: IntervalJoined<Left, Right, SpecStream>) => {
      const harness = await open(joined.process(new Pairs()))
      await left(harness, 10)
      for (const time of [8, 9, 12, 13]) await right(harness, time)
      return harness.values()
    }
    expect(await values(between(-2, 3).lowerBoundExclusive())).toEqual(['10+9', '10+12', '10+13'])
    expect(await values(between(-2, 3).upperBoundExclusive())).toEqual(['10+8', '10+9', '10+12'])
    expect(await values(between(-2, 3).lowerBoundExclusive().upperBoundExclusive())).toEqual([
      '10+9',
      '10+12',
    ])
  })

  test('keeps no record longer for a bound that is exclusive', async () => {
    const harness = await open(between(-5, 5).upperBoundExclusive().process(new Pairs()))
    await left(harness, 10)
    await harness.processWatermark(14)
    await right(harness, 14)
    expect(harness.values()).toEqual([])
    const other = await open(between(-5, 5).lowerBoundExclusive().process(new Pairs()))
    await right(other, 10)
    await other.processWatermark(14)
    await left(other, 14)
    expect(other.values()).toEqual([])
  })

  test('joins only records of one key', async () => {
    const harness = await open(between(-5, 5).process(new Pairs()))
    await left(harness, 10, 'a')
    await right(harness, 10, 'b')
    expect(harness.values()).toEqual([])
  })

  test('joins in the past and in the future of the left record alone', async () => {
    const past = await open(between(-5, -2).process(new Pairs()))
    await left(past, 10)
    for (const time of [4, 5, 8, 9]) await right(past, time)
    expect(past.values()).toEqual(['10+5', '10+8'])
    const future = await open(between(2, 5).process(new Pairs()))
    for (const time of [11, 12, 15, 16]) await right(future, time)
    await left(future, 10)
    expect(future.values()).toEqual(['10+12', '10+15'])
  })

  test('equal times only, with bounds of zero', async () => {
    const harness = await open(between(0, 0).process(new Pairs()))
    for (const time of [9, 10, 11]) await left(harness, time)
    await right(harness, 10)
    expect(harness.values()).toEqual(['10+10'])
  })

  test('gives results the later time of the two', async () => {
    const harness = await open(between(-5, 5).process(new Pairs()))
    await left(harness, 10)
    await right(harness, 7)
    await right(harness, 12)
    expect(harness.records().map(({ timestamp }) => timestamp)).toEqual([10, 12])
  })

  test('a record below the watermark is late: to its side output, or counted; one at the watermark is not', async () => {
    const lateLeft = new OutputTag<Left>('late-left')
    const lateRight = new OutputTag<Right>('late-right')
    const told = await open(
      between(-5, 5).sideOutputLeftLateData(lateLeft).sideOutputRightLateData(lateRight).process(new Pairs()),
    )
    await told.processWatermark(10)
    await left(told, 9)
    await right(told, 8)
    await left(told, 10)
    await right(told, 10)
    expect(told.values()).toEqual(['10+10'])
    expect(told.sideRecords(lateLeft)).toEqual([{ value: { k: 'a', l: 9 }, timestamp: 9 }])
    expect(told.sideRecords(lateRight)).toEqual([{ value: { k: 'a', r: 8 }, timestamp: 8 }])
    expect(told.counter('late_records_dropped')).toBe(0)

    const counted = await open(between(-5, 5).process(new Pairs()))
    await counted.processWatermark(10)
    await left(counted, 9)
    await right(counted, 9)
    expect(counted.counter('late_records_dropped')).toBe(2)
  })

  test('keeps no record that nothing can meet any more', async () => {
    const harness = await open(between(-10, 5).process(new Pairs()))
    await left(harness, 100)
    await right(harness, 100)
    expect(harness.stateEntries()).toBe(2)
    await harness.processWatermark(200)
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
  })

  test('a partner whose time is over does not meet a record at the watermark, though it may still lie in state', async () => {
    // The left record goes at 10 + 5; the bucket that it lies in ends later.
    const harness = await open(between(-100, 5).process(new Pairs()))
    await left(harness, 10)
    await harness.processWatermark(15)
    await right(harness, 15)
    expect([harness.values(), harness.stateEntries()]).toEqual([[], 2])
  })

  test('keeps its records over a restore, and over a rescale', async () => {
    const spec = between(-5, 5).process(new Pairs())
    const first = await open(spec)
    const keys = Array.from({ length: 40 }, (_, i) => `key-${i}`)
    for (const key of keys) {
      await left(first, 10, key)
      await right(first, 12, key)
    }
    const snapshot = await first.snapshot()
    const values: string[] = []
    for (const subtaskIndex of [0, 1, 2]) {
      const part = await open(spec, { restore: snapshot, parallelism: 3, subtaskIndex })
      for (const key of keys) if (part.owns(key)) await right(part, 15, key)
      values.push(...part.values())
      await part.processWatermark(MAX_WATERMARK)
      expect([part.stateEntries(), part.timerCount()]).toEqual([0, 0])
    }
    expect(values).toEqual(keys.map(() => '10+15'))
  })

  test('takes a plain function, and waits for its promises in order', async () => {
    const spec = between(-5, 5).process<string>(async (l, r, _context, out) => {
      await Promise.resolve()
      out.collect(`${l.l}/${r.r}`)
    })
    const harness = await open(spec)
    for (const time of [8, 9, 10]) await left(harness, time)
    await right(harness, 10)
    expect(harness.values()).toEqual(['8/10', '9/10', '10/10'])
  })

  test('emits what a record with many partners makes as it goes, in vectors', async () => {
    const harness = await open(between(-1, 1).process(new Pairs()), { vectorSize: 10 })
    for (let i = 0; i < 35; i++) await left(harness, 10)
    await right(harness, 10)
    expect(harness.values()).toHaveLength(35)
  })

  test('goes to side outputs with the time of the pair', async () => {
    const tag = new OutputTag<number>('sum')
    const harness = await open(between(-5, 5).process((l, r, context) => context.output(tag, l.l + r.r)))
    await left(harness, 10)
    await right(harness, 12)
    expect(harness.sideRecords(tag)).toEqual([{ value: 22, timestamp: 12 }])
  })

  test('needs event time', async () => {
    const harness = await open(between(-5, 5).process(new Pairs()))
    await expect(harness.processElement({ k: 'a', l: 1 })).rejects.toMatchObject({
      code: 'MILLRACE_MISSING_TIMESTAMP',
      message: expect.stringContaining('an interval join'),
    })
  })

  test('errors name the operator and the record', async () => {
    const harness = await open(
      between(-5, 5).process(() => {
        throw new Error('no pair')
      }),
      { name: 'pay' },
    )
    await left(harness, 1)
    await expect(right(harness, 1)).rejects.toThrow(/processElement of operator 'pay'.*no pair/)
  })
})

describe('an interval that nothing can be in is refused', () => {
  test('with the lower bound above the upper one', () => {
    expect(() => between(2, 1)).toThrow(/lower bound is above the upper one/)
  })
  test('with equal bounds of which one is exclusive', () => {
    expect(() => between(1, 1).upperBoundExclusive().process(new Pairs())).toThrow(/is empty/)
    expect(() => between(1, 2).lowerBoundExclusive().upperBoundExclusive().process(new Pairs())).toThrow(
      /is empty/,
    )
  })
  test('with bounds that are no numbers', () => {
    expect(() => between(Number.NaN, 1)).toThrow(/lower bound/)
  })
})
