import { describe, expect, test } from '@jest/globals'
import type { Collector, FunctionInitializationContext, RuntimeContext } from '../../../src/core/functions.ts'
import { KeyedProcessFunction, ProcessFunction } from '../../../src/core/functions.ts'
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
