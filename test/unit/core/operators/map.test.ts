import { describe, expect, test } from '@jest/globals'
import { filterOperator, flatMapOperator, mapOperator } from '../../../../src/core/operators/map.ts'
import { deferred, opened, settled, vectorOf } from './recording-output.ts'

describe('map', () => {
  test('a synchronous function makes one vector of each vector, with the same timestamps and no promise', async () => {
    const { operator, output } = await opened(mapOperator((x: number) => x * 10))
    const input = vectorOf(1, 2, 3)
    expect(operator.processVector(input)).toBeUndefined()
    expect(output.sent).toEqual(['records 10,20,30'])
    expect(output.vectors[0]!.timestamps).toBe(input.timestamps)
  })

  test('an object with a life cycle is opened, used with its own this, and closed', async () => {
    const seen: string[] = []
    const fn = {
      factor: 1,
      open(context: { getTaskName(): string }) {
        this.factor = 7
        seen.push(`open ${context.getTaskName()}`)
      },
      map(x: number) {
        return x * this.factor
      },
      close() {
        seen.push('close')
      },
    }
    const { operator, output } = await opened(mapOperator(fn))
    operator.processVector(vectorOf(1, 2))
    await operator.close!()
    expect(output.values).toEqual([7, 14])
    expect(seen).toEqual(['open op', 'close'])
  })

  test('promises are awaited in order, one record at a time', async () => {
    const running: string[] = []
    const gates = [deferred<string>(), deferred<string>()]
    const { operator, output } = await opened(
      mapOperator((x: number) => {
        running.push(`start ${x}`)
        return x === 0 ? 'zero' : gates[x - 1]!.promise
      }),
    )
    const done = operator.processVector(vectorOf(0, 1, 2, 0))
    expect(done).toBeInstanceOf(Promise)
    await settled()
    expect(running).toEqual(['start 0', 'start 1'])
    gates[1]!.resolve('two')
    await settled()
    expect(running).toEqual(['start 0', 'start 1'])
    gates[0]!.resolve('one')
    await done
    expect(output.values).toEqual(['zero', 'one', 'two', 'zero'])
    expect(output.timestamps).toEqual([0, 1, 2, 3])
  })

  test('what is done is passed on while a later record takes its time', async () => {
    const gate = deferred<number>()
    const { operator, output, context } = await opened(
      mapOperator(async (x: number) => {
        if (x === 3) return gate.promise
        await context.time.sleep(20)
        return x
      }),
    )
    const done = operator.processVector(vectorOf(1, 2, 3))
    await settled()
    await context.time.advance(100)
    await settled()
    expect(output.values).toEqual([1, 2])
    gate.resolve(3)
    await done
    expect(output.values).toEqual([1, 2, 3])
  })

  test('any object with a then method counts as a promise', async () => {
    const { operator, output } = await opened(
      // biome-ignore lint/suspicious/noThenProperty: an object that only looks like a promise is what this test is about
      mapOperator((x: number) => (x === 2 ? { then: (use: (v: string) => void) => use('later') } : 'now')),
    )
    await operator.processVector(vectorOf(1, 2, 3))
    expect(output.values).toEqual(['now', 'later', 'now'])
  })

  test('an error names the operator and the record and keeps the original as its cause', async () => {
    const cause = new RangeError('too big')
    const { operator, output } = await opened(
      mapOperator((x: number) => {
        if (x === 2) throw cause
        return x
      }),
    )
    expect(() => operator.processVector(vectorOf(1, 2, 3))).toThrow(
      expect.objectContaining({
        name: 'UserFunctionError',
        code: 'MILLRACE_USER_FUNCTION',
        message: expect.stringMatching(/map of operator 'op'.*too big/),
        cause,
        details: expect.objectContaining({ operator: 'op', uid: 'op-uid', record: '2' }),
      }),
    )
    expect(output.sent).toEqual([])
  })

  test('a rejected promise is wrapped in the same way', async () => {
    const cause = new Error('no answer')
    const { operator } = await opened(mapOperator(() => Promise.reject(cause)))
    await expect(operator.processVector(vectorOf(9))).rejects.toMatchObject({
      code: 'MILLRACE_USER_FUNCTION',
      cause,
    })
  })

  test('an error of a receiver is not taken for one of the function', async () => {
    const { operator, output } = await opened(mapOperator((x: number) => x))
    const error = new Error('disk full')
    output.answer = () => {
      throw error
    }
    expect(() => operator.processVector(vectorOf(1))).toThrow(error)
  })
})

describe('filter', () => {
  test('a vector whose records all pass is handed on untouched', async () => {
    const { operator, output } = await opened(filterOperator(() => true))
    const input = vectorOf(1, 2)
    operator.processVector(input)
    expect(output.vectors).toEqual([input])
    expect(output.vectors[0]).toBe(input)
  })

  test('records that do not pass are left out, with their timestamps', async () => {
    const { operator, output } = await opened(filterOperator((x: number) => x % 2 === 1))
    expect(operator.processVector(vectorOf(1, 2, 3, 4, 5))).toBeUndefined()
    expect(output.values).toEqual([1, 3, 5])
    expect(output.timestamps).toEqual([0, 2, 4])
  })

  test('nothing is emitted when no record passes', async () => {
    const { operator, output } = await opened(filterOperator(() => false))
    operator.processVector(vectorOf(1, 2))
    expect(output.sent).toEqual([])
  })

  test.each([
    [0, [10, 30, 50]],
    [1, [10, 30, 50]],
    [2, [10, 30, 50]],
  ])('a promise from record %i on changes nothing about the result', async (from, expected) => {
    const { operator, output } = await opened(
      filterOperator((x: number) => {
        const passes = x % 20 === 10
        return x / 10 - 1 >= from ? Promise.resolve(passes) : passes
      }),
    )
    await operator.processVector(vectorOf(10, 20, 30, 40, 50))
    expect(output.values).toEqual(expected)
    expect(output.timestamps).toEqual([0, 2, 4])
  })

  test('an error after the first record that did not pass still names its record', async () => {
    const { operator } = await opened(
      filterOperator((x: number) => {
        if (x === 3) throw new Error('odd')
        return false
      }),
    )
    expect(() => operator.processVector(vectorOf(1, 2, 3))).toThrow(
      expect.objectContaining({ details: expect.objectContaining({ record: '3' }) }),
    )
  })
})

describe('flatMap', () => {
  test('results may be returned, collected, or both', async () => {
    const { operator, output } = await opened(
      flatMapOperator((x: number, out) => {
        if (x === 1) return [1, 1.5]
        out.collect(x)
        return x === 3 ? new Set([30, 31]) : undefined
      }),
    )
    expect(operator.processVector(vectorOf(1, 2, 3))).toBeUndefined()
    expect(output.values).toEqual([1, 1.5, 2, 3, 30, 31])
    expect(output.timestamps).toEqual([0, 0, 1, 2, 2, 2])
  })

  test('results are cut into vectors of at most the vector size', async () => {
    const { operator, output } = await opened(
      flatMapOperator((x: number) => Array.from({ length: 7 }, (_, i) => x * 10 + i)),
      { vectorSize: 3 },
    )
    operator.processVector(vectorOf(1, 2))
    expect(output.vectors.map((vector) => vector.values.length)).toEqual([3, 3, 1, 3, 3, 1])
    expect(output.values).toEqual([10, 11, 12, 13, 14, 15, 16, 20, 21, 22, 23, 24, 25, 26])
  })

  test('an endless iterable is pulled no further than the output takes it', async () => {
    let pulled = 0
    function* endless() {
      for (;;) yield pulled++
    }
    const { operator, output } = await opened(flatMapOperator(endless), { vectorSize: 10 })
    const gate = deferred()
    output.answer = () => gate.promise
    operator.processVector(vectorOf('x'))
    await settled()
    expect(pulled).toBe(10)
  })

  test('an iterable that is pulled while the output waits loses nothing', async () => {
    function* count() {
      for (let i = 0; i < 25; i++) yield i
    }
    const { operator, output } = await opened(flatMapOperator(count), { vectorSize: 10 })
    output.answer = () => settled()
    await operator.processVector(vectorOf('x', 'y'))
    const once = Array.from({ length: 25 }, (_, i) => i)
    expect(output.values).toEqual([...once, ...once])
  })

  test('a promise of an iterable is awaited', async () => {
    const { operator, output } = await opened(flatMapOperator(async (x: number) => [x, x]))
    await operator.processVector(vectorOf(1, 2))
    expect(output.values).toEqual([1, 1, 2, 2])
  })

  test('the clean-up of a generator runs when its records cannot be emitted, and the error stays the receiver’s', async () => {
    let cleaned = false
    function* endless() {
      try {
        for (;;) yield 1
      } finally {
        cleaned = true
      }
    }
    const { operator, output } = await opened(flatMapOperator(endless), { vectorSize: 2 })
    const error = new Error('gone')
    output.answer = () => Promise.reject(error)
    await expect(operator.processVector(vectorOf('x'))).rejects.toBe(error)
    expect(cleaned).toBe(true)
  })

  test('something that is no iterable is an error that says so', async () => {
    const { operator } = await opened(flatMapOperator((() => 5) as never))
    expect(() => operator.processVector(vectorOf(1))).toThrow(
      /flatMap must return an iterable or nothing, but returned a number/,
    )
  })

  test('a collector that is kept and used after the call is refused', async () => {
    let kept: { collect(value: number): void } | undefined
    const { operator } = await opened(
      flatMapOperator((_x: number, out) => {
        kept = out
      }),
    )
    operator.processVector(vectorOf(1))
    expect(() => kept!.collect(1)).toThrow(expect.objectContaining({ code: 'MILLRACE_STATE_ACCESS' }))
  })

  test('a collector works until the returned promise settles, and not after it', async () => {
    let kept: { collect(value: string): void } | undefined
    const { operator, output } = await opened(
      flatMapOperator(async (_x: number, out) => {
        kept = out
        await settled()
        out.collect('late but in time')
      }),
    )
    await operator.processVector(vectorOf(1))
    expect(output.values).toEqual(['late but in time'])
    expect(() => kept!.collect('x')).toThrow(expect.objectContaining({ code: 'MILLRACE_STATE_ACCESS' }))
  })
})
