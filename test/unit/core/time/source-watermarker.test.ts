import { describe, expect, test } from '@jest/globals'
import { MIN_WATERMARK, type RecordVector, recordVector } from '../../../../src/core/element.ts'
import { SourceWatermarker, WatermarkStrategy } from '../../../../src/core/time/watermarks.ts'

const info = {
  jobName: 'job',
  operatorName: 'orders',
  uid: 'orders',
  subtaskIndex: 0,
  parallelism: 1,
  attempt: 1,
}
const byValue = WatermarkStrategy.forMonotonousTimestamps<number>().withTimestampAssigner((value) => value)

function watermarkerOf(strategy: WatermarkStrategy<number>, ...splits: string[]) {
  const watermarker = new SourceWatermarker(strategy, info)
  for (const split of splits) watermarker.splitAdded(split)
  return watermarker
}
const vectorOf = (...values: number[]) =>
  recordVector(
    values,
    values.map(() => Number.NaN),
  )

/** The subtask reads a vector whose records may all be sent at once. */
function read<T>(source: SourceWatermarker<T>, split: string, vector: RecordVector<T>): RecordVector<T> {
  const stamped = source.stamped(vector)
  for (let from = 0; from < vector.values.length; ) from = source.onRecords(split, stamped, from)
  return stamped
}

describe('the watermark of a source', () => {
  test('is the minimum over its splits', () => {
    const source = watermarkerOf(byValue, 'p0', 'p1')
    read(source, 'p0', vectorOf(100))
    source.onPeriodic(0)
    expect(source.current()).toEqual({ watermark: MIN_WATERMARK, idle: false })
    read(source, 'p1', vectorOf(50))
    source.onPeriodic(200)
    expect(source.current()).toEqual({ watermark: 49, idle: false })
    read(source, 'p1', vectorOf(300))
    source.onPeriodic(400)
    expect(source.current()).toEqual({ watermark: 99, idle: false })
  })

  test('records get their assigned times', () => {
    const source = watermarkerOf(byValue, 'p0')
    expect(read(source, 'p0', vectorOf(3, 4)).timestamps).toEqual([3, 4])
  })

  test('a fraction of a millisecond is cut off', () => {
    const source = watermarkerOf(byValue, 'p0')
    expect(read(source, 'p0', vectorOf(3.9, 4, -0.5)).timestamps).toEqual([3, 4, -1])
  })

  test('without an assigner the vector is passed on untouched and its timestamps count', () => {
    const source = watermarkerOf(WatermarkStrategy.forMonotonousTimestamps(), 'p0')
    const vector = recordVector([1], [77])
    expect(read(source, 'p0', vector)).toBe(vector)
    source.onPeriodic(0)
    expect(source.current().watermark).toBe(76)
  })

  test('a finished split holds nothing back', () => {
    const source = watermarkerOf(byValue, 'p0', 'p1')
    read(source, 'p0', vectorOf(100))
    source.onPeriodic(0)
    source.splitFinished('p1')
    expect(source.current()).toEqual({ watermark: 99, idle: false })
    source.splitFinished('p0')
    expect(source.current()).toEqual({ watermark: 99, idle: true })
  })

  test('a silent split holds the watermark back for ever without idleness, and is named', () => {
    const source = watermarkerOf(byValue, 'p0', 'p1')
    read(source, 'p0', vectorOf(100))
    for (let now = 0; now < 100_000; now += 200) source.onPeriodic(now)
    expect(source.current().watermark).toBe(MIN_WATERMARK)
    expect(source.holdingBack()).toEqual(['p1'])
  })

  test('with idleness a silent split stops counting after the time-out, and an old record of it takes nothing back', () => {
    const source = watermarkerOf(byValue.withIdleness(5_000), 'p0', 'p1')
    const values: number[] = []
    for (let now = 0; now <= 6_000; now += 200) {
      read(source, 'p0', vectorOf(now))
      source.onPeriodic(now)
      values.push(source.current().watermark)
    }
    expect(values[24]).toBe(MIN_WATERMARK)
    expect(values[25]).toBe(4_999)
    read(source, 'p1', vectorOf(10))
    source.onPeriodic(6_200)
    expect(source.current()).toEqual({ watermark: 5_999, idle: false })
  })

  test('the source turns idle when all its splits are, and active with the next record', () => {
    const source = watermarkerOf(byValue.withIdleness(300), 'p0')
    read(source, 'p0', vectorOf(10))
    for (let now = 0; now <= 400; now += 200) source.onPeriodic(now)
    expect(source.current()).toEqual({ watermark: 9, idle: true })
    read(source, 'p0', vectorOf(20))
    expect(source.current().idle).toBe(false)
  })

  test('a source without a split is idle: it must not hold others back', () => {
    expect(watermarkerOf(byValue).current()).toEqual({ watermark: MIN_WATERMARK, idle: true })
  })

  test('time under backpressure is not silence', () => {
    const source = watermarkerOf(byValue.withIdleness(300), 'p0')
    read(source, 'p0', vectorOf(10))
    source.onPeriodic(0)
    source.blockedFor(10_000)
    source.onPeriodic(10_200)
    expect(source.current().idle).toBe(false)
    source.onPeriodic(10_400)
    expect(source.current().idle).toBe(true)
  })

  test('a generator that emits on a record raises the watermark of its split', () => {
    const strategy = WatermarkStrategy.forGenerator<number>(() => ({
      onEvent: (value, _timestamp, output) => output.emitWatermark(value),
      onPeriodicEmit() {},
    }))
    const source = watermarkerOf(strategy, 'p0')
    read(source, 'p0', vectorOf(5, 3))
    expect(source.current().watermark).toBe(5)
  })

  test('a split whose generator marks it idle counts no more until it is marked active or gets a watermark', () => {
    const strategy = WatermarkStrategy.forGenerator<number>(() => ({
      onEvent(value, _timestamp, output) {
        if (value < 0) output.markIdle()
        else if (value === 0) output.markActive()
        else output.emitWatermark(value)
      },
      onPeriodicEmit() {},
    }))
    const source = watermarkerOf(strategy, 'p0', 'p1')
    read(source, 'p0', vectorOf(10))
    expect(source.current()).toEqual({ watermark: MIN_WATERMARK, idle: false })
    read(source, 'p1', vectorOf(-1))
    expect(source.current()).toEqual({ watermark: 10, idle: false })
    expect(source.holdingBack()).toEqual(['p0'])
    read(source, 'p0', vectorOf(-1))
    expect(source.current()).toEqual({ watermark: 10, idle: true })
    read(source, 'p1', vectorOf(0))
    read(source, 'p0', vectorOf(20))
    expect(source.current()).toEqual({ watermark: 10, idle: false })
    read(source, 'p1', vectorOf(15))
    expect(source.current()).toEqual({ watermark: 15, idle: false })
  })

  test('records are shown up to the first on which the generator says something, then from there', () => {
    const strategy = WatermarkStrategy.forGenerator<number>(() => ({
      onEvent: (value, _timestamp, output) => output.emitWatermark(value),
      onPeriodicEmit() {},
    }))
    const source = watermarkerOf(strategy, 'p0')
    const vector = vectorOf(5, 3, 4, 6, 1)
    const ends: unknown[] = []
    for (let from = 0; from < 5; ) {
      from = source.onRecords('p0', vector, from)
      ends.push([from, source.current().watermark])
    }
    expect(ends).toEqual([
      [1, 5],
      [4, 6],
      [5, 6],
    ])
  })

  test('errors of the assigner and of the generator name the operator', () => {
    const failing = byValue.withTimestampAssigner(() => {
      throw new Error('no time')
    })
    expect(() => read(watermarkerOf(failing, 'p0'), 'p0', vectorOf(1))).toThrow(
      /The timestamp assigner of operator 'orders' .* failed: no time/,
    )
    const generator = WatermarkStrategy.forGenerator<number>(() => ({
      onEvent() {},
      onPeriodicEmit() {
        throw new Error('broken')
      },
    }))
    expect(() => watermarkerOf(generator, 'p0').onPeriodic(0)).toThrow(
      /The watermark generator of operator 'orders' .* failed: broken/,
    )
  })
})
