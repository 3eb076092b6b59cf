import { describe, expect, test } from '@jest/globals'
import {
  type AsyncRequest,
  type AsyncResults,
  OrderedResults,
  UnorderedResults,
} from '../../../../src/core/operators/async-results.ts'

const request = (value: number): AsyncRequest => ({
  kind: 'request',
  value,
  input: value,
  timestamp: Number.NaN,
  result: value,
})
const watermark = (timestamp: number) => ({ kind: 'watermark', timestamp }) as const
const idle = { kind: 'watermark-status', idle: true } as const

function takeAll(results: AsyncResults): (number | string)[] {
  const taken: (number | string)[] = []
  for (let item = results.take(); item !== undefined; item = results.take())
    taken.push(
      item.kind === 'request'
        ? (item.result as number)
        : item.kind === 'watermark'
          ? `w${item.timestamp}`
          : 'idle',
    )
  return taken
}

describe('ordered results', () => {
  test('wait for those of the records before them', () => {
    const results = new OrderedResults()
    const [a, b, c] = [request(1), request(2), request(3)]
    for (const each of [a, b, c]) results.add(each)
    results.completed(c)
    results.completed(b)
    expect([results.ready, takeAll(results)]).toEqual([false, []])
    results.completed(a)
    expect([results.ready, takeAll(results), results.size]).toEqual([true, [1, 2, 3], 0])
  })

  test('are passed by no watermark, and pass none', () => {
    const results = new OrderedResults()
    const [a, b] = [request(1), request(2)]
    results.add(a)
    results.addEvent(watermark(5))
    results.add(b)
    results.completed(b)
    expect(takeAll(results)).toEqual([])
    results.completed(a)
    expect(takeAll(results)).toEqual([1, 'w5', 2])
  })

  test('stay in order over thousands of records, with room given back', () => {
    const results = new OrderedResults()
    const taken: (number | string)[] = []
    let waiting: AsyncRequest[] = []
    for (let i = 0; i < 5_000; i++) {
      const each = request(i)
      results.add(each)
      waiting.push(each)
      if (waiting.length < 7) continue
      for (const done of waiting.toReversed()) results.completed(done)
      waiting = []
      taken.push(...takeAll(results))
    }
    for (const done of waiting) results.completed(done)
    taken.push(...takeAll(results))
    expect(taken).toEqual(Array.from({ length: 5_000 }, (_, i) => i))
  })
})

describe('unordered results', () => {
  test('go as they come', () => {
    const results = new UnorderedResults()
    const [a, b, c] = [request(1), request(2), request(3)]
    for (const each of [a, b, c]) results.add(each)
    results.completed(c)
    expect(takeAll(results)).toEqual([3])
    results.completed(a)
    results.completed(b)
    expect(takeAll(results)).toEqual([1, 2])
  })

  test('do not pass a watermark, and no watermark passes them', () => {
    const results = new UnorderedResults()
    const [a, b, c] = [request(1), request(2), request(3)]
    results.add(a)
    results.add(b)
    results.addEvent(watermark(5))
    results.add(c)
    results.completed(c)
    results.completed(b)
    expect(takeAll(results)).toEqual([2])
    expect([...results.requests()].map(({ value }) => value)).toEqual([1, 3])
    results.completed(a)
    expect(takeAll(results)).toEqual([1, 'w5', 3])
  })
})

describe.each([
  ['ordered', () => new OrderedResults()],
  ['unordered', () => new UnorderedResults()],
])('%s results', (_name, make) => {
  test('of which none is waited for let a watermark go at once', () => {
    const results = make()
    results.addEvent(watermark(1))
    results.addEvent(idle)
    expect([results.ready, takeAll(results), results.ready]).toEqual([true, ['w1', 'idle'], false])
  })

  test('keep only the highest of watermarks with nothing between them', () => {
    const results = make()
    const a = request(1)
    results.add(a)
    for (const time of [1, 2, 3]) results.addEvent(watermark(time))
    results.addEvent(idle)
    results.addEvent(watermark(4))
    results.completed(a)
    expect(takeAll(results)).toEqual([1, 'w3', 'idle', 'w4'])
  })
})
