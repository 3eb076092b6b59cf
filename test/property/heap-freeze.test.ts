import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { type FrozenKeyedState, type KeyGroupImage, ValueStateDescriptor } from '../../src/core/state.ts'
import { HeapKeyedStateBackend } from '../../src/state/heap-backend.ts'

interface Total {
  count: number
  items: number[]
}

type Operation =
  | { readonly do: 'change' | 'read' | 'clear' | 'timer' | 'fire'; readonly key: number }
  | { readonly do: 'freeze' }
  | { readonly do: 'slice'; readonly flight: number }
  | { readonly do: 'release'; readonly flight: number }

const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant('change' as const), key: fc.nat(6) }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constantFrom('read' as const, 'clear' as const), key: fc.nat(6) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constantFrom('timer' as const, 'fire' as const), key: fc.nat(6) }),
  },
  { weight: 2, arbitrary: fc.constant({ do: 'freeze' as const }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('slice' as const), flight: fc.nat(2) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('release' as const), flight: fc.nat(2) }) },
)

type MakeBackend = new (
  options: ConstructorParameters<typeof HeapKeyedStateBackend>[0],
) => HeapKeyedStateBackend

const options = {
  range: { start: 0, end: 3 },
  maxParallelism: 4,
  operatorName: 'count',
  clock: { now: () => 0 },
  entriesPerSlice: 1,
}
const descriptor = () => new ValueStateDescriptor<Total>('total')

/** State and timers of an image, as text. */
function contentsOf(images: readonly KeyGroupImage[]): string {
  const backend = new HeapKeyedStateBackend(options)
  backend.restore(images)
  return contents(
    new Map(
      [...backend.keys('total')].map((key) => {
        backend.setCurrentKey(key)
        return [key as number, backend.getState(descriptor()).value()!]
      }),
    ),
    new Set(
      backend
        .timers()
        .dueEventTimers(Number.MAX_SAFE_INTEGER, 1_000)
        .map((timer) => timer.key as number),
    ),
  )
}

function contents(totals: ReadonlyMap<number, Total>, timers: ReadonlySet<number>): string {
  return JSON.stringify([[...totals].sort(([a], [b]) => a - b), [...timers].sort()])
}

/** One pass over the operations; the answer lists images that are not the state at their freeze. */
async function differences(Backend: MakeBackend, operations: readonly Operation[]): Promise<string[]> {
  const backend = new Backend(options)
  const state = backend.getState(descriptor())
  const totals = new Map<number, Total>()
  const timers = new Set<number>()
  const wrong: string[] = []
  const flights: {
    frozen: FrozenKeyedState
    expected: string
    images?: Promise<void>
    go?: (() => void) | undefined
  }[] = []

  const start = (flight: (typeof flights)[number]): void => {
    const pause = (): Promise<void> =>
      new Promise((resolve) => {
        flight.go = resolve
      })
    flight.images = flight.frozen.materialize(pause).then((images) => {
      flights.splice(flights.indexOf(flight), 1)
      const actual = contentsOf(images)
      if (actual !== flight.expected) wrong.push(`${actual} is not ${flight.expected}`)
    })
  }
  const slice = async (flight: (typeof flights)[number]): Promise<void> => {
    if (flight.images === undefined) start(flight)
    const go = flight.go
    flight.go = undefined
    go?.()
    await new Promise((turn) => setImmediate(turn))
  }

  for (const each of operations) {
    if (each.do === 'freeze') {
      if (flights.length < 3) flights.push({ frozen: backend.freeze(1), expected: contents(totals, timers) })
    } else if (each.do === 'slice') {
      const flight = flights[each.flight]
      if (flight !== undefined) await slice(flight)
    } else if (each.do === 'release') {
      const flight = flights[each.flight]
      if (flight === undefined || flight.images !== undefined) continue
      flight.frozen.release()
      flights.splice(each.flight, 1)
    } else {
      const { key } = each
      backend.setCurrentKey(key)
      if (each.do === 'change') {
        const total = state.value() ?? { count: 0, items: [] }
        total.count++
        total.items.push(total.count)
        state.update(total)
        totals.set(key, structuredClone(total))
      } else if (each.do === 'clear') {
        state.clear()
        totals.delete(key)
      } else if (each.do === 'timer') {
        backend.timers().registerEventTimeTimer('', key)
        timers.add(key)
      } else if (each.do === 'fire') {
        for (const timer of backend.timers().dueEventTimers(key, 100)) timers.delete(timer.key as number)
      } else expect(state.value()).toEqual(totals.get(key) ?? null)
    }
  }
  while (flights.length > 0) await slice(flights[0]!)
  return wrong
}

const operations = fc.array(operation, { minLength: 20, maxLength: 120 })

test('every image is the state at its freeze, whatever is changed between the slices of its writing', async () => {
  await fc.assert(
    fc.asyncProperty(operations, async (list) => {
      expect(await differences(HeapKeyedStateBackend, list)).toEqual([])
    }),
    { numRuns: 150 },
  )
})

test('the property notices a backend that writes records only when the sweep comes by', async () => {
  class SweepsOnly extends HeapKeyedStateBackend {
    protected override captureBeforeTouch(): void {}
  }
  const found = await fc.check(
    fc.asyncProperty(operations, async (list) => (await differences(SweepsOnly, list)).length === 0),
    { numRuns: 150, endOnFailure: true },
  )
  expect(found.failed).toBe(true)
})

test('a freeze looks at no value; the first touch after it does', () => {
  const backend = new HeapKeyedStateBackend(options)
  const state = backend.getState(new ValueStateDescriptor<number>('count'))
  let lookedAt = 0
  for (let key = 0; key < 1_000; key++) {
    backend.setCurrentKey(key)
    state.update(key)
  }
  const trap = {
    get count() {
      lookedAt++
      return 1
    },
  }
  backend.setCurrentKey('trap')
  backend.getState(new ValueStateDescriptor<unknown>('trap')).update(trap)
  lookedAt = 0
  backend.freeze(1)
  expect(lookedAt).toBe(0)
  backend.setCurrentKey('trap')
  backend.getState(new ValueStateDescriptor<unknown>('trap')).value()
  expect(lookedAt).toBe(1)
})
