/**
 * Input of a task that reads channels: obeys the barrier handler, keeps the watermark valve, counts ends.
 */
import { type BarrierAction, BarrierHandler } from '../checkpoint/barrier-handler.ts'
import type { CheckpointingMode } from '../core/constants.ts'
import type { CheckpointKind, StreamElement } from '../core/element.ts'
import { WatermarkValve } from '../core/time/watermarks.ts'
import type { ChainDriver } from './chain-driver.ts'
import type { GateChannel, InputGate } from './input-gate.ts'
import type { StepResult, TaskInput } from './task-input.ts'

/** Takes the snapshot of the whole task; awaited before the next element. */
export interface BarrierObeyer {
  checkpoint(n: number, kind: CheckpointKind): Promise<void>
  cancelled(n: number, reason: string): void
}

export class GateInput implements TaskInput {
  readonly #gate: InputGate
  readonly #handler: BarrierHandler
  readonly #valve: WatermarkValve
  readonly #driver: ChainDriver
  readonly #obeyer: BarrierObeyer
  /** Channels that owe EndOfData, by input. */
  readonly #open: number[]

  constructor(gate: InputGate, mode: CheckpointingMode, driver: ChainDriver, obeyer: BarrierObeyer) {
    this.#gate = gate
    this.#handler = new BarrierHandler(gate.channels.length, mode)
    this.#valve = new WatermarkValve(gate.channels.length)
    this.#driver = driver
    this.#obeyer = obeyer
    this.#open = [0, 0]
    for (const { input } of gate.channels) (this.#open[input] as number)++
  }

  start(): void {}

  step(): StepResult | Promise<StepResult> {
    const index = this.#gate.ready()
    if (index < 0) return 'idle'
    const element = this.#gate.take(index)
    if (element.kind === 'records') {
      const input = (this.#gate.channels[index] as { input: number }).input
      const pending = this.#driver.records(input, element)
      return pending === undefined ? 'worked' : pending.then(worked)
    }
    return this.#event(index, element).then(worked)
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
          break
        case 'resume-all':
          this.#gate.resumeAll()
          break
        case 'trigger':
          await this.#obeyer.checkpoint(action.n, action.kind)
          break
        case 'abort':
          this.#obeyer.cancelled(action.n, action.reason)
          break
      }
    }
  }

  abortCheckpoint(n: number): Promise<void> {
    return this.#obey(this.#handler.handle({ type: 'abort', n }))
  }

  async close(): Promise<void> {
    this.#gate.close()
  }

  watermarkHeldBackBy(): readonly string[] {
    return this.#valve.holdingBack().map((index) => {
      const { from, heldBackBy } = this.#gate.channels[index] as GateChannel
      const splits = heldBackBy?.() ?? []
      return splits.length === 0 ? from : `${from}: ${splits.join(', ')}`
    })
  }

  describe(): string {
    const waiting = this.#handler.collecting
    if (waiting === undefined) return 'waiting for records'
    const from = waiting.missing.map((index) => (this.#gate.channels[index] as { from: string }).from)
    return `checkpoint ${waiting.n} waits for the barrier from ${from.join(', ')}`
  }
}

function worked(): StepResult {
  return 'worked'
}
