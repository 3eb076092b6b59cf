import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  CheckpointCoordinator,
  type CoordinatorEffect,
  type CoordinatorEvent,
} from '../../src/checkpoint/coordinator.ts'
import { type TransactionSlot, TransactionSlots } from '../../src/kafka/transaction-slots.ts'

type Timeless<E = CoordinatorEvent> = E extends CoordinatorEvent ? Omit<E, 'now'> : never

const SUBTASKS = ['source/0', 'map/0', 'sink/0']

interface Settings {
  readonly maxConcurrent: number
  readonly minPauseMs: number
  readonly tolerableFailures: number
  readonly numRetained: number
}

/** Everything around the coordinator: it obeys effects at a time of its own choosing, and checks each one against the protocol. */
class World {
  now = 1_000
  readonly coordinator: CheckpointCoordinator
  /** Subtasks that have not answered, by checkpoint. */
  readonly unanswered = new Map<number, string[]>()
  writing: number | undefined
  /** What the commit point being written would confirm. */
  riding = -1
  readonly completed: number[] = [0]
  readonly aborted = new Set<number>()
  readonly committing: number[] = []
  readonly confirming: number[] = []
  readonly asked = new Set<string>()
  readonly answered = new Set<string>()
  readonly discarded = new Set<number>()
  pause = false
  durable = 0
  ended: 'FailAttempt' | 'EndAttempt' | undefined
  /** Hears what sinks hear. */
  onEffect: (effect: CoordinatorEffect) => void = () => undefined

  constructor(settings: Settings) {
    this.coordinator = new CheckpointCoordinator({
      ...settings,
      intervalMs: 100,
      timeoutMs: 1_000,
      subtasks: SUBTASKS,
      restored: 0,
      confirmed: 0,
      retained: [0],
    })
  }

  send(event: Timeless): void {
    for (const effect of this.coordinator.handle({ ...event, now: this.now } as CoordinatorEvent))
      this.#obey(effect)
  }

  ask(id: string, kind: 'checkpoint' | 'savepoint' | 'final', thenStop: boolean): void {
    this.asked.add(id)
    this.send({ type: 'TriggerRequested', id, kind, thenStop })
  }

  answer(n: number, subtask: string): void {
    this.unanswered.set(
      n,
      this.unanswered.get(n)!.filter((other) => other !== subtask),
    )
    this.send({ type: 'Acknowledged', n, subtask, states: [{ uid: subtask, subtask: 0 }] })
  }

  write(): void {
    const n = this.writing!
    this.writing = undefined
    this.completed.push(n)
    this.durable = Math.max(this.durable, this.riding)
    this.send({ type: 'CommitPointWritten', n })
  }

  commit(): void {
    this.send({ type: 'Committed', n: this.committing.shift()! })
  }

  confirm(): void {
    const n = this.confirming.shift()!
    this.durable = Math.max(this.durable, n)
    this.send({ type: 'ConfirmWritten', n })
  }

  #obey(effect: CoordinatorEffect): void {
    this.onEffect(effect)
    switch (effect.type) {
      case 'Trigger':
        expect(this.unanswered.has(effect.n)).toBe(false)
        this.unanswered.set(effect.n, [...SUBTASKS])
        break
      case 'WriteCommitPoint':
        // One at a time, in order, only of what everybody acknowledged, and never of what was aborted.
        expect(this.writing).toBeUndefined()
        expect(effect.n).toBeGreaterThan(this.completed.at(-1)!)
        expect(this.unanswered.get(effect.n)).toEqual([])
        expect(this.aborted.has(effect.n)).toBe(false)
        this.writing = effect.n
        this.riding = effect.confirmed
        break
      case 'NotifyAborted':
        if (effect.reason !== 'refused') expect(this.writing).not.toBe(effect.n)
        expect(this.completed).not.toContain(effect.n)
        expect(this.aborted.has(effect.n)).toBe(false)
        this.aborted.add(effect.n)
        break
      case 'Commit':
        expect(this.completed).toContain(effect.n)
        expect(effect.permit.checkpointId).toBe(effect.n)
        // Commits run in order: what the checkpoint before promised is done by then.
        expect(effect.permit.confirmed).toBe(this.completed.at(-2))
        this.committing.push(effect.n)
        break
      case 'NotifyConfirmed':
        expect(effect.n).toBeLessThanOrEqual(this.durable)
        break
      case 'WriteConfirmed':
        expect(this.committing.every((n) => n > effect.n)).toBe(true)
        this.confirming.push(effect.n)
        break
      case 'Discard':
        expect(this.completed.some((n) => n > effect.n && n <= this.durable)).toBe(true)
        expect(this.discarded.has(effect.n)).toBe(false)
        this.discarded.add(effect.n)
        break
      case 'RequestDone':
        expect(effect.n).toBeLessThanOrEqual(this.durable)
        this.#answered(effect.id)
        break
      case 'RequestFailed':
        this.#answered(effect.id)
        break
      case 'SetTimer':
        expect(effect.delayMs).toBeGreaterThanOrEqual(0)
        if (effect.timer === 'pause') this.pause = true
        break
      case 'FailAttempt':
      case 'EndAttempt':
        this.ended = effect.type
        break
    }
  }

  #answered(id: string): void {
    expect(this.asked.has(id)).toBe(true)
    expect(this.answered.has(id)).toBe(false)
    this.answered.add(id)
  }

  /** Lets everything that is under way end well. */
  drain(): void {
    for (let steps = 0; steps < 5_000; steps++) {
      this.now += 10
      const open = [...this.unanswered].find(([, subtasks]) => subtasks.length > 0)
      if (open !== undefined) this.answer(open[0], open[1][0]!)
      else if (this.writing !== undefined) this.write()
      else if (this.committing.length > 0) this.commit()
      else if (this.confirming.length > 0) this.confirm()
      else if (this.pause) {
        this.pause = false
        this.now += 10_000
        this.send({ type: 'TimerFired', timer: 'pause' })
      } else return
    }
    throw new Error('it never comes to rest')
  }
}

const settings: fc.Arbitrary<Settings> = fc.record({
  maxConcurrent: fc.integer({ min: 1, max: 3 }),
  minPauseMs: fc.constantFrom(0, 0, 250),
  tolerableFailures: fc.constantFrom(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 2),
  numRetained: fc.integer({ min: 1, max: 3 }),
})
const happening = fc.oneof(
  { weight: 6, arbitrary: fc.constant('interval' as const) },
  { weight: 20, arbitrary: fc.constant('ack' as const) },
  { weight: 2, arbitrary: fc.constant('decline' as const) },
  { weight: 3, arbitrary: fc.constant('timeout' as const) },
  { weight: 8, arbitrary: fc.constant('write' as const) },
  { weight: 8, arbitrary: fc.constant('commit' as const) },
  { weight: 4, arbitrary: fc.constant('confirm' as const) },
  { weight: 3, arbitrary: fc.constant('pause' as const) },
  { weight: 2, arbitrary: fc.constantFrom('ask' as const, 'savepoint' as const) },
)
const rare = fc.constantFrom(
  'refused' as const,
  'unknown' as const,
  'commit-failed' as const,
  'stop' as const,
  'end' as const,
)
const story = fc.array(
  fc.record({
    what: fc.oneof({ weight: 60, arbitrary: happening }, { weight: 1, arbitrary: rare }),
    which: fc.nat(1_000),
  }),
  { minLength: 20, maxLength: 160 },
)

function live(world: World, { what, which }: { what: string; which: number }, index: number): unknown {
  world.now += which % 120
  const open = [...world.unanswered].filter(([, subtasks]) => subtasks.length > 0)
  const [n, subtasks] = open[which % Math.max(1, open.length)] ?? [0, []]
  const subtask = subtasks[which % Math.max(1, subtasks.length)] ?? ''
  switch (what) {
    case 'interval':
      return world.send({ type: 'TimerFired', timer: 'interval' })
    case 'pause':
      world.pause = false
      return world.send({ type: 'TimerFired', timer: 'pause' })
    case 'ack':
      return n > 0 ? world.answer(n, subtask) : undefined
    case 'decline':
      return n > 0 ? world.send({ type: 'Declined', n, subtask, reason: 'no room' }) : undefined
    case 'timeout':
      // Also of one that is full, being written, or over.
      return world.send({ type: 'TimerFired', timer: `timeout:${n > 0 ? n : (world.writing ?? 1)}` })
    case 'write':
      return world.writing === undefined ? undefined : world.write()
    case 'refused':
    case 'unknown': {
      if (world.writing === undefined) return
      const written = world.writing
      world.writing = undefined
      return world.send({
        type: what === 'refused' ? 'CommitPointRefused' : 'CommitPointUnknown',
        n: written,
        reason: 'x',
      })
    }
    case 'commit':
      return world.committing.length > 0 ? world.commit() : undefined
    case 'commit-failed':
      if (world.committing.length === 0) return
      return world.send({ type: 'CommitFailed', n: world.committing[0]!, error: new Error('x') })
    case 'confirm':
      return world.confirming.length > 0 ? world.confirm() : undefined
    case 'stop':
      return world.ask(`stop ${index}`, 'checkpoint', true)
    case 'end':
      return world.ask(`end ${index}`, 'final', false)
    default:
      return world.ask(`${what} ${index}`, what === 'savepoint' ? 'savepoint' : 'checkpoint', false)
  }
}

describe('the coordinator under any order of events', () => {
  test('keeps the protocol, ends every checkpoint, and answers every request once', () => {
    fc.assert(
      fc.property(settings, story, (config, events) => {
        const world = new World(config)
        world.send({ type: 'Started' })
        events.forEach((event, index) => {
          if (world.ended === undefined) live(world, event, index)
        })
        if (world.ended === undefined) {
          world.drain()
          for (const n of world.unanswered.keys())
            expect([n, world.completed.includes(n) || world.aborted.has(n)]).toEqual([n, true])
          expect(world.coordinator.inFlight).toEqual([])
        }
        expect([...world.asked].filter((id) => !world.answered.has(id))).toEqual([])
      }),
      { numRuns: 200 },
    )
  })
})

/** A sink that gets a record between any two barriers, with the pool of ids that its coordinator grants. */
class Sink {
  readonly slots: TransactionSlots
  readonly renewing: TransactionSlot[] = []
  open: TransactionSlot | undefined
  /** The last barrier that passed it. */
  passed = 0
  /** Records so far, those before each barrier, those in each transaction, and those that are committed. */
  written = 0
  readonly before = new Map<number, number>()
  readonly content = new Map<TransactionSlot, number>()
  committed = 0
  readonly #used = new Set<string>()

  constructor(ids: number) {
    this.slots = new TransactionSlots(
      Array.from({ length: ids }, (_, i) => ({
        transactionalId: `t.${i}`,
        producerId: BigInt(i),
        producerEpoch: 0,
      })),
    )
  }

  /** A record; false = it is held back. */
  write(): boolean {
    this.open ??= this.#take() ?? this.slots.reopen()
    if (this.open === undefined) return false
    this.written++
    this.content.set(this.open, (this.content.get(this.open) ?? 0) + 1)
    return true
  }

  #take(): TransactionSlot | undefined {
    const slot = this.slots.take(0)
    if (slot === undefined) return undefined
    const identity = `${slot.identity.transactionalId} ${slot.identity.producerEpoch}`
    expect(this.#used.has(identity)).toBe(false)
    this.#used.add(identity)
    return slot
  }

  barrier(n: number): void {
    if (this.open !== undefined) this.slots.prepare(this.open, n)
    this.open = undefined
    this.slots.hold(n)
    this.before.set(n, this.written)
    this.passed = n
  }

  /** Everything that snapshot n holds is committed: exactly the records before its barrier. */
  complete(n: number): void {
    this.slots.complete(n)
    for (const [slot, records] of this.content) {
      if (slot.state !== 'Committed') continue
      this.committed += records
      this.content.delete(slot)
    }
    expect(this.committed).toBe(this.before.get(n))
  }
}

describe('a sink with the smallest pool', () => {
  test('commits exactly the records before each completed barrier, and is never held back without something under way that frees it', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 3 }),
        fc.array(fc.nat(99), { minLength: 30, maxLength: 300 }),
        (maxConcurrent, choices) => {
          const world = new World({
            maxConcurrent,
            minPauseMs: 0,
            tolerableFailures: Number.POSITIVE_INFINITY,
            numRetained: 1,
          })
          const sink = new Sink(maxConcurrent + 2)
          world.onEffect = (effect) => {
            if (effect.type === 'NotifyComplete') sink.complete(effect.n)
            if (effect.type === 'NotifyAborted') sink.slots.aborted(effect.n)
            if (effect.type === 'NotifyConfirmed') sink.renewing.push(...sink.slots.confirmed(effect.n))
          }
          const inFlight = () =>
            [...world.unanswered].filter(([n]) => !world.aborted.has(n) && !world.completed.includes(n))
          for (const choice of choices) {
            world.now += 10
            const next = inFlight().find(([n]) => n > sink.passed)?.[0]
            const acked = inFlight().find(([n, subtasks]) => n <= sink.passed && subtasks.length > 0)
            if (choice < 15) world.send({ type: 'TimerFired', timer: 'interval' })
            else if (choice < 25 && inFlight().length > 0)
              world.send({
                type: 'TimerFired',
                timer: `timeout:${inFlight()[choice % inFlight().length]![0]}`,
              })
            else if (choice < 50) {
              if (sink.write() && next !== undefined) sink.barrier(next)
            } else if (choice < 70) {
              if (acked !== undefined) world.answer(acked[0], acked[1][0]!)
            } else if (choice < 80) {
              if (world.writing !== undefined) world.write()
            } else if (choice < 88) {
              if (world.committing.length > 0) world.commit()
            } else if (choice < 94) {
              if (world.confirming.length > 0) world.confirm()
            } else {
              const slot = sink.renewing.shift()
              if (slot !== undefined)
                sink.slots.renewed(slot, { ...slot.identity, producerEpoch: slot.identity.producerEpoch + 1 })
            }
            if (sink.write()) continue
            const underWay =
              sink.renewing.length > 0 ||
              world.confirming.length > 0 ||
              world.committing.length > 0 ||
              world.writing !== undefined ||
              inFlight().some(([n]) => n <= sink.passed)
            expect(underWay).toBe(true)
          }
        },
      ),
      { numRuns: 200 },
    )
  })
})
