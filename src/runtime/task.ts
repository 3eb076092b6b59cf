/**
 * One subtask's loop. Everything that touches operators happens here, one call at a time: elements, barriers, triggers, timers.
 *
 *   Created ──run──► Running ──cancel──► Cancelling ──loop ends──► Closed
 *                       └──error──► (reported once) ──► Closed
 *
 * Actions from outside (triggers, timers) are posted to the mailbox and run between two elements. Notifications of completed, aborted and
 * confirmed checkpoints are delivered at once, because a sink may hold the loop until it hears one.
 */
import type { CheckpointKind } from '../core/element.ts'
import type { AlignmentInfo } from '../core/job-info.ts'
import type { OperatorChain } from '../core/operators/operator-chain.ts'
import type { TimerHandle, World } from '../core/ports.ts'
import { WATERMARK_INTERVAL_MS } from '../core/time/watermarks.ts'
import type { ChainDriver } from './chain-driver.ts'
import { SourceInput } from './source-input.ts'
import type { SubtaskCheckpointer } from './subtask-checkpointer.ts'
import type { TaskInput } from './task-input.ts'
import { TaskLoad } from './task-load.ts'

/** Steps before the loop lets IO have its turn. */
const STEPS_PER_TURN = 1

/** How a source takes a checkpoint. */
export interface TriggerOptions {
  /** All event time passes before it. */
  readonly drain?: boolean | undefined
  /** Epoch ms from which its barrier may overtake records; absent: never. */
  readonly overtakeAt?: number | undefined
}

export interface TaskOptions {
  /** 'vertex/subtask', as in acknowledgements. */
  readonly id: string
  /** For people. */
  readonly name: string
  readonly chain: OperatorChain
  readonly input: TaskInput
  readonly driver: ChainDriver
  readonly checkpointer: SubtaskCheckpointer
  readonly world: World
  /** Where the time goes that it waits; shared with whatever makes it wait. */
  readonly load?: TaskLoad
  /** Called at most once. */
  readonly onFailure: (task: Task, error: unknown) => void
}

export class Task {
  readonly id: string
  readonly name: string
  readonly load: TaskLoad
  readonly #options: TaskOptions
  readonly #mailbox: (() => void | Promise<void>)[] = []
  readonly #processingTimers = new Map<number, { time: number; handle: TimerHandle }>()
  #wake: (() => void) | undefined
  #woken = false
  #cancelled = false
  #failed = false
  #loop: Promise<void> | undefined
  #onCancel: (() => void) | undefined
  /** Since when it waits for an operator: a function of the user, a sink, a snapshot. */
  #callSince: number | undefined
  /** It waits between two elements, or has not begun. */
  #rests = true

  constructor(options: TaskOptions) {
    this.#options = options
    this.id = options.id
    this.name = options.name
    this.load = options.load ?? new TaskLoad(options.world.clock)
  }

  /** Opens the chain. The loop starts with `run`, when all tasks of the job are open. */
  async open(): Promise<void> {
    await this.#options.chain.openAll()
    await this.#options.input.start()
  }

  run(): void {
    this.#loop = this.#main().catch((error: unknown) => this.fail(error))
    if (this.#options.input instanceof SourceInput && this.#options.input.hasWatermarks)
      this.#periodic(this.#options.input)
  }

  /** The loop goes on when something may have changed. */
  wake(): void {
    this.#woken = true
    const wake = this.#wake
    this.#wake = undefined
    wake?.()
  }

  /** Runs `action` in the loop, between two elements. */
  post(action: () => void | Promise<void>): void {
    if (this.#cancelled) return
    this.#mailbox.push(action)
    this.wake()
  }

  /** Source tasks: take checkpoint n now. */
  trigger(
    n: number,
    kind: CheckpointKind,
    thenStop: boolean,
    { drain = false, overtakeAt }: TriggerOptions = {},
  ): void {
    this.post(async () => {
      const { input } = this.#options
      if (drain && input instanceof SourceInput) await input.drain()
      else if (thenStop && input instanceof SourceInput) input.stop()
      await this.#options.checkpointer.checkpoint(n, kind, { overtakeAt })
    })
  }

  get isSource(): boolean {
    return this.#options.input instanceof SourceInput
  }

  notifyComplete(n: number): void {
    this.#guarded(() => this.#options.chain.notifyCheckpointComplete(n))
    const { input } = this.#options
    if (input instanceof SourceInput) this.#guarded(() => input.reader.notifyCheckpointComplete?.(n))
  }

  notifyAborted(n: number): void {
    this.#options.checkpointer.abort(n)
    this.#guarded(() => this.#options.chain.notifyCheckpointAborted(n))
    this.post(() => this.#options.input.abortCheckpoint(n))
  }

  notifyConfirmed(n: number): void {
    this.#guarded(() => this.#options.chain.notifyCheckpointConfirmed(n))
  }

  /** Checkpoints before `oldest` are forgotten. */
  retainedFrom(oldest: number): void {
    this.#options.checkpointer.retainedFrom(oldest)
  }

  /** An operator wants `onProcessingTime` at `time`; the earliest wish of each operator wins. After the end of input there is none. */
  requestProcessingTime(operator: number, time: number): void {
    const { chain, driver } = this.#options
    if (this.#cancelled || driver.ended) return
    const pending = this.#processingTimers.get(operator)
    if (pending !== undefined) {
      if (pending.time <= time) return
      pending.handle.cancel()
    }
    const { timers, clock } = this.#options.world
    const handle = timers.schedule(Math.max(0, time - clock.now()), () => {
      this.#processingTimers.delete(operator)
      this.post(() => (driver.ended ? undefined : chain.onProcessingTime(operator, clock.now())))
    })
    this.#processingTimers.set(operator, { time, handle })
  }

  /** Reports a failure of this task, once. */
  fail(error: unknown): void {
    if (this.#failed || this.#cancelled) return
    this.#failed = true
    this.#options.onFailure(this, error)
  }

  /** What it does or waits for, for people. */
  describe(): string {
    const waiting = this.load.waiting()
    if (waiting?.for === 'backpressured') {
      const receivers = this.load.fullReceivers
      return `waiting for room in ${receivers.length === 0 ? 'the next task' : receivers.join(', ')} for ${seconds(waiting.ms)}`
    }
    if (this.#callSince !== undefined)
      return `in a function for ${seconds(this.#options.world.clock.now() - this.#callSince)}`
    return this.#rests ? this.#options.input.describe() : 'working'
  }

  /** What keeps its watermark where it is: splits or upstream subtasks. */
  watermarkHeldBackBy(): readonly string[] {
    return this.#options.input.watermarkHeldBackBy()
  }

  /** False as long as no watermark can have come to it. */
  get hasEventTime(): boolean {
    return this.#options.input.hasEventTime
  }

  /** The checkpoint that it aligns, if it does. */
  alignment(): AlignmentInfo | undefined {
    return this.#options.input.alignment()
  }

  /** What its operators have to say of themselves, e.g. which transaction is open. */
  describeOperators(): readonly string[] {
    return this.#options.chain.describeOperators()
  }

  /** Ends the loop and closes everything; resolves when the operators are closed. Waits `graceMs` for a call in progress. */
  async cancel(graceMs: number): Promise<void> {
    if (!this.#cancelled) {
      this.#cancelled = true
      this.#mailbox.length = 0
      for (const { handle } of this.#processingTimers.values()) handle.cancel()
      this.#options.checkpointer.close()
      this.#onCancel?.()
      this.wake()
    }
    try {
      // Closing the channels releases whoever waits for room in them.
      await this.#options.input.close()
    } finally {
      if (this.#loop !== undefined) await this.#within(this.#loop, graceMs)
      await this.#options.chain.closeAll()
    }
  }

  async #main(): Promise<void> {
    const { input, world } = this.#options
    let steps = 0
    this.#rests = false
    while (!this.#cancelled && !this.#failed) {
      const action = this.#mailbox.shift()
      if (action !== undefined) {
        const pending = action()
        if (pending !== undefined) await this.#interruptible(pending)
        continue
      }
      this.#woken = false
      const result = input.step()
      const outcome = typeof result === 'string' ? result : await this.#interruptible(result)
      if (outcome === 'idle' || outcome === 'held') {
        if (this.#woken || this.#mailbox.length > 0) continue
        // Records that the chain does not take are work that it has not done.
        if (outcome === 'idle') this.load.begin('idle')
        this.#rests = true
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
        this.#rests = false
        if (outcome === 'idle') this.load.end()
      } else if (++steps >= STEPS_PER_TURN) {
        steps = 0
        await world.timers.turn()
      }
    }
  }

  /** Waits for a call in progress, but not after the task was cancelled. */
  #interruptible<T>(pending: Promise<T>): Promise<T | undefined> {
    this.#callSince = this.#options.world.clock.now()
    return new Promise((resolve, reject) => {
      this.#onCancel = () => resolve(undefined)
      pending.then(
        (result) => {
          this.#callSince = undefined
          resolve(result)
        },
        (error: unknown) => {
          this.#callSince = undefined
          reject(error)
        },
      )
    })
  }

  /** What an operator throws when it hears something fails its own task, and is not thrown at whoever told it. */
  #guarded(notify: () => void | Promise<void>): void {
    try {
      notify()?.catch((error: unknown) => this.fail(error))
    } catch (error) {
      this.fail(error)
    }
  }

  #periodic(input: SourceInput): void {
    const tick = (): void => {
      if (this.#cancelled || this.#failed) return
      this.post(() => input.periodic())
      this.#options.world.timers.schedule(WATERMARK_INTERVAL_MS, tick, true)
    }
    this.#options.world.timers.schedule(WATERMARK_INTERVAL_MS, tick, true)
  }

  #within(work: Promise<void>, graceMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#options.world.timers.schedule(graceMs, () => {
        this.#options.world.logger.warn(
          `${this.name} did not stop within ${graceMs} ms; a function of the job hangs`,
        )
        resolve()
      })
      const done = (): void => {
        timer.cancel()
        resolve()
      }
      work.then(done, done)
    })
  }
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`
