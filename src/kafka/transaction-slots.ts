/**
 * The transactional ids of one sink subtask, and what each is doing (protocol §3.5). Pure.
 *
 *        take()            prepare(n)           complete(m ≥ n)           confirmed(m ≥ n)        reinitialised
 *   Free ───────► Open ───────────────► Prepared ───────────────► Committed ───────────────► Renewing ───────► Free
 *                  ▲                        │
 *                  └──── reopen() ──────────┘   only the newest one, when no id is free and every snapshot that holds it was aborted
 *
 * An (id, epoch) never serves two transactions: a late duplicate of EndTxn would commit the second one.
 */
import { IllegalTransitionError } from '../errors.ts'
import type { ProducerIdentity } from './kafka-cluster.ts'

type SlotState = 'Free' | 'Open' | 'Prepared' | 'Committed' | 'Renewing'

export interface TransactionSlot {
  identity: ProducerIdentity
  state: SlotState
  /** Checkpoint it was prepared for; -1 before. */
  n: number
  /** Snapshots that hold its committable and are not known to be aborted. */
  readonly heldBy: Set<number>
  /** Epoch ms of the first write. */
  openedAt: number
}

export class TransactionSlots {
  readonly #slots: TransactionSlot[]
  /** Aborted checkpoints that were not snapshotted here yet: an abort may come while the flush before the snapshot is under way. */
  readonly #abortedEarly = new Set<number>()
  #latestSnapshot = -1

  constructor(identities: readonly ProducerIdentity[]) {
    this.#slots = identities.map((identity) => ({
      identity,
      state: 'Free',
      n: -1,
      heldBy: new Set(),
      openedAt: 0,
    }))
  }

  /** A free slot, now open; undefined when there is none. */
  take(now: number): TransactionSlot | undefined {
    const slot = this.#slots.find((s) => s.state === 'Free')
    if (slot === undefined) return undefined
    slot.state = 'Open'
    slot.openedAt = now
    return slot
  }

  /** Prepared slots in the order of their checkpoints. */
  get prepared(): readonly TransactionSlot[] {
    return this.#slots.filter((s) => s.state === 'Prepared').sort((a, b) => a.n - b.n)
  }

  prepare(slot: TransactionSlot, n: number): void {
    move(slot, 'Open', 'Prepared')
    slot.n = n
  }

  /** Snapshot n holds all prepared ones; snapshots come in the order of their ids. One that was aborted already holds nothing. */
  hold(n: number): void {
    this.#latestSnapshot = n
    const dead = this.#abortedEarly.has(n)
    for (const aborted of this.#abortedEarly) if (aborted <= n) this.#abortedEarly.delete(aborted)
    if (dead) return
    for (const slot of this.#slots) if (slot.state === 'Prepared') slot.heldBy.add(n)
  }

  aborted(n: number): void {
    if (n > this.#latestSnapshot) this.#abortedEarly.add(n)
    for (const slot of this.#slots) slot.heldBy.delete(n)
  }

  /**
   * The newest prepared transaction, open again, if no snapshot holds it that may still complete: otherwise that checkpoint would
   * commit records that come after its barrier.
   */
  reopen(): TransactionSlot | undefined {
    const newest = this.prepared.at(-1)
    if (newest === undefined || newest.heldBy.size > 0) return undefined
    move(newest, 'Prepared', 'Open')
    newest.n = -1
    return newest
  }

  /** Checkpoint n is complete: everything prepared up to it is decided. */
  complete(n: number): void {
    for (const slot of this.#slots) if (slot.state === 'Prepared' && slot.n <= n) slot.state = 'Committed'
  }

  /** Commits up to n are durable. Returns the slots to initialise again. */
  confirmed(n: number): TransactionSlot[] {
    const renewing = this.#slots.filter((s) => s.state === 'Committed' && s.n <= n)
    for (const slot of renewing) slot.state = 'Renewing'
    return renewing
  }

  renewed(slot: TransactionSlot, identity: ProducerIdentity): void {
    move(slot, 'Renewing', 'Free')
    slot.identity = identity
    slot.n = -1
    slot.heldBy.clear()
  }
}

function move(slot: TransactionSlot, from: SlotState, to: SlotState): void {
  if (slot.state !== from)
    throw new IllegalTransitionError(`transaction slot ${slot.identity.transactionalId}`, slot.state, to)
  slot.state = to
}
