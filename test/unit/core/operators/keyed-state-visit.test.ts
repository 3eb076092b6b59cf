import { describe, expect, test } from '@jest/globals'
import type { Collector, RuntimeContext } from '../../../../src/core/functions.ts'
import { KeyedBroadcastProcessFunction } from '../../../../src/core/functions.ts'
import { keyedBroadcastProcessOperator } from '../../../../src/core/operators/broadcast.ts'
import {
  AsyncMapStateDescriptor,
  ListStateDescriptor,
  MapStateDescriptor,
  type ValueState,
  ValueStateDescriptor,
} from '../../../../src/core/state.ts'
import { CachedKeyedStateBackend } from '../../../../src/state/cached-backend.ts'
import { openEmpty } from '../../../../src/testing/backend-images.ts'
import { OperatorHarness } from '../../../../src/testing/operator-harness.ts'
import { recordingLogger } from '../../../../src/testing/recorded-log.ts'
import { SeededRandom } from '../../../../src/testing/seeded-random.ts'
import { SimulatedColdDisk, SimulatedColdStore } from '../../../../src/testing/simulated-cold-store.ts'

interface Sale {
  readonly shop: string
  readonly amount: number
}
const rates = new MapStateDescriptor<string, number>('rates')
const total = new ValueStateDescriptor<number>('total')
const sales = new ListStateDescriptor<number>('sales')

/** Multiplies the total of each shop by the broadcast rate; an amount of 0 takes the shop away. */
class Reprice extends KeyedBroadcastProcessFunction<string, Sale, number, string> {
  private readonly how: 'sync' | 'awaited' | 'not awaited'
  private kept!: ValueState<number>
  constructor(how: 'sync' | 'awaited' | 'not awaited') {
    super()
    this.how = how
  }
  override open(context: RuntimeContext) {
    this.kept = context.getState(total)
  }
  override processElement({ shop, amount }: Sale, context: this['ReadOnlyContext'], out: Collector<string>) {
    if (amount === 0) this.kept.clear()
    else this.kept.update((this.kept.value() ?? 0) + amount)
    context.timerService().registerEventTimeTimer(10)
    out.collect(`${shop} ${this.kept.value()}`)
  }
  override processBroadcastElement(rate: number, context: this['Context'], out: Collector<string>) {
    context.getBroadcastState(rates).put('rate', rate)
    const reprice = (shop: string, state: ValueState<number>) => {
      state.update(state.value()! * rate)
      out.collect(`${shop} now ${state.value()}`)
    }
    const applied = context.applyToKeyedState(
      total,
      this.how === 'sync' ? reprice : async (shop, state) => reprice(shop, state),
    )
    if (this.how === 'not awaited') return
    const done = () => {
      expect(() => this.kept.value()).toThrow(expect.objectContaining({ code: 'MILLRACE_STATE_ACCESS' }))
      out.collect(`rate ${rate}`)
    }
    return applied === undefined ? done() : applied.then(done)
  }
  override onTimer(time: number, context: this['OnTimerContext'], out: Collector<string>) {
    out.collect(`${context.getCurrentKey()} at ${time}: ${context.getBroadcastState(rates).get('rate')}`)
  }
}

/** A cache of a few records over a store. */
const cached = () =>
  openEmpty(
    new CachedKeyedStateBackend({
      range: { start: 0, end: 127 },
      maxParallelism: 128,
      operatorName: 'op',
      clock: { now: () => 0 },
      logger: recordingLogger([], { now: () => 0 }),
      durableAs: 'simulated',
      localCopy: false,
      incremental: true,
      cacheMaxBytes: 1_200,
      openStore: async (origins) =>
        new SimulatedColdStore({ disk: new SimulatedColdDisk(), random: new SeededRandom(1) }, origins),
    }),
  )

async function harnessOf(
  fn: KeyedBroadcastProcessFunction<string, Sale, number, string>,
  { cold = false, vectorSize = 500 },
) {
  const backend = cold ? await cached() : undefined
  return OperatorHarness.of<Sale, string, number>(
    keyedBroadcastProcessOperator(fn, (sale: any) => sale.shop, [rates]),
    { keyed: true, vectorSize, ...(backend === undefined ? {} : { keyedState: () => backend }) },
  )
}

const shops = Array.from({ length: 50 }, (_, i) => `shop-${i}`)

describe.each([
  ['on the heap', { cold: false }],
  ['behind a cache', { cold: true }],
  ['behind a cache, by pages', { cold: true, vectorSize: 7 }],
])('applyToKeyedState %s', (_where, options) => {
  test.each(['sync', 'awaited', 'not awaited'] as const)(
    'calls the function with each key that holds the state, before the next record (%s)',
    async (how) => {
      const harness = await harnessOf(new Reprice(how), options)
      for (const shop of shops) await harness.processElement({ shop, amount: 3 })
      await harness.processElement({ shop: 'shop-7', amount: 0 })
      harness.takeRecords()
      await harness.processElement2(2)
      const values = harness.takeRecords().map(({ value }) => value)
      if (how !== 'not awaited') expect(values.pop()).toBe('rate 2')
      expect(values.sort()).toEqual(
        shops
          .filter((shop) => shop !== 'shop-7')
          .map((shop) => `${shop} now 6`)
          .sort(),
      )
      for (const shop of ['shop-7', 'shop-8']) await harness.processElement({ shop, amount: 1 })
      expect(harness.takeRecords().map(({ value }) => value)).toEqual(['shop-7 1', 'shop-8 7'])
      await harness.processWatermark(10)
      expect(
        harness
          .takeRecords()
          .map(({ value }) => value)
          .sort(),
      ).toEqual(shops.map((shop) => `${shop} at 10: 2`).sort())
    },
  )

  test('a function that throws fails the record', async () => {
    class Failing extends Reprice {
      override processBroadcastElement(_rate: number, context: this['Context']) {
        void context.applyToKeyedState(total, async (shop) => {
          if (shop === 'shop-5') throw new Error('no such shop')
        })
      }
    }
    const harness = await harnessOf(new Failing('sync'), options)
    for (const shop of shops) await harness.processElement({ shop, amount: 3 })
    await expect(harness.processElement2(2)).rejects.toMatchObject({
      code: 'MILLRACE_USER_FUNCTION',
      message: expect.stringMatching(/processBroadcastElement of operator.*no such shop/),
    })
  })
})

describe('what applyToKeyedState refuses', () => {
  const refusal = async (call: (context: any) => unknown) => {
    class Calling extends Reprice {
      override async processBroadcastElement(_rate: number, context: this['Context']) {
        await call(context)
      }
    }
    const harness = await harnessOf(new Calling('sync'), {})
    await harness.processElement({ shop: 'a', amount: 3 })
    return harness.processElement2(2)
  }

  test('a call within a call', async () => {
    await expect(
      refusal((context) =>
        context.applyToKeyedState(total, () => context.applyToKeyedState(total, () => {})),
      ),
    ).rejects.toThrow(/another call was under way/)
    await expect(
      refusal((context) =>
        context.applyToKeyedState(total, async () => context.applyToKeyedState(total, () => {})),
      ),
    ).rejects.toThrow(/another call was under way/)
  })

  test('an async map', async () => {
    await expect(
      refusal((context) => context.applyToKeyedState(new AsyncMapStateDescriptor('map'), () => {})),
    ).rejects.toThrow(/async map/)
  })

  test('nothing: a state that no key holds is visited for no key', async () => {
    await refusal((context) =>
      context.applyToKeyedState(sales, () => {
        throw new Error('called')
      }),
    )
  })
})
