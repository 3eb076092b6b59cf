/**
 * A bounded channel from one upstream subtask to one downstream subtask of the same worker. No serialization, no promise a record:
 * the sender pushes vectors and waits only when the channel is full (backpressure).
 */
import type { CheckpointBarrier, StreamElement } from '../core/element.ts'

/** Records that a channel holds at the most before its sender must wait. One vector may overshoot it. */
export const CHANNEL_CAPACITY = 4096

export class LocalChannel {
  #capacity: number
  #queue: StreamElement[] = []
  #head = 0
  #records = 0
  #closed = false
  #writable: (() => void) | undefined
  #writablePromise: Promise<void> | undefined
  /** Called when an element arrives. */
  onData: (() => void) | undefined
  /** Called with each barrier that may overtake, when it arrives. */
  onBarrier: ((barrier: CheckpointBarrier) => void) | undefined
  /** Sees each element as it arrives, while an unaligned checkpoint needs what comes before its barrier. */
  recorder: ((element: StreamElement) => void) | undefined

  constructor(capacity: number = CHANNEL_CAPACITY) {
    this.#capacity = capacity
  }

  get records(): number {
    return this.#records
  }

  get empty(): boolean {
    return this.#head === this.#queue.length
  }

  /** It takes no records now. */
  get full(): boolean {
    return !this.#closed && this.#records >= this.#capacity
  }

  /** Adds an element; never waits. After `close` it is dropped. */
  push(element: StreamElement): void {
    if (this.#closed) return
    this.#queue.push(element)
    if (element.kind === 'records') this.#records += element.values.length
    this.recorder?.(element)
    if (element.kind === 'barrier' && element.overtakeAt !== undefined) this.onBarrier?.(element)
    this.onData?.()
  }

  /** Another number of records that it holds. What is in it stays. */
  resize(capacity: number): void {
    this.#capacity = capacity
    if (this.#records < capacity) this.#release()
  }

  /** Undefined = there is room. */
  writable(): Promise<void> | undefined {
    if (!this.full) return undefined
    this.#writablePromise ??= new Promise((resolve) => {
      this.#writable = resolve
    })
    return this.#writablePromise
  }

  /** Elements that wait, oldest first. */
  queued(): readonly StreamElement[] {
    return this.#queue.slice(this.#head)
  }

  peek(): StreamElement | undefined {
    return this.#queue[this.#head]
  }

  take(): StreamElement | undefined {
    const element = this.#queue[this.#head]
    if (element === undefined) return undefined
    this.#queue[this.#head++] = undefined as unknown as StreamElement
    if (this.#head === this.#queue.length) {
      this.#queue = []
      this.#head = 0
    }
    if (element.kind === 'records') {
      this.#records -= element.values.length
      if (this.#records < this.#capacity) this.#release()
    }
    return element
  }

  /** Ends the channel: pending elements are dropped, waiting senders go on. */
  close(): void {
    this.#closed = true
    this.#queue = []
    this.#head = 0
    this.#records = 0
    this.#release()
  }

  #release(): void {
    const resolve = this.#writable
    this.#writable = undefined
    this.#writablePromise = undefined
    resolve?.()
  }
}
