/**
 * The network between clients and simulated brokers: seeded latency, and faults on cue.
 *
 *   client ──request latency──► broker executes ──response latency──► client
 *              │ drop-request: never executed          │ drop-response: executed, but the caller sees a lost connection
 */
import type { Random, Timers } from '../core/ports.ts'
import { BrokerRefusal, ConnectionLost } from './simulated-broker-error.ts'

/** One try of one call, as an interceptor sees it. */
export interface SimulatedCall {
  readonly clientId: string
  /** The request's name in Kafka's protocol, e.g. 'EndTxn'. */
  readonly api: string
  /** What the port's method was called with. */
  readonly args: readonly unknown[]
  /** 1, 2, … */
  readonly attempt: number
}

/**
 * What happens to a try:
 * - 'pass': nothing special
 * - 'drop-request': lost on the way; never executed
 * - 'drop-response': executed; the answer is lost
 * - 'duplicate': executed, and once more a moment later, as by an old connection
 * - { duplicateAfterMs }: the same, so much later
 * - { delayMs }, { responseDelayMs }: slow on the way there, or back
 * - { errorCode }: the broker refuses it with this code and does nothing
 * - { answerCode }: it is executed, and answered with this code all the same
 */
export type Interception =
  | 'pass'
  | 'drop-request'
  | 'drop-response'
  | 'duplicate'
  | { readonly duplicateAfterMs: number }
  | { readonly delayMs: number }
  | { readonly responseDelayMs: number }
  | { readonly errorCode: number }
  | { readonly answerCode: number }

/** A range of milliseconds, both ends included. */
export interface MsRange {
  readonly minMs: number
  readonly maxMs: number
}

/** Settings of the network. */
export interface NetworkOptions {
  readonly timers: Timers
  readonly random: Random
  /** One way. */
  readonly latency: MsRange
  /** How long a client takes to see that a connection is lost. */
  readonly lossDetection: MsRange
}

/** A whole number of milliseconds from the range. */
export function drawMs(random: Random, { minMs, maxMs }: MsRange): number {
  return minMs + Math.floor(random.next() * (maxMs - minMs + 1))
}

/** Carries calls. */
export class SimulatedNetwork {
  readonly #options: NetworkOptions
  readonly #isolated = new Set<string>()
  /** Decides the fate of each try; absent = everything passes. */
  intercept: ((call: SimulatedCall) => Interception) | undefined
  /** Hears of each answer without an error that reaches its client. */
  observe: ((call: SimulatedCall, answer: unknown) => void) | undefined

  constructor(options: NetworkOptions) {
    this.#options = options
  }

  /** From now on nothing that this client sends or is answered arrives. */
  isolate(clientId: string): void {
    this.#isolated.add(clientId)
  }

  /** Ends `isolate`. */
  reconnect(clientId: string): void {
    this.#isolated.delete(clientId)
  }

  /**
   * One try: the answer, or a throw of BrokerRefusal or ConnectionLost.
   * `isUp` is asked when the request arrives: a stopped broker takes no connection.
   */
  async carry<T>(call: SimulatedCall, isUp: () => boolean, execute: () => T | Promise<T>): Promise<T> {
    const fate = this.intercept?.(call) ?? 'pass'
    const options: {
      duplicateAfterMs?: number
      delayMs?: number
      responseDelayMs?: number
      errorCode?: number
      answerCode?: number
    } = typeof fate === 'object' ? fate : {}
    await this.#travel(options.delayMs ?? 0)
    if (fate === 'drop-request' || this.#isolated.has(call.clientId) || !isUp()) return this.#lose(call)
    if (options.errorCode !== undefined) throw new BrokerRefusal(options.errorCode, 'injected')
    if (fate === 'duplicate' || options.duplicateAfterMs !== undefined) {
      const afterMs = options.duplicateAfterMs ?? drawMs(this.#options.random, this.#options.latency)
      this.#options.timers.schedule(afterMs, () => this.#executeUnanswered(execute))
    }
    const outcome = await this.#outcome(execute)
    await this.#travel(options.responseDelayMs ?? 0)
    if (fate === 'drop-response' || this.#isolated.has(call.clientId)) return this.#lose(call)
    if ('refusal' in outcome) throw outcome.refusal
    if (options.answerCode !== undefined) throw new BrokerRefusal(options.answerCode, 'injected')
    this.observe?.(call, outcome.value)
    return outcome.value
  }

  async #outcome<T>(execute: () => T | Promise<T>): Promise<{ value: T } | { refusal: BrokerRefusal }> {
    try {
      return { value: await execute() }
    } catch (error) {
      if (error instanceof BrokerRefusal) return { refusal: error }
      throw error
    }
  }

  /** Nobody listens to the answer of a duplicate; a refusal is an answer, anything else is a defect and surfaces as an unhandled rejection. */
  #executeUnanswered<T>(execute: () => T | Promise<T>): void {
    void this.#outcome(execute)
  }

  async #travel(extraMs: number): Promise<void> {
    const ms = drawMs(this.#options.random, this.#options.latency) + extraMs
    if (ms > 0) await this.#options.timers.sleep(ms)
  }

  async #lose(call: SimulatedCall): Promise<never> {
    await this.#options.timers.sleep(drawMs(this.#options.random, this.#options.lossDetection))
    throw new ConnectionLost(`${call.api} of ${call.clientId}: the connection was lost`)
  }
}
