import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { asyncMap } from '../../src/api/async-map.ts'
import { type HarnessSnapshot, OperatorHarness } from '../../src/testing/operator-harness.ts'

/** An answer that a test gives when it likes. */
class Requests {
  readonly open: { readonly value: number; settle(): void }[] = []
  asked = 0
  readonly ask = (value: number): Promise<number> => {
    this.asked++
    const { promise, resolve } = Promise.withResolvers<number>()
    this.open.push({ value, settle: () => resolve(value) })
    return promise
  }
}

type Step =
  | { readonly kind: 'records'; readonly count: number }
  | { readonly kind: 'watermark' }
  | { readonly kind: 'answer'; readonly which: number }
  | { readonly kind: 'snapshot' }
  | { readonly kind: 'crash' }

const steps = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant('records' as const),
        count: fc.integer({ min: 1, max: 5 }),
      }),
    },
    { weight: 2, arbitrary: fc.constant({ kind: 'watermark' as const }) },
    {
      weight: 8,
      arbitrary: fc.record({ kind: fc.constant('answer' as const), which: fc.nat({ max: 20 }) }),
    },
    { weight: 2, arbitrary: fc.constant({ kind: 'snapshot' as const }) },
    { weight: 1, arbitrary: fc.constant({ kind: 'crash' as const }) },
  ),
  { minLength: 1, maxLength: 50 },
)

/** A source that can go back, and what was committed of the output: as in a job with an exactly-once sink. */
class Run {
  harness!: OperatorHarness<number, number>
  requests!: Requests
  /** What comes next. */
  position = 0
  /** Output of earlier attempts, up to their last checkpoint. */
  committed: number[] = []
  private checkpoint: { snapshot: HarnessSnapshot; position: number; output: number } | undefined
  /** Records that this attempt was given, the restored ones included. */
  private given = 0
  /** Output of this attempt that is committed. */
  private taken = 0
  private readonly ordered: boolean
  private readonly capacity: number

  constructor(ordered: boolean, capacity: number) {
    this.ordered = ordered
    this.capacity = capacity
  }

  async open(): Promise<void> {
    this.requests = new Requests()
    const { factory } = asyncMap(this.requests.ask, { ordered: this.ordered, capacity: this.capacity })
    const restore = this.checkpoint?.snapshot
    this.given = restore?.operatorState['records-in-flight']?.items.length ?? 0
    this.taken = 0
    this.harness = await OperatorHarness.of<number, number>(factory, {
      vectorSize: 2,
      ...(restore && { restore }),
    })
  }

  async step(step: Step): Promise<void> {
    const { harness, requests } = this
    switch (step.kind) {
      case 'records': {
        // As a task does: no records while some that it gave have not begun.
        if (requests.asked < this.given) return
        this.given += step.count
        await harness.processElements(Array.from({ length: step.count }, () => this.position++))
        break
      }
      case 'watermark':
        await harness.processWatermark(this.position)
        break
      case 'answer':
        await this.answer(step.which)
        break
      case 'snapshot':
        this.checkpoint = {
          snapshot: await harness.snapshot(),
          position: this.position,
          output: harness.values().length,
        }
        this.committedUpTo(this.checkpoint.output)
        break
      case 'crash':
        await harness.close()
        this.position = this.checkpoint?.position ?? 0
        await this.open()
        break
    }
    this.checkOrder()
  }

  private async answer(which: number): Promise<void> {
    const { open } = this.requests
    if (open.length === 0) return
    const [request] = open.splice(which % open.length, 1)
    request!.settle()
    await this.harness.settle()
  }

  private committedUpTo(count: number): void {
    this.committed.push(...this.harness.values().slice(this.taken, count))
    this.taken = count
  }

  async finish(): Promise<number[]> {
    const ending = this.harness.endInput()
    while (this.requests.open.length > 0) await this.answer(0)
    await ending
    return [...this.committed, ...this.harness.values().slice(this.taken)]
  }

  /** No result behind a watermark is out before it, and none before it comes after it. A watermark w stands before record w. */
  private checkOrder(): void {
    const reached = this.harness.watermarks().at(-1)
    if (reached === undefined) return
    const out = new Set([...this.committed, ...this.harness.values()])
    for (let value = 0; value < reached; value++)
      if (!out.has(value)) throw new Error(`watermark ${reached} passed the result of ${value}`)
  }
}

test.each([
  ['ordered', true],
  ['unordered', false],
])(
  'an asyncMap (%s) that crashes and is restored gives each result once',
  async (_name, ordered) => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 6 }), steps, async (capacity, sequence) => {
        const run = new Run(ordered, capacity)
        await run.open()
        for (const step of sequence) await run.step(step)
        const results = await run.finish()
        const expected = Array.from({ length: run.position }, (_, i) => i)
        expect(ordered ? results : results.toSorted((a, b) => a - b)).toEqual(expected)
      }),
      { numRuns: 300 },
    )
  },
  60_000,
)
