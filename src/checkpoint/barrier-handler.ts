/**
 * Alignment of one subtask: decides which channels wait, and when the subtask takes its snapshot. Pure: event in, actions out.
 *
 *                     barrier n (first)                      barrier n on the last live channel
 *   WaitingForFirstBarrier ────────────► CollectingBarriers(n) ────────────────► WaitingForFirstBarrier
 *        ▲     ▲                              │      │                            (trigger n, resume all)
 *        │     └──── abort n / cancel n ──────┘      │ barrier m > n on a channel that still owes n
 *        │                                           ▼
 *        └──────────────────────────────── CollectingBarriers(m)   (abort n, resume all, block that channel for m)
 *
 * | state                     | barrier n | barrier m > n | late or aborted barrier | cancel n | abort n | channel ended |
 * | WaitingForFirstBarrier    | collect   | –             | swallow                 | note it  | note it | drop channel  |
 * | CollectingBarriers(n)     | count     | abort n, collect m | swallow            | abort n  | abort n | may complete  |
 *
 * Unaligned checkpoints: `overtake n` in either state takes snapshot n at once, as if every barrier had come; what is queued before the
 * barriers is kept by the caller (runtime/in-flight-capture.ts).
 * EXACTLY_ONCE blocks a channel from its barrier until the snapshot; AT_LEAST_ONCE counts and never blocks.
 * Nothing waits for a later checkpoint to come: an abort always unblocks (protocol §3.3).
 */
import type { CheckpointingMode } from '../core/constants.ts'
import type { CheckpointKind } from '../core/element.ts'
import { IllegalTransitionError } from '../errors.ts'

export type InputEvent =
  | { readonly type: 'barrier'; readonly channel: number; readonly n: number; readonly kind: CheckpointKind }
  | { readonly type: 'cancel'; readonly channel: number; readonly n: number }
  | { readonly type: 'channel-ended'; readonly channel: number }
  /** Barrier n has arrived on some channel and overtakes what is queued (unaligned): take the snapshot now. */
  | { readonly type: 'overtake'; readonly n: number; readonly kind: CheckpointKind }
  /** The coordinator aborted n. */
  | { readonly type: 'abort'; readonly n: number }

export type BarrierAction =
  | { readonly type: 'block'; readonly channel: number }
  | { readonly type: 'resume-all' }
  /** Take snapshot n now, then forward the barrier. */
  | { readonly type: 'trigger'; readonly n: number; readonly kind: CheckpointKind }
  /** Checkpoint n will not come here: tell downstream with a cancel marker. */
  | { readonly type: 'abort'; readonly n: number; readonly reason: string }

interface Collecting {
  readonly n: number
  readonly kind: CheckpointKind
  readonly received: Set<number>
}

/** How many aborted ids are remembered one by one; far fewer checkpoints are ever in flight at a time. */
const ABORTED_MEMORY = 64

export class BarrierHandler {
  readonly #mode: CheckpointingMode
  readonly #live: Set<number>
  /** EXACTLY_ONCE holds at most one; AT_LEAST_ONCE several, oldest first. */
  #collecting: Collecting[] = []
  #highestDecided = -1
  readonly #aborted = new Set<number>()

  constructor(channels: number, mode: CheckpointingMode) {
    this.#mode = mode
    this.#live = new Set(Array.from({ length: channels }, (_, i) => i))
  }

  /** The checkpoint that channels are waiting for, for `what is it waiting for?`. */
  get collecting(): { readonly n: number; readonly missing: readonly number[] } | undefined {
    const first = this.#collecting[0]
    if (first === undefined) return undefined
    return { n: first.n, missing: [...this.#live].filter((channel) => !first.received.has(channel)) }
  }

  handle(event: InputEvent): BarrierAction[] {
    switch (event.type) {
      case 'barrier':
        return this.#barrier(event.channel, event.n, event.kind)
      case 'cancel':
        return this.#abort(event.n, `cancelled upstream on channel ${event.channel}`)
      case 'abort':
        return this.#abort(event.n, 'aborted by the coordinator')
      case 'overtake':
        return this.#overtake(event.n, event.kind)
      case 'channel-ended':
        this.#live.delete(event.channel)
        return this.#completeIfAligned()
    }
  }

  #barrier(channel: number, n: number, kind: CheckpointKind): BarrierAction[] {
    if (!this.#live.has(channel))
      throw new IllegalTransitionError('barrier handler', 'channel ended', `barrier on channel ${channel}`, n)
    if (n <= this.#highestDecided || this.#aborted.has(n)) return []
    const actions: BarrierAction[] = []
    if (this.#mode === 'EXACTLY_ONCE') {
      const current = this.#collecting[0]
      if (current !== undefined && n < current.n) return []
      if (current !== undefined && n > current.n) {
        // Channels that already gave current.n are blocked, so this one still owes it: current.n can never complete here.
        if (current.received.has(channel))
          throw new IllegalTransitionError(
            'barrier handler',
            `channel ${channel} blocked for ${current.n}`,
            `barrier ${n}`,
            n,
          )
        actions.push(...this.#abort(current.n, `overtaken by barrier ${n} on channel ${channel}`))
      }
    }
    let collecting = this.#collecting.find((c) => c.n === n)
    if (collecting === undefined) {
      collecting = { n, kind, received: new Set() }
      this.#collecting.push(collecting)
      this.#collecting.sort((a, b) => a.n - b.n)
    }
    if (collecting.received.has(channel))
      throw new IllegalTransitionError(
        'barrier handler',
        `collecting ${n}`,
        `second barrier on channel ${channel}`,
        n,
      )
    collecting.received.add(channel)
    if (this.#mode === 'EXACTLY_ONCE') actions.push({ type: 'block', channel })
    actions.push(...this.#completeIfAligned())
    return actions
  }

  /** Barriers of n that come to the head of their channels later are late ones, and swallowed. */
  #overtake(n: number, kind: CheckpointKind): BarrierAction[] {
    if (this.#mode !== 'EXACTLY_ONCE' || n <= this.#highestDecided || this.#aborted.has(n)) return []
    const current = this.#collecting[0]
    if (current !== undefined && n < current.n) return []
    const actions: BarrierAction[] = []
    if (current !== undefined && n > current.n)
      actions.push(...this.#abort(current.n, `overtaken by barrier ${n}`))
    this.#collecting = []
    this.#highestDecided = n
    actions.push({ type: 'trigger', n, kind }, { type: 'resume-all' })
    return actions
  }

  /** Channels that have given barrier n and wait for the others; empty unless n is being aligned. */
  receivedFrom(n: number): readonly number[] {
    const collecting = this.#collecting.find((each) => each.n === n)
    return collecting === undefined ? [] : [...collecting.received]
  }

  #completeIfAligned(): BarrierAction[] {
    const aligned = (collecting: Collecting): boolean =>
      [...this.#live].every((channel) => collecting.received.has(channel))
    const newest = this.#collecting.findLastIndex(aligned)
    if (newest < 0) return []
    const actions: BarrierAction[] = []
    for (const collecting of this.#collecting.splice(0, newest + 1)) {
      // An older one that still lacks a barrier cannot be taken after a newer one (at-least-once). The end of a channel may align several.
      if (aligned(collecting)) actions.push({ type: 'trigger', n: collecting.n, kind: collecting.kind })
      else actions.push({ type: 'abort', n: collecting.n, reason: 'overtaken by a newer checkpoint' })
      this.#highestDecided = Math.max(this.#highestDecided, collecting.n)
    }
    if (this.#mode === 'EXACTLY_ONCE') actions.push({ type: 'resume-all' })
    return actions
  }

  #abort(n: number, reason: string): BarrierAction[] {
    if (n <= this.#highestDecided || this.#aborted.has(n)) return []
    this.#aborted.add(n)
    if (this.#aborted.size > ABORTED_MEMORY) this.#forgetOldest()
    const index = this.#collecting.findIndex((c) => c.n === n)
    const actions: BarrierAction[] = [{ type: 'abort', n, reason }]
    if (index >= 0) {
      this.#collecting.splice(index, 1)
      if (this.#mode === 'EXACTLY_ONCE') actions.push({ type: 'resume-all' })
    }
    return actions
  }

  /** What is forgotten must stay swallowed: all ids up to the oldest aborted one count as decided. */
  #forgetOldest(): void {
    const oldest = Math.min(...this.#aborted)
    // What still collects below it has channels that wait: its end comes first.
    if (this.#collecting.some((collecting) => collecting.n < oldest)) return
    this.#highestDecided = Math.max(this.#highestDecided, oldest)
    for (const n of this.#aborted) if (n <= this.#highestDecided) this.#aborted.delete(n)
  }
}
