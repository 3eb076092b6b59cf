import { describe, expect, test } from '@jest/globals'
import { asyncMap } from '../../../../src/api/async-map.ts'
import { AbstractRichFunction, type RuntimeContext } from '../../../../src/core/functions.ts'
import { backoffOf } from '../../../../src/core/operators/async-call.ts'
import type { AsyncContext, AsyncMapOptions } from '../../../../src/core/operators/async-settings.ts'
import { type HarnessOptions, OperatorHarness } from '../../../../src/testing/operator-harness.ts'

/** Requests that a test answers by hand. */
class Service {
  readonly asked: number[] = []
  readonly contexts: AsyncContext[] = []
  readonly #open = new Map<number, { resolve(value: string): void; reject(error: unknown): void }[]>()

  readonly ask = (value: number, context: AsyncContext): Promise<string> => {
    this.asked.push(value)
    this.contexts.push(context)
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const waiting = this.#open.get(value) ?? []
    this.#open.set(value, [...waiting, { resolve, reject }])
    return promise
  }
  answer(...values: number[]): void {
    for (const value of values) this.#next(value).resolve(`<${value}>`)
  }
  refuse(value: number, error: unknown = new Error(`no ${value}`)): void {
    this.#next(value).reject(error)
  }
  #next(value: number) {
    const next = this.#open.get(value)?.shift()
    if (next === undefined) throw new Error(`nobody asked for ${value}`)
    return next
  }
}

const open = (
  f: any,
  options: AsyncMapOptions<any, any, any> = {},
  harness: HarnessOptions = {},
): Promise<OperatorHarness<number, string>> =>
  OperatorHarness.of(asyncMap(f, options).factory, { name: 'lookup', ...harness })

async function settled(harness: OperatorHarness<any, any>, service: Service, ...values: number[]) {
  service.answer(...values)
  await harness.settle()
}

describe('asyncMap', () => {
  test('asks for many records at a time and gives results in the order of records', async () => {
    const service = new Service()
    const harness = await open(service.ask)
    await harness.processElements([1, 2, 3], [10, 20, 30])
    expect(service.asked).toEqual([1, 2, 3])
    await settled(harness, service, 3)
    expect(harness.values()).toEqual([])
    await settled(harness, service, 1)
    expect(harness.values()).toEqual(['<1>'])
    await settled(harness, service, 2)
    expect(harness.records()).toEqual([
      { value: '<1>', timestamp: 10 },
      { value: '<2>', timestamp: 20 },
      { value: '<3>', timestamp: 30 },
    ])
  })

  test('unordered, gives results as they come', async () => {
    const service = new Service()
    const harness = await open(service.ask, { ordered: false })
    await harness.processElements([1, 2, 3])
    await settled(harness, service, 3)
    await settled(harness, service, 1, 2)
    expect(harness.values()).toEqual(['<3>', '<1>', '<2>'])
  })

  test.each([true, false])('a watermark waits for the results before it (ordered: %s)', async (ordered) => {
    const service = new Service()
    const harness = await open(service.ask, { ordered })
    await harness.processElement(1)
    await harness.processWatermark(100)
    await harness.processElement(2)
    await settled(harness, service, 2)
    expect([harness.values(), harness.watermarks()]).toEqual([[], []])
    await settled(harness, service, 1)
    expect([harness.values(), harness.watermarks()]).toEqual([['<1>', '<2>'], [100]])
  })

  test('idleness waits for the results before it: they would be late behind what others do meanwhile', async () => {
    const service = new Service()
    const harness = await open(service.ask)
    await harness.processElement(1)
    await harness.processStatus(true)
    expect(harness.statuses()).toEqual([])
    await settled(harness, service, 1)
    expect([harness.values(), harness.statuses()]).toEqual([['<1>'], [true]])
  })

  test('asks for no more than its capacity; the rest of a vector begins as results go out', async () => {
    const service = new Service()
    const harness = await open(service.ask, { capacity: 2 })
    await harness.processElements([1, 2, 3, 4])
    expect(service.asked).toEqual([1, 2])
    await settled(harness, service, 2)
    // Its result waits for that of 1, and so takes room.
    expect(service.asked).toEqual([1, 2])
    await settled(harness, service, 1)
    expect(service.asked).toEqual([1, 2, 3, 4])
    await settled(harness, service, 3, 4)
    expect(harness.values()).toEqual(['<1>', '<2>', '<3>', '<4>'])
  })

  test('a sender that asks for no room waits until the vector before is under way', async () => {
    const service = new Service()
    const harness = await open(service.ask, { capacity: 1 })
    await harness.processElements([1, 2])
    let taken = false
    const sending = harness.processElement(3).then(() => {
      taken = true
    })
    await settled(harness, service, 1)
    expect([service.asked, taken]).toEqual([[1, 2], true])
    await sending
    await settled(harness, service, 2)
    await settled(harness, service, 3)
    expect(harness.values()).toEqual(['<1>', '<2>', '<3>'])
  })

  test('a function that returns no promise is done at once', async () => {
    const harness = await open((value: number) => value * 2, { capacity: 1 })
    await harness.processElements([1, 2, 3])
    expect(harness.values()).toEqual([2, 4, 6])
  })

  test('the end of input waits for all results', async () => {
    const service = new Service()
    const harness = await open(service.ask, { capacity: 1 })
    await harness.processElements([1, 2])
    await harness.processWatermark(7)
    let ended = false
    const ending = harness.endInput().then(() => {
      ended = true
    })
    await settled(harness, service, 1)
    expect([harness.values(), ended]).toEqual([['<1>'], false])
    await settled(harness, service, 2)
    await ending
    expect([harness.values(), harness.watermarks()]).toEqual([['<1>', '<2>'], [7]])
  })

  test('an object has a life cycle, and no keyed state', async () => {
    const calls: string[] = []
    class Lookup extends AbstractRichFunction {
      override open(context: RuntimeContext) {
        calls.push(`open ${context.getTaskName()}`)
      }
      asyncMap(value: number) {
        return Promise.resolve(value + 1)
      }
      override close() {
        calls.push('close')
      }
    }
    const harness = await open(new Lookup())
    await harness.processElement(1)
    await harness.settle()
    await harness.close()
    expect([harness.values(), calls]).toEqual([[2], ['open lookup', 'close']])
  })

  test('knows the time of the record', async () => {
    const times: (number | null)[] = []
    const harness = await open((value: number, context: AsyncContext) => {
      times.push(context.timestamp(), context.attempt)
      return value
    })
    await harness.processElements([1, 2], [5, Number.NaN])
    expect(times).toEqual([5, 1, null, 1])
  })
})

describe('an asyncMap that fails', () => {
  test('fails the task with the operator, the record, and what the function said', async () => {
    const service = new Service()
    const harness = await open(service.ask)
    await harness.processElement(41)
    service.refuse(41)
    await expect(harness.settle()).rejects.toMatchObject({
      code: 'MILLRACE_USER_FUNCTION',
      message: expect.stringContaining("asyncMap of operator 'lookup'"),
      details: expect.objectContaining({ record: '41' }),
      cause: expect.objectContaining({ message: 'no 41' }),
    })
  })

  test('throws for a function that throws before it returns a promise', async () => {
    const harness = await open(() => {
      throw new Error('at once')
    })
    await expect(harness.processElement(1)).rejects.toThrow(/asyncMap of operator 'lookup'.*at once/)
  })

  test('asks again, with longer and longer back-off', async () => {
    const service = new Service()
    const harness = await open(service.ask, {
      retry: { maxAttempts: 3, backoffMs: 100, multiplier: 3 },
    })
    await harness.processElement(1)
    service.refuse(1)
    await harness.advance(99)
    expect(service.asked).toEqual([1])
    await harness.advance(1)
    expect(service.asked).toEqual([1, 1])
    service.refuse(1)
    await harness.advance(299)
    expect(service.asked).toHaveLength(2)
    await harness.advance(1)
    expect(service.contexts.map(({ attempt }) => attempt)).toEqual([1, 2, 3])
    await settled(harness, service, 1)
    expect([harness.values(), harness.counter('async_retries')]).toEqual([['<1>'], 2])
  })

  test('fails with the last error when no attempt is left', async () => {
    const service = new Service()
    const harness = await open(service.ask, { retry: { maxAttempts: 2 } })
    await harness.processElement(1)
    service.refuse(1, new Error('first'))
    await harness.advance(1)
    service.refuse(1, new Error('second'))
    await expect(harness.settle()).rejects.toThrow(/second/)
  })

  test('does not ask again for an error that is not worth it', async () => {
    const service = new Service()
    const harness = await open(service.ask, {
      retry: { maxAttempts: 5, retryIf: (error) => !(error as Error).message.includes('404') },
    })
    await harness.processElement(1)
    service.refuse(1, new Error('404'))
    await expect(harness.settle()).rejects.toThrow(/404/)
    expect(service.asked).toEqual([1])
  })

  test('asks again for a result that is not worth having, and takes the last one', async () => {
    let asked = 0
    const harness = await open(() => Promise.resolve(++asked), {
      retry: { maxAttempts: 3, backoffMs: 10, retryResultIf: () => true },
    })
    await harness.processElement(1)
    await harness.advance(20)
    expect([harness.values(), asked]).toEqual([[3], 3])
  })

  test('a retry condition that throws fails the task', async () => {
    const service = new Service()
    const harness = await open(service.ask, {
      retry: {
        maxAttempts: 2,
        retryResultIf: () => {
          throw new Error('cannot say')
        },
      },
    })
    await harness.processElement(1)
    service.answer(1)
    await expect(harness.settle()).rejects.toThrow(/retry condition of asyncMap.*cannot say/)
  })

  test('back-off grows up to its limit', () => {
    const retry = { maxAttempts: 9, backoffMs: 100, multiplier: 2, maxBackoffMs: 500 }
    expect([1, 2, 3, 4, 5].map((attempt) => backoffOf(retry, attempt))).toEqual([100, 200, 400, 500, 500])
    expect(backoffOf({ maxAttempts: 2 }, 1)).toBe(0)
  })
})

describe('an asyncMap with a time-out', () => {
  test('fails the task when a record takes longer, all attempts together', async () => {
    const service = new Service()
    const harness = await open(service.ask, {
      timeoutMs: 1_000,
      retry: { maxAttempts: 10, backoffMs: 400 },
    })
    await harness.processElement(7)
    service.refuse(7)
    await harness.advance(400)
    const failed = harness.advance(600)
    await expect(failed).rejects.toMatchObject({
      code: 'MILLRACE_ASYNC_TIMEOUT',
      message: expect.stringMatching(/no result within 1000 ms, in 2 attempts; the record is 7/),
    })
    expect(service.contexts.map(({ signal }) => signal.aborted)).toEqual([false, false])
  })

  test('tells the function that nobody waits any more', async () => {
    let reason: unknown
    const harness = await open(
      (_value: number, { signal }: AsyncContext) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            reason = signal.reason
            resolve('too late')
          })
        }),
      { timeoutMs: 50, onTimeout: () => 'instead' },
    )
    await harness.processElement(1)
    await harness.advance(50)
    expect(String(reason)).toMatch(/no result within 50 ms/)
    expect([harness.values(), harness.counter('async_timeouts')]).toEqual([['instead'], 1])
  })

  test('takes the result of the handler, in its place; a late answer counts for nothing', async () => {
    const service = new Service()
    const harness = await open(service.ask, {
      timeoutMs: 100,
      onTimeout: async (value: number) => `none for ${value}`,
    })
    await harness.processElements([1, 2])
    await settled(harness, service, 2)
    await harness.advance(100)
    await settled(harness, service, 1)
    expect(harness.values()).toEqual(['none for 1', '<2>'])
  })

  test('an answer in time stops the clock', async () => {
    const service = new Service()
    const harness = await open(service.ask, { timeoutMs: 100 })
    await harness.processElement(1)
    await settled(harness, service, 1)
    await harness.advance(1_000)
    expect(harness.values()).toEqual(['<1>'])
  })

  test('a handler that throws fails the task', async () => {
    const harness = await open(() => new Promise(() => undefined), {
      timeoutMs: 1,
      onTimeout: () => {
        throw new Error('no way')
      },
    })
    await harness.processElement(1)
    await expect(harness.advance(1)).rejects.toThrow(/onTimeout of asyncMap.*no way/)
  })
})

describe('a checkpoint of an asyncMap', () => {
  test('does not wait for requests: their records are asked for again after a restore, in their order', async () => {
    const before = new Service()
    const first = await open(before.ask, { capacity: 3 })
    await first.processElements([1, 2, 3, 4, 5], [10, 20, 30, 40, Number.NaN])
    await settled(first, before, 1, 3)
    // 1 is out. 2 is asked for, 3 waits for it, 4 is asked for; 5 has not begun.
    const snapshot = await first.snapshot()
    await settled(first, before, 2)
    expect(first.values()).toEqual(['<1>', '<2>', '<3>'])

    const after = new Service()
    const second = await open(after.ask, { capacity: 3 }, { restore: snapshot })
    expect(after.asked).toEqual([2, 3, 4])
    await settled(second, after, 2, 3, 4)
    await second.processElement(6, 60)
    await settled(second, after, 5, 6)
    expect(second.records()).toEqual([
      { value: '<2>', timestamp: 20 },
      { value: '<3>', timestamp: 30 },
      { value: '<4>', timestamp: 40 },
      { value: '<5>', timestamp: null },
      { value: '<6>', timestamp: 60 },
    ])
  })

  test('keeps the record as it came, also if the function changes it', async () => {
    const answers: { resolve(): void }[] = []
    const spoil = (row: { n: number }) => {
      row.n = -1
      const { promise, resolve } = Promise.withResolvers<void>()
      answers.push({ resolve })
      return promise
    }
    const harness = await OperatorHarness.of<{ n: number }, unknown>(asyncMap(spoil, {}).factory)
    await harness.processElement({ n: 1 })
    const { operatorState } = await harness.snapshot()
    expect(operatorState['records-in-flight']?.items).toEqual([{ value: { n: 1 }, timestamp: Number.NaN }])
  })

  test('is split over the subtasks of another parallelism: each record is asked for once', async () => {
    const snapshots = []
    for (const subtask of [0, 1, 2, 3]) {
      const service = new Service()
      const harness = await open(service.ask, {}, { parallelism: 4, subtaskIndex: subtask })
      await harness.processElements([10 * subtask + 1, 10 * subtask + 2, 10 * subtask + 3])
      snapshots.push(await harness.snapshot())
    }
    const asked: number[] = []
    for (const subtask of [0, 1]) {
      const service = new Service()
      await open(service.ask, {}, { parallelism: 2, subtaskIndex: subtask, restore: snapshots })
      expect(service.asked).toHaveLength(6)
      asked.push(...service.asked)
    }
    expect(asked.sort((a, b) => a - b)).toEqual([1, 2, 3, 11, 12, 13, 21, 22, 23, 31, 32, 33])
  })

  test('more records than the capacity are restored, and begin as results go out', async () => {
    const service = new Service()
    const first = await open(service.ask, { capacity: 5 })
    await first.processElements([1, 2, 3, 4, 5])
    const after = new Service()
    const second = await open(after.ask, { capacity: 2 }, { restore: await first.snapshot() })
    expect(after.asked).toEqual([1, 2])
    await settled(second, after, 1, 2)
    await settled(second, after, 3, 4)
    await settled(second, after, 5)
    expect(second.values()).toEqual(['<1>', '<2>', '<3>', '<4>', '<5>'])
  })

  test('refuses an instance of a class unless there is a serde', async () => {
    class Money {
      readonly cents: number
      constructor(cents: number) {
        this.cents = cents
      }
    }
    const never = () => new Promise(() => undefined)
    const without = await OperatorHarness.of<Money, unknown>(asyncMap(never, {}).factory)
    await without.processElement(new Money(5))
    await expect(without.snapshot()).rejects.toMatchObject({ code: 'MILLRACE_INVALID_STATE_VALUE' })

    const serde = {
      name: 'money',
      serialize: (money: Money) => Uint8Array.of(money.cents),
      deserialize: (bytes: Uint8Array) => new Money(bytes[0]!),
    }
    const withSerde = await OperatorHarness.of<Money, unknown>(asyncMap(never, { serde }).factory)
    await withSerde.processElement(new Money(5))
    const asked: Money[] = []
    await OperatorHarness.of(asyncMap((money: Money) => asked.push(money), { serde }).factory, {
      restore: await withSerde.snapshot(),
    })
    expect(asked).toEqual([new Money(5)])
  })
})

test('closing aborts what is in flight, and no answer is heard any more', async () => {
  const service = new Service()
  const harness = await open(service.ask, { timeoutMs: 10 })
  await harness.processElement(1)
  const { signal } = service.contexts[0]!
  await harness.close()
  expect(signal.aborted).toBe(true)
  service.refuse(1)
  await harness.advance(100)
  expect(harness.values()).toEqual([])
})

describe('settings of asyncMap that make no sense are refused', () => {
  test.each([
    [{ capacity: 0 }, /capacity/],
    [{ timeoutMs: 0 }, /timeoutMs/],
    [{ retry: { maxAttempts: 0 } }, /maxAttempts/],
    [{ retry: { maxAttempts: 2, backoffMs: -1 } }, /backoffMs/],
    [{ retry: { maxAttempts: 2, multiplier: 0.5 } }, /multiplier/],
  ])('%o', (options, message) => {
    expect(() => asyncMap(() => 1, options)).toThrow(message)
  })

  test('what is no function', () => {
    expect(() => asyncMap(7 as never, {})).toThrow(/asyncMap/)
    expect(() => asyncMap({} as never, {})).toThrow(/has no method asyncMap/)
  })
})
