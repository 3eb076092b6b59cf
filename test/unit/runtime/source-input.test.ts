import { beforeEach, describe, expect, test } from '@jest/globals'
import { MAX_WATERMARK } from '../../../src/core/element.ts'
import { SourceWatermarker, WatermarkStrategy } from '../../../src/core/time/watermarks.ts'
import { UserFunctionError } from '../../../src/errors.ts'
import { SourceInput } from '../../../src/runtime/source-input.ts'
import { QueueReader, RecordingOperator, vector, type Wired, wire } from './chain-fixture.ts'
import { VirtualWorld } from './virtual-world.ts'

let virtual: VirtualWorld
let reader: QueueReader
let wired: Wired
let wakes: number

beforeEach(() => {
  virtual = new VirtualWorld()
  reader = new QueueReader()
  wired = wire(virtual, undefined)
  wakes = 0
})

const info = { jobName: 'job', operatorName: 'src', uid: 'src', subtaskIndex: 0, parallelism: 1, attempt: 1 }

function input(strategy?: WatermarkStrategy<any>): SourceInput {
  const watermarker =
    strategy === undefined ? undefined : new SourceWatermarker<unknown>(strategy as never, info)
  watermarker?.splitAdded('s')
  const made = new SourceInput(reader, watermarker, wired.driver, virtual.world, () => {
    wakes++
  })
  void made.start()
  return made
}

describe('the input of a source task', () => {
  test('passes records on, one vector a step', async () => {
    reader.put(1, 2)
    reader.put(3)
    const made = input()
    expect(await made.step()).toBe('worked')
    expect(await made.step()).toBe('worked')
    expect(wired.taken()).toEqual([vector(1, 2), vector(3)])
  })

  test('is idle without records, and wakes the task when there are some', async () => {
    const made = input()
    expect(await made.step()).toBe('idle')
    expect(await made.step()).toBe('idle')
    reader.put(1)
    await virtual.time.advance(1)
    expect(wakes).toBe(1)
    expect(await made.step()).toBe('worked')
  })

  test('sends records of a side output there, before the records of their vector', async () => {
    reader.queue.push({ splitId: 's', vector: vector(1), side: { tagId: 'tag', vector: vector('dead') } })
    reader.queue.push({ splitId: 's', vector: vector(), side: { tagId: 'tag', vector: vector('alone') } })
    const made = input()
    expect(await made.step()).toBe('worked')
    expect(await made.step()).toBe('worked')
    expect(wired.taken()).toEqual([vector(1)])
    expect([wired.side.take(), wired.side.take()]).toEqual([vector('dead'), vector('alone')])
  })

  test('waits while the edge is full', async () => {
    wired = wire(virtual, undefined, { capacity: 1 })
    reader.put(1)
    const made = input()
    let done = false
    const step = Promise.resolve(made.step()).then(() => {
      done = true
    })
    await virtual.time.advance(10)
    expect(done).toBe(false)
    wired.taken()
    await step
  })

  test('a reader that failed throws in the step', async () => {
    const made = input()
    await made.step()
    reader.failure = new Error('gone')
    reader.wake()
    await virtual.time.advance(1)
    expect(wakes).toBe(1)
    expect(() => made.step()).toThrow('gone')
  })
})

describe('watermarks', () => {
  const strategy = WatermarkStrategy.forBoundedOutOfOrderness<number>(10).withTimestampAssigner(
    (value) => value,
  )

  test('follow the records, and are sent when they rise', async () => {
    const made = input(strategy)
    reader.put(100)
    reader.put(90)
    reader.put(200)
    for (let i = 0; i < 3; i++) {
      await made.step()
      await virtual.time.advance(250)
      await made.periodic()
    }
    const watermarks = wired.taken().flatMap((e) => (e.kind === 'watermark' ? [e.timestamp] : []))
    expect(watermarks).toEqual([89, 189])
  })

  test('a source that falls silent becomes idle, and active again with its next record, before it', async () => {
    const made = input(strategy.withIdleness(1_000))
    reader.put(100)
    await made.step()
    for (let i = 0; i < 10; i++) {
      await virtual.time.advance(250)
      await made.periodic()
    }
    reader.put(300)
    await made.step()
    await virtual.time.advance(250)
    await made.periodic()
    const kinds = wired.taken().map((e) => (e.kind === 'watermark-status' ? `idle ${e.idle}` : e.kind))
    expect(kinds.filter((kind) => kind.startsWith('idle'))).toEqual(['idle true', 'idle false'])
    expect(kinds.lastIndexOf('watermark')).toBeGreaterThan(kinds.indexOf('idle false'))
  })
})

test('a watermark made on a record comes right behind it, wherever the vectors end', async () => {
  const punctuated = WatermarkStrategy.forGenerator<number>(() => ({
    onEvent(value, _timestamp, output) {
      if (value % 10 === 0) output.emitWatermark(value)
    },
    onPeriodicEmit() {},
  })).withTimestampAssigner((value) => value)
  const sentFor = async (vectors: readonly (readonly number[])[]) => {
    wired = wire(virtual, undefined)
    reader = new QueueReader()
    const made = input(punctuated)
    for (const values of vectors) reader.put(...values)
    while ((await made.step()) === 'worked');
    return wired
      .taken()
      .flatMap((element) =>
        element.kind === 'records'
          ? element.values.map(String)
          : [element.kind === 'watermark' ? `w${element.timestamp}` : element.kind],
      )
  }
  const values = [1, 10, 5, 20, 30, 31]
  const expected = ['1', '10', 'w10', '5', '20', 'w20', '30', 'w30', '31']
  expect(await sentFor([values])).toEqual(expected)
  expect(await sentFor(values.map((value) => [value]))).toEqual(expected)
})

test('a reader that waits for what it needs to decode a record is not silent', async () => {
  const made = input(
    WatermarkStrategy.forMonotonousTimestamps<number>()
      .withTimestampAssigner((value) => value)
      .withIdleness(1_000),
  )
  let preparing = true
  Object.assign(reader, { isPreparing: () => preparing })
  const idleAfter = async (ticks: number) => {
    for (let i = 0; i < ticks; i++) {
      await made.step()
      await virtual.time.advance(250)
      await made.periodic()
    }
    return wired.taken().some((element) => element.kind === 'watermark-status')
  }
  reader.put(100)
  await made.step()
  expect(await idleAfter(20)).toBe(false)
  expect(made.waiting()).toBe(true)
  preparing = false
  expect(made.waiting()).toBe(false)
  expect(await idleAfter(8)).toBe(true)
})

describe('the end', () => {
  test('of all splits: the last watermark, the end hooks, and the word to those downstream, once', async () => {
    reader.put(1)
    reader.finished = true
    const made = input()
    for (let i = 0; i < 4; i++) await made.step()
    expect(wired.taken()).toEqual([
      vector(1),
      { kind: 'watermark', timestamp: MAX_WATERMARK },
      { kind: 'end-of-data' },
    ])
    expect(wired.driver.ended).toBe(true)
    expect(made.describe()).toContain('end')
  })

  test('after a stop no record is read', async () => {
    const made = input()
    reader.put(1)
    made.stop()
    expect(await made.step()).toBe('idle')
    expect(wired.taken()).toEqual([])
    expect(reader.queue).toHaveLength(1)
    expect(made.describe()).toContain('stopped')
  })

  test('a stop of a source that is read to its end changes nothing', async () => {
    reader.finished = true
    const made = input()
    await made.step()
    made.stop()
    expect(made.describe()).toContain('end')
  })

  test('closing closes the reader', async () => {
    await input().close()
    expect(reader.calls).toEqual(['start', 'close'])
  })
})

describe('a function that fails on records of the source', () => {
  const failing = async (failure: unknown, wait?: Promise<void>): Promise<unknown> => {
    const operator = new RecordingOperator()
    operator.throws.set('records', failure)
    if (wait !== undefined) operator.waits.set('records', wait)
    wired = wire(virtual, operator)
    reader.describeLastRecords = (split) => `${split}, offsets 7 to 8`
    reader.put(1, 2)
    try {
      await input().step()
    } catch (error) {
      return error
    }
    throw new Error('it did not fail')
  }
  const userFailure = () =>
    new UserFunctionError('MILLRACE_USER_FUNCTION', 'map failed', { cause: 'x', details: { record: '1' } })

  test('is told with where they lie', async () => {
    expect(await failing(userFailure())).toMatchObject({
      code: 'MILLRACE_USER_FUNCTION',
      message: 'map failed',
      cause: 'x',
      details: { record: '1', position: 's, offsets 7 to 8' },
    })
  })

  test('other failures are passed on as they are', async () => {
    const failure = new TypeError('a defect')
    expect(await failing(failure)).toBe(failure)
  })
})

describe('event time', () => {
  test('is there with a strategy, and not without watermarks', () => {
    expect(input(WatermarkStrategy.forMonotonousTimestamps()).hasEventTime).toBe(true)
    expect(input(WatermarkStrategy.noWatermarks()).hasEventTime).toBe(false)
    expect(input(WatermarkStrategy.noWatermarks().withIdleness(10)).hasEventTime).toBe(false)
    expect(input().hasEventTime).toBe(false)
  })
})
