/**
 * Input of a task that reads channels: obeys the barrier handler, keeps the watermark valve, counts ends.
 */
import { type BarrierAction, BarrierHandler } from '../checkpoint/barrier-handler.ts'
import type { InFlightWriter } from '../checkpoint/in-flight.ts'
import type { CheckpointingMode } from '../core/constants.ts'
import {
  type CheckpointBarrier,
  type CheckpointKind,
  MAX_WATERMARK,
  MIN_WATERMARK,
  type StreamElement,
} from '../core/element.ts'
import type { AlignmentInfo } from '../core/job-info.ts'
import type { Clock, TimerHandle, Timers } from '../core/ports.ts'
import { WatermarkValve } from '../core/time/watermarks.ts'
import type { ChainDriver } from './chain-driver.ts'
import { InFlightCapture } from './in-flight-capture.ts'
import type { GateChannel, InputGate } from './input-gate.ts'
import type { QueueLimit } from './queue-limit.ts'
import type { UnalignedSnapshot } from './subtask-checkpointer.ts'
import type { StepResult, TaskInput } from './task-input.ts'

/** Takes the snapshot of the whole task; awaited before the next element. */
export interface BarrierObeyer {
  checkpoint(n: number, kind: CheckpointKind, unaligned?: UnalignedSnapshot): Promise<void>
  cancelled(n: number, reason: string): void
}

/** What unaligned checkpoints need of the task. */
export interface UnalignedOptions {
  readonly clock: Clock
  readonly timers: Timers
  /** The task's loop must go on. */
  readonly wake: () => void
  readonly writer: () => InFlightWriter
}

/**
 * Overtaking (unaligned checkpoints): the gate hears of a barrier when it arrives, not when it is read. From its time on the task takes the
 * snapshot between two steps, and keeps what is queued before the barriers with it.
 */
export class GateInput implements TaskInput {
  readonly #gate: InputGate
  readonly #handler: BarrierHandler
  readonly #valve: WatermarkValve
  readonly #driver: ChainDriver
  readonly #obeyer: BarrierObeyer
  /** Channels that owe EndOfData, by input. */
  readonly #open: number[]
  readonly #unaligned: UnalignedOptions | undefined
  readonly #queue: QueueLimit | undefined
  /** The newest barrier that may overtake. */
  #arrived: CheckpointBarrier | undefined
  #overtakeTimer: TimerHandle | undefined
  /** The newest barrier that may overtake, also after it did. */
  #latest: CheckpointBarrier | undefined
  /** While a barrier overtakes: the channels that had given it. */
  #overtaking: ReadonlySet<number> | undefined
  #capture: InFlightCapture | undefined
  readonly #ended = new Set<number>()
  #waitingForRoom = false
  /** Channels that a barrier blocks, and since when. */
  readonly #blockedSince = new Map<number, number>()

  constructor(
    gate: InputGate,
    mode: CheckpointingMode,
    driver: ChainDriver,
    obeyer: BarrierObeyer,
    unaligned?: UnalignedOptions,
    queue?: QueueLimit,
  ) {
    this.#gate = gate
    this.#handler = new BarrierHandler(gate.channels.length, mode)
    this.#valve = new WatermarkValve(gate.channels.length)
    this.#driver = driver
    this.#obeyer = obeyer
    this.#open = [0, 0]
    for (const { input } of gate.channels) (this.#open[input] as number)++
    this.#unaligned = unaligned
    this.#queue = queue
    if (unaligned !== undefined) gate.onBarrier = (barrier) => this.#barrierArrived(barrier, unaligned)
  }

  start(): void {}

  step(): StepResult | Promise<StepResult> {
    if (this.#arrived !== undefined && this.#unaligned !== undefined) {
      const overtaking = this.#overtake(this.#arrived, this.#unaligned)
      if (overtaking !== undefined) return overtaking.then(worked)
    }
    const index = this.#gate.ready()
    if (index < 0) return 'idle'
    if (this.#gate.hasRecords(index) && this.#mustWait()) return 'held'
    const element = this.#gate.take(index)
    if (element.kind === 'records') {
      const input = (this.#gate.channels[index] as { input: number }).input
      const began = this.#unaligned?.clock.now() ?? 0
      const pending = this.#driver.records(input, element)
      if (pending !== undefined) return pending.then(() => this.#took(element.values.length, began))
      return this.#took(element.values.length, began)
    }
    return this.#event(index, element).then(worked)
  }

  #took(records: number, began: number): StepResult {
    if (records > 0) this.#queue?.took(records, (this.#unaligned?.clock.now() ?? began) - began)
    return 'worked'
  }

  /** True while the chain takes no records; the task is woken when it does. */
  #mustWait(): boolean {
    const room = this.#driver.room()
    if (room === undefined) return false
    if (!this.#waitingForRoom) {
      this.#waitingForRoom = true
      void room.then(() => {
        this.#waitingForRoom = false
        this.#gate.onData?.()
      })
    }
    return true
  }

  async #event(index: number, element: Exclude<StreamElement, { kind: 'records' }>): Promise<void> {
    switch (element.kind) {
      case 'watermark':
        await this.#driver.valve(this.#valve.onWatermark(index, element.timestamp))
        return
      case 'watermark-status':
        await this.#driver.valve(this.#valve.onStatus(index, element.idle))
        return
      case 'barrier':
        if (element.overtakeAt !== undefined && element.n >= (this.#latest?.n ?? -1)) this.#latest = element
        await this.#obey(
          this.#handler.handle({
            type: 'barrier',
            channel: index,
            n: element.n,
            kind: element.checkpointKind,
          }),
        )
        return
      case 'cancel-checkpoint':
        await this.#obey(this.#handler.handle({ type: 'cancel', channel: index, n: element.n }))
        return
      case 'end-of-data': {
        const input = (this.#gate.channels[index] as { input: number }).input
        const left = (this.#open[input] as number) - 1
        this.#open[input] = left
        if (left === 0) await this.#driver.endInput(input)
        if (this.#open.every((count) => count === 0)) await this.#driver.endOfData()
        return
      }
      case 'end-of-channel':
        this.#ended.add(index)
        await this.#driver.valve(this.#valve.onEnd(index))
        await this.#obey(this.#handler.handle({ type: 'channel-ended', channel: index }))
        return
    }
  }

  async #obey(actions: readonly BarrierAction[]): Promise<void> {
    for (const action of actions) {
      switch (action.type) {
        case 'block':
          this.#gate.block(action.channel)
          this.#blockedSince.set(action.channel, this.#unaligned?.clock.now() ?? 0)
          break
        case 'resume-all':
          this.#gate.resumeAll()
          this.#blockedSince.clear()
          break
        case 'trigger':
          await this.#obeyer.checkpoint(action.n, action.kind, this.#snapshotOf(action.n))
          break
        case 'abort':
          this.#obeyer.cancelled(action.n, action.reason)
          break
      }
    }
  }

  #barrierArrived(barrier: CheckpointBarrier, { clock, timers, wake }: UnalignedOptions): void {
    if (barrier.n <= (this.#latest?.n ?? -1)) return
    this.#arrived = barrier
    this.#latest = barrier
    this.#overtakeTimer?.cancel()
    this.#overtakeTimer = timers.schedule(Math.max(0, (barrier.overtakeAt ?? 0) - clock.now()), wake, true)
  }

  /** Undefined: it is not time yet, or the checkpoint was aligned meanwhile. */
  #overtake(barrier: CheckpointBarrier, { clock }: UnalignedOptions): Promise<void> | undefined {
    if (clock.now() < (barrier.overtakeAt ?? 0)) return undefined
    this.#arrived = undefined
    const { n, checkpointKind: kind } = barrier
    const received = new Set(this.#handler.receivedFrom(n))
    const actions = this.#handler.handle({ type: 'overtake', n, kind })
    if (actions.length === 0) return undefined
    this.#overtaking = received
    return this.#obey(actions)
  }

  /** How the snapshot is taken, and how the barrier goes on. */
  #snapshotOf(n: number): UnalignedSnapshot | undefined {
    const latest = this.#latest
    if (latest?.n !== n) return undefined
    const received = this.#overtaking
    this.#overtaking = undefined
    const { overtakeAt } = latest
    if (received === undefined) return { overtakeAt }
    return { overtakeAt, capture: () => this.#startCapture(n, received) }
  }

  #startCapture(n: number, received: ReadonlySet<number>): Promise<Uint8Array | undefined> {
    this.#capture?.cancel()
    const capture = new InFlightCapture(n, (this.#unaligned as UnalignedOptions).writer())
    this.#capture = capture
    const placeOf = (index: number) => {
      const { place, from } = this.#gate.channels[index] as GateChannel
      if (place === undefined) throw new TypeError(`the channel from ${from} has no name for checkpoints`)
      return place
    }
    for (const { index, element } of this.#gate.restored) {
      const { edge, from } = placeOf(index)
      capture.keep(edge, from, element)
    }
    capture.start(
      this.#gate.channels.flatMap(({ channel }, index) =>
        received.has(index) || this.#ended.has(index) ? [] : [{ channel, ...placeOf(index) }],
      ),
    )
    return capture.bytes
  }

  abortCheckpoint(n: number): Promise<void> {
    if (this.#capture?.n === n) this.#capture.cancel()
    return this.#obey(this.#handler.handle({ type: 'abort', n }))
  }

  async close(): Promise<void> {
    this.#overtakeTimer?.cancel()
    this.#capture?.cancel()
    this.#gate.close()
  }

  /** No room in the chain, or records behind a barrier that blocks their channel. What is merely not taken yet is taken next. */
  waiting(): boolean {
    return this.#driver.room() !== undefined || this.#gate.blocksRecords
  }

  watermarkHeldBackBy(): readonly string[] {
    return this.#valve.holdingBack().map((index) => {
      const { from, heldBackBy } = this.#gate.channels[index] as GateChannel
      const splits = heldBackBy?.() ?? []
      return splits.length === 0 ? from : `${from}: ${splits.join(', ')}`
    })
  }

  /** An ended channel has the last watermark, whether or not there is event time. */
  get hasEventTime(): boolean {
    return this.#gate.channels.some((_channel, index) => {
      const watermark = this.#valve.channelWatermark(index)
      return watermark > MIN_WATERMARK && watermark < MAX_WATERMARK
    })
  }

  alignment(): AlignmentInfo | undefined {
    const waiting = this.#handler.collecting
    if (waiting === undefined) return undefined
    const from = (index: number): string => (this.#gate.channels[index] as GateChannel).from
    const now = this.#unaligned?.clock.now() ?? 0
    return {
      checkpoint: waiting.n,
      missing: waiting.missing.map(from),
      blocked: [...this.#blockedSince].map(([index, since]) => ({ from: from(index), ms: now - since })),
    }
  }

  /** The upstream subtask of each channel. */
  get channels(): readonly string[] {
    return this.#gate.channels.map(({ from }) => from)
  }

  /** The watermark of the gate. */
  get watermark(): number {
    return this.#valve.watermark
  }

  /** The watermark of one channel, and whether it holds the gate's back. */
  channelWatermark(index: number): { readonly watermark: number; readonly holdsBack: boolean } {
    return {
      watermark: this.#valve.channelWatermark(index),
      holdsBack: this.#valve.holdingBack().includes(index),
    }
  }

  describe(): string {
    if (this.#waitingForRoom) return 'waiting until an asynchronous function takes records'
    const waiting = this.alignment()
    if (waiting === undefined) return 'waiting for records'
    return `checkpoint ${waiting.checkpoint} waits for the barrier from ${waiting.missing.join(', ')}`
  }
}

function worked(): StepResult {
  return 'worked'
}
