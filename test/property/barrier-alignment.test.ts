import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { type BarrierAction, BarrierHandler } from '../../src/checkpoint/barrier-handler.ts'

/** What one channel carries, in order. */
type Item =
  | { readonly kind: 'record' }
  | { readonly kind: 'barrier'; readonly n: number }
  | { readonly kind: 'cancel'; readonly n: number }
  | { readonly kind: 'end' }

const LAST = 6

/** Up to LAST barriers in order, each preceded by records; some are missing or replaced by a cancel marker; perhaps the channel ends early. */
const channel: fc.Arbitrary<Item[]> = fc
  .record({
    steps: fc.array(
      fc.record({
        records: fc.integer({ min: 0, max: 3 }),
        fate: fc.oneof(
          { weight: 8, arbitrary: fc.constant('barrier' as const) },
          { weight: 1, arbitrary: fc.constant('cancel' as const) },
          { weight: 1, arbitrary: fc.constant('missing' as const) },
        ),
      }),
      { minLength: LAST, maxLength: LAST },
    ),
    endAfter: fc.oneof(
      { weight: 3, arbitrary: fc.constant(LAST) },
      { weight: 1, arbitrary: fc.integer({ min: 0, max: LAST }) },
    ),
  })
  .map(({ steps, endAfter }) => {
    const items: Item[] = []
    steps.slice(0, endAfter).forEach(({ records, fate }, i) => {
      for (let r = 0; r < records; r++) items.push({ kind: 'record' })
      if (fate !== 'missing') items.push({ kind: fate, n: i + 1 })
    })
    items.push({ kind: 'record' })
    if (endAfter < LAST) items.push({ kind: 'end' })
    return items
  })

const scenario = fc.record({
  channels: fc.array(channel, { minLength: 1, maxLength: 4 }),
  /** Which channel is read next; above that an abort by the coordinator. */
  choices: fc.array(fc.nat(1_000), { minLength: 200, maxLength: 200 }),
  aborts: fc.array(fc.record({ atStep: fc.nat(60), n: fc.integer({ min: 1, max: LAST }) }), { maxLength: 4 }),
})

/** A subtask as the runtime drives it, and what it did. */
class Subtask {
  readonly channels: readonly Item[][]
  readonly positions: number[]
  readonly blocked: boolean[]
  readonly triggered: { n: number; positions: number[]; ended: boolean[] }[] = []
  readonly aborted = new Set<number>()
  readonly #handler: BarrierHandler

  constructor(channels: readonly Item[][], mode: 'EXACTLY_ONCE' | 'AT_LEAST_ONCE') {
    this.channels = channels
    this.positions = channels.map(() => 0)
    this.blocked = channels.map(() => false)
    this.#handler = new BarrierHandler(channels.length, mode)
  }

  get collecting() {
    return this.#handler.collecting
  }

  readable(): number[] {
    return this.channels.flatMap((items, index) =>
      !this.blocked[index] && this.positions[index]! < items.length ? [index] : [],
    )
  }

  ended(index: number): boolean {
    const items = this.channels[index]!
    return items.at(-1)!.kind === 'end' && this.positions[index] === items.length
  }

  read(index: number): void {
    const item = this.channels[index]![this.positions[index]!++]!
    if (item.kind === 'barrier')
      this.#obey(this.#handler.handle({ type: 'barrier', channel: index, n: item.n, kind: 'checkpoint' }))
    if (item.kind === 'cancel')
      this.#obey(this.#handler.handle({ type: 'cancel', channel: index, n: item.n }))
    if (item.kind === 'end') this.#obey(this.#handler.handle({ type: 'channel-ended', channel: index }))
  }

  abort(n: number): void {
    this.#obey(this.#handler.handle({ type: 'abort', n }))
  }

  #obey(actions: readonly BarrierAction[]): void {
    for (const action of actions) {
      if (action.type === 'block') this.blocked[action.channel] = true
      if (action.type === 'resume-all') this.blocked.fill(false)
      if (action.type === 'abort') this.aborted.add(action.n)
      if (action.type === 'trigger') {
        expect(this.aborted.has(action.n)).toBe(false)
        expect(action.n).toBeGreaterThan(this.triggered.at(-1)?.n ?? 0)
        this.triggered.push({
          n: action.n,
          positions: [...this.positions],
          ended: this.channels.map((_, index) => this.ended(index)),
        })
      }
    }
  }
}

function run(
  {
    channels,
    choices,
    aborts,
  }: { channels: Item[][]; choices: number[]; aborts: { atStep: number; n: number }[] },
  mode: 'EXACTLY_ONCE' | 'AT_LEAST_ONCE',
): Subtask {
  const subtask = new Subtask(channels, mode)
  for (let step = 0; ; step++) {
    for (const { atStep, n } of aborts) if (atStep === step) subtask.abort(n)
    const readable = subtask.readable()
    if (readable.length > 0) {
      subtask.read(readable[choices[step % choices.length]! % readable.length]!)
      continue
    }
    // Nothing can be read: either all is read, or a checkpoint waits for a barrier that never comes, and its abort must be enough.
    const waiting = subtask.collecting
    if (waiting === undefined || subtask.blocked.every((b) => !b)) break
    subtask.abort(waiting.n)
    expect(subtask.blocked).not.toContain(true)
  }
  return subtask
}

describe('alignment', () => {
  test('exactly once: every record before barrier n is before snapshot n on all channels, and none after it', () => {
    fc.assert(
      fc.property(scenario, (input) => {
        const subtask = run(input, 'EXACTLY_ONCE')
        for (const { n, positions, ended } of subtask.triggered)
          input.channels.forEach((items, index) => {
            if (ended[index]) return
            expect(items[positions[index]! - 1]).toEqual({ kind: 'barrier', n })
          })
        // Everything was read in the end: no abort, cancel or end left a channel blocked.
        expect(subtask.positions).toEqual(input.channels.map((items) => items.length))
      }),
      { numRuns: 400 },
    )
  })

  test('exactly once: a checkpoint whose barrier comes on every channel is taken if nobody aborts it', () => {
    const complete = fc.record({
      records: fc.array(fc.array(fc.nat(3), { minLength: LAST, maxLength: LAST }), {
        minLength: 1,
        maxLength: 4,
      }),
      choices: fc.array(fc.nat(1_000), { minLength: 100, maxLength: 100 }),
    })
    fc.assert(
      fc.property(complete, ({ records, choices }) => {
        const channels = records.map((counts) =>
          counts.flatMap((count, i): Item[] => [
            ...Array.from({ length: count }, (): Item => ({ kind: 'record' })),
            { kind: 'barrier', n: i + 1 },
          ]),
        )
        const subtask = run({ channels, choices, aborts: [] }, 'EXACTLY_ONCE')
        expect(subtask.triggered.map(({ n }) => n)).toEqual([1, 2, 3, 4, 5, 6])
        expect(subtask.aborted.size).toBe(0)
      }),
      { numRuns: 100 },
    )
  })

  test('at least once: nobody is ever blocked, and a snapshot is not taken before the barrier has come on every live channel', () => {
    fc.assert(
      fc.property(scenario, (input) => {
        const subtask = run(input, 'AT_LEAST_ONCE')
        expect(subtask.blocked).not.toContain(true)
        for (const { n, positions, ended } of subtask.triggered)
          input.channels.forEach((items, index) => {
            if (ended[index]) return
            expect(
              items.slice(0, positions[index]).some((item) => item.kind === 'barrier' && item.n === n),
            ).toBe(true)
          })
        expect(subtask.positions).toEqual(input.channels.map((items) => items.length))
      }),
      { numRuns: 200 },
    )
  })
})
