import { describe, expect, test } from '@jest/globals'
import {
  type DataStream,
  KeyedBroadcastProcessFunction,
  TumblingEventTimeWindows,
  TumblingProcessingTimeWindows,
} from 'millrace'
import type { Collector, FunctionInitializationContext, RuntimeContext } from '../../../src/core/functions.ts'
import { CoProcessFunction, KeyedProcessFunction, ProcessFunction } from '../../../src/core/functions.ts'
import { OutputTag } from '../../../src/core/output-tag.ts'
import {
  type ListState,
  ListStateDescriptor,
  MapStateDescriptor,
  type ValueState,
  ValueStateDescriptor,
} from '../../../src/core/state.ts'
import { OperatorHarness } from '../../../src/testing/operator-harness.ts'

interface Order {
  readonly user: string
  readonly amount: number
}
interface Total {
  user: string
  sum: number
}
const userOf = (order: Order) => order.user

class Sum extends KeyedProcessFunction<string, Order, Total> {
  private total!: ValueState<Total>
  override open(context: RuntimeContext) {
    this.total = context.getState(new ValueStateDescriptor<Total>('total'))
  }
  override processElement(order: Order, context: this['Context'], out: Collector<Total>) {
    const total = this.total.value() ?? { user: context.getCurrentKey(), sum: 0 }
    total.sum += order.amount
    this.total.update(total)
    out.collect({ ...total })
  }
}

/** A keyed function around one state, for mistakes. */
function withState(use: (state: any, order: Order) => void) {
  class Mistaken extends KeyedProcessFunction<string, Order, never> {
    private state!: ValueState<any>
    override open(context: RuntimeContext) {
      this.state = context.getState(new ValueStateDescriptor<any>('total'))
    }
    override processElement(order: Order) {
      use(this.state, order)
    }
  }
  return OperatorHarness.keyedProcess(new Mistaken(), userOf)
}

describe('the harness', () => {
  test('shows results with their timestamps, and takes them once', async () => {
    const harness = await OperatorHarness.map((x: number) => x * 2)
    await harness.processElement(1, 10)
    await harness.processElement(2)
    expect(harness.records()).toEqual([
      { value: 2, timestamp: 10 },
      { value: 4, timestamp: null },
    ])
    expect(harness.takeRecords()).toHaveLength(2)
    expect(harness.values()).toEqual([])
  })

  test('keeps side outputs apart', async () => {
    const odd = new OutputTag<number>('odd')
    class Split extends ProcessFunction<number, number> {
      override processElement(value: number, context: this['Context'], out: Collector<number>) {
        if (value % 2 === 1) context.output(odd, value)
        else out.collect(value)
      }
    }
    const harness = await OperatorHarness.process(new Split())
    await harness.processElements([1, 2, 3], [10, 20, 30])
    expect(harness.values()).toEqual([2])
    expect(harness.sideRecords(odd)).toEqual([
      { value: 1, timestamp: 10 },
      { value: 3, timestamp: 30 },
    ])
  })

  test('a harness goes on from the snapshot of another, and the first one from where it was', async () => {
    const first = await OperatorHarness.keyedProcess(new Sum(), userOf)
    await first.processElement({ user: 'ann', amount: 3 })
    const snapshot = await first.snapshot()
    await first.processElement({ user: 'ann', amount: 10 })
    const second = await OperatorHarness.keyedProcess(new Sum(), userOf, { restore: snapshot })
    await second.processElement({ user: 'ann', amount: 4 })
    expect(first.values().at(-1)).toEqual({ user: 'ann', sum: 13 })
    expect(second.values()).toEqual([{ user: 'ann', sum: 7 }])
    expect(second.keysOf('total')).toEqual(['ann'])
  })

  test('operator state of a function is part of the snapshot', async () => {
    class Buffer extends ProcessFunction<number, string> {
      private seen!: ListState<number>
      private restored = false
      override initializeState(context: FunctionInitializationContext) {
        this.restored = context.isRestored()
        this.seen = context.getOperatorStateStore().getListState(new ListStateDescriptor<number>('seen'))
      }
      override processElement(value: number, _context: this['Context'], out: Collector<string>) {
        this.seen.add(value)
        out.collect(`${this.restored} ${this.seen.get().join()}`)
      }
    }
    const first = await OperatorHarness.process(new Buffer())
    await first.processElements([1, 2])
    const second = await OperatorHarness.process(new Buffer(), { restore: await first.snapshot() })
    await second.processElement(3)
    expect([...first.values(), ...second.values()]).toEqual(['false 1', 'false 1,2', 'true 1,2,3'])
  })

  test('the clock cannot go back', async () => {
    const harness = await OperatorHarness.map((x: number) => x, { processingTime: 1_000 })
    await expect(harness.setProcessingTime(999)).rejects.toThrow(RangeError)
  })

  test('two calls at once are refused', async () => {
    const harness = await OperatorHarness.map(async (x: number) => x)
    const first = harness.processElement(1)
    await expect(harness.processElement(2)).rejects.toMatchObject({ code: 'MILLRACE_STATE_ACCESS' })
    await first
    expect(harness.values()).toEqual([1])
  })
})

describe('operators as streams declare them', () => {
  const window = (orders: DataStream<Order>) =>
    orders.keyBy(userOf).window(TumblingEventTimeWindows.of(10_000)).sum('amount')

  test('a window of event time is fed by hand, with late records apart', async () => {
    const late = new OutputTag<Order>('late')
    const harness = await OperatorHarness.stream((orders: DataStream<Order>) =>
      orders.keyBy(userOf).window(TumblingEventTimeWindows.of(10_000)).sideOutputLateData(late).sum('amount'),
    )
    await harness.processElement({ user: 'ann', amount: 3 }, 1_000)
    await harness.processElement({ user: 'ann', amount: 4 }, 9_999)
    expect(harness.timerCount()).toBe(1)
    await harness.processWatermark(9_998)
    expect(harness.values()).toEqual([])
    await harness.processWatermark(9_999)
    expect(harness.records()).toEqual([{ value: { user: 'ann', amount: 7 }, timestamp: 9_999 }])
    await harness.processElement({ user: 'ann', amount: 5 }, 2_000)
    expect(harness.sideRecords(late)).toEqual([{ value: { user: 'ann', amount: 5 }, timestamp: 2_000 }])
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
  })

  test('a window of processing time fires when the clock is moved', async () => {
    const harness = await OperatorHarness.stream(
      (orders: DataStream<Order>) =>
        orders.keyBy(userOf).window(TumblingProcessingTimeWindows.of(60_000)).sum('amount'),
      { processingTime: 30_000 },
    )
    await harness.processElement({ user: 'ann', amount: 3 })
    await harness.advance(29_999)
    expect(harness.values()).toEqual([])
    await harness.advance(1)
    expect(harness.values()).toEqual([{ user: 'ann', amount: 3 }])
  })

  test('open windows go on at another parallelism, each subtask with the keys that are its own', async () => {
    const users = Array.from({ length: 20 }, (_, i) => `user ${i}`)
    const old = await OperatorHarness.stream(window)
    for (const user of users) await old.processElement({ user, amount: 1 }, 1_000)
    const snapshot = await old.snapshot()
    const results: Order[] = []
    for (const subtaskIndex of [0, 1, 2]) {
      const harness = await OperatorHarness.stream(window, {
        restore: snapshot,
        parallelism: 3,
        subtaskIndex,
      })
      const own = users.filter((user) => OperatorHarness.subtaskOf(user, 3) === subtaskIndex)
      expect(users.filter((user) => harness.owns(user))).toEqual(own)
      await harness.processElement({ user: own[0]!, amount: 10 }, 2_000)
      await harness.processWatermark(10_000)
      expect(harness.values()).toHaveLength(own.length)
      results.push(...harness.values())
    }
    expect(results.map(({ user }) => user).sort()).toEqual(users.toSorted())
    expect(results.filter(({ amount }) => amount === 11)).toHaveLength(3)
  })

  test('snapshots of several subtasks become the state of one', async () => {
    const parts = []
    for (const subtaskIndex of [0, 1]) {
      const part = await OperatorHarness.stream(window, { parallelism: 2, subtaskIndex })
      const user = ['ann', 'bob', 'cid', 'dora'].find((name) => part.owns(name))!
      await part.processElement({ user, amount: subtaskIndex + 1 }, 1_000)
      parts.push(await part.snapshot())
    }
    const whole = await OperatorHarness.stream(window, { restore: parts })
    await whole.processWatermark(10_000)
    expect(
      whole
        .values()
        .map(({ amount }) => amount)
        .sort(),
    ).toEqual([1, 2])
  })

  test('operator state is dealt out to the new subtasks', async () => {
    class Buffer extends ProcessFunction<number, number> {
      private seen!: ListState<number>
      override initializeState(context: FunctionInitializationContext) {
        this.seen = context.getOperatorStateStore().getListState(new ListStateDescriptor<number>('seen'))
      }
      override processElement(value: number, _context: this['Context'], out: Collector<number>) {
        this.seen.add(value)
        for (const seen of this.seen.get()) out.collect(seen)
      }
    }
    const old = await OperatorHarness.process(new Buffer())
    for (const value of [1, 2, 3, 4]) await old.processElement(value)
    const restore = await old.snapshot()
    const second = await OperatorHarness.process(new Buffer(), { restore, parallelism: 2, subtaskIndex: 1 })
    await second.processElement(5)
    expect(second.values()).toEqual([3, 4, 5])
  })

  test('a record of a key that belongs to another subtask is refused', async () => {
    const harness = await OperatorHarness.keyedProcess(new Sum(), userOf, { parallelism: 2, subtaskIndex: 0 })
    const stranger = ['ann', 'bob', 'cid', 'dora'].find((user) => !harness.owns(user))!
    await expect(harness.processElement({ user: stranger, amount: 1 })).rejects.toMatchObject({
      code: 'MILLRACE_STATE_ACCESS',
      message: expect.stringContaining(`"${stranger}" belongs to subtask 1 of 2`),
    })
  })

  test('two inputs are fed by hand: connected streams and broadcast state', async () => {
    class Merge extends CoProcessFunction<number, string, string> {
      override processElement1(value: number, _context: this['Context'], out: Collector<string>) {
        out.collect(`number ${value}`)
      }
      override processElement2(value: string, _context: this['Context'], out: Collector<string>) {
        out.collect(`text ${value}`)
      }
    }
    const connected = await OperatorHarness.streams(
      (numbers: DataStream<number>, texts: DataStream<string>) => numbers.connect(texts).process(new Merge()),
    )
    await connected.processElement(1)
    await connected.processElement2('a')
    expect(connected.values()).toEqual(['number 1', 'text a'])

    const rules = new MapStateDescriptor<string, number>('limits')
    class Limit extends KeyedBroadcastProcessFunction<string, Order, [string, number], string> {
      override processElement(order: Order, context: this['ReadOnlyContext'], out: Collector<string>) {
        const limit = context.getBroadcastState(rules).get(order.user) ?? Number.POSITIVE_INFINITY
        if (order.amount > limit) out.collect(`${order.user} is over ${limit}`)
      }
      override processBroadcastElement([user, limit]: [string, number], context: this['Context']) {
        context.getBroadcastState(rules).put(user, limit)
      }
    }
    const limited = await OperatorHarness.streams(
      (orders: DataStream<Order>, limits: DataStream<[string, number]>) =>
        orders.keyBy(userOf).connect(limits.broadcast(rules)).process(new Limit()),
    )
    await limited.processElement2(['ann', 10])
    await limited.processElement({ user: 'ann', amount: 11 })
    expect(limited.values()).toEqual(['ann is over 10'])
  })

  test('no operator, or more than one, is refused by name', async () => {
    const two = OperatorHarness.stream((numbers: DataStream<number>) =>
      numbers.map((n) => n).filter(() => true),
    )
    await expect(two).rejects.toMatchObject({
      code: 'MILLRACE_INVALID_GRAPH',
      message: expect.stringContaining('map, filter was declared'),
    })
    await expect(OperatorHarness.stream((numbers: DataStream<number>) => numbers)).rejects.toThrow(
      'none was declared',
    )
  })
})

describe('mistakes with state that the harness finds', () => {
  test('a value that is changed in place but not written back', async () => {
    const harness = await withState((state, order) => {
      const total = state.value()
      if (total === null) state.update({ list: [order.amount] })
      else total.list.push(order.amount)
    })
    await harness.processElement({ user: 'ann', amount: 1 })
    await expect(harness.processElement({ user: 'ann', amount: 2 })).rejects.toMatchObject({
      code: 'MILLRACE_STATE_ACCESS',
      message: expect.stringContaining("'total' was changed in place"),
    })
  })

  test('a value that is changed in a later call', async () => {
    let kept: any
    const harness = await withState((state, order) => {
      if (kept !== undefined) kept.sum++
      state.update({ sum: order.amount })
      kept = state.value()
    })
    await harness.processElement({ user: 'ann', amount: 1 })
    await expect(harness.processElement({ user: 'ann', amount: 2 })).rejects.toMatchObject({
      code: 'MILLRACE_USER_FUNCTION',
      cause: expect.objectContaining({ message: expect.stringContaining('read only') }),
    })
  })

  test('a value that is changed after it was written is not in the state', async () => {
    const seen: unknown[] = []
    const harness = await withState((state) => {
      seen.push(state.value())
      const fresh = { sum: 1 }
      state.update(fresh)
      fresh.sum = 99
    })
    await harness.processElement({ user: 'ann', amount: 1 })
    await harness.processElement({ user: 'ann', amount: 1 })
    expect(seen).toEqual([null, { sum: 1 }])
  })

  test('a handle that is used outside of a call', async () => {
    let handle: any
    const harness = await withState((state) => {
      handle = state
    })
    await harness.processElement({ user: 'ann', amount: 1 })
    expect(() => handle.value()).toThrow(expect.objectContaining({ code: 'MILLRACE_STATE_ACCESS' }))
  })

  test('reading, changing and writing back is no mistake, in lists and maps too', async () => {
    class Careful extends KeyedProcessFunction<string, Order, string> {
      private list!: ListState<number[]>
      private map!: any
      override open(context: RuntimeContext) {
        this.list = context.getListState(new ListStateDescriptor<number[]>('list'))
        this.map = context.getMapState(new MapStateDescriptor<string, { n: number }>('map'))
      }
      override processElement(order: Order, _context: this['Context'], out: Collector<string>) {
        const list = [...this.list.get(), [order.amount]]
        this.list.update(list)
        const entry = this.map.get('x') ?? { n: 0 }
        entry.n++
        this.map.put('x', entry)
        out.collect(`${list.length} ${this.map.get('x').n} ${[...this.map.keys()]}`)
      }
    }
    const harness = await OperatorHarness.keyedProcess(new Careful(), userOf)
    await harness.processElement({ user: 'ann', amount: 1 })
    await harness.processElement({ user: 'ann', amount: 2 })
    expect(harness.values()).toEqual(['1 1 x', '2 2 x'])
  })
})
