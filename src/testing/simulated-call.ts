/**
 * How a simulated client makes a call, as the port promises it: tries with back-off and jitter until the time is up, ends at close.
 *
 *   try ──answer──► resolved
 *    ▲ │ ──other refusal──► KafkaError with the broker's code
 *    │ └─ lost connection, or transient code ──► wait, unless the time is up: KafkaError, retriable
 *    └────────────────────────────────────────────┘
 */
import type { Clock, Random, Timers } from '../core/ports.ts'
import type { KafkaError } from '../errors.ts'
import { brokerError, isTransient, unreachable } from '../kafka/kafkajs/error-codes.ts'
import { BrokerRefusal, ConnectionLost } from './simulated-broker-error.ts'
import type { SimulatedNetwork } from './simulated-network.ts'

const DEFAULT_TIMEOUT_MS = 60_000
const FIRST_BACKOFF_MS = 10
const LONGEST_BACKOFF_MS = 1_000

/** One try, addressed: whether the broker takes it when it arrives, and what it does there. */
export interface Delivery<T> {
  isUp(): boolean
  execute(): T | Promise<T>
}

/** Words for messages; a function is asked only when something went wrong. */
export type Resource = string | (() => string)

/** A call to make. */
export interface CallSpec<T> {
  readonly api: string
  readonly args: readonly unknown[]
  /** What it is about, for messages: a topic, an id. */
  readonly resource: Resource
  /** 0 = one try. */
  readonly timeoutMs?: number | undefined
  /** Runs at the client before each try. */
  address(): Delivery<T> | Promise<Delivery<T>>
  /** The transient code inside an answer that makes it worth another try. */
  transientCode?(answer: T): number | undefined
  /** Told of each failed try that is repeated, e.g. to forget metadata. */
  onRetry?(): void
}

/** The calls of one client. */
export class SimulatedCaller {
  readonly clientId: string
  readonly #clock: Clock
  readonly #timers: Timers
  readonly #random: Random
  readonly #network: SimulatedNetwork
  readonly #pending = new Map<(error: KafkaError) => void, string>()
  #closed = false
  #killed = false
  #paused: Promise<void> | undefined
  #resume: (() => void) | undefined

  constructor(
    clientId: string,
    world: {
      readonly clock: Clock
      readonly timers: Timers
      readonly random: Random
      readonly network: SimulatedNetwork
    },
  ) {
    this.clientId = clientId
    this.#clock = world.clock
    this.#timers = world.timers
    this.#random = world.random
    this.#network = world.network
  }

  /** Pending and later calls reject. Requests on their way may still be executed. */
  close(): void {
    this.#closed = true
    for (const [reject, api] of this.#pending) reject(this.#closedError(api))
    this.#pending.clear()
  }

  /** The process of this client is dead: none of its calls is ever answered, no try is repeated. Requests on their way may still be executed. */
  kill(): void {
    this.#killed = true
    this.#pending.clear()
  }

  /** The process stands still: requests on their way are executed, but nothing is answered or sent until `resume`. */
  pause(): void {
    this.#paused ??= new Promise((resolve) => {
      this.#resume = resolve
    })
  }

  resume(): void {
    this.#resume?.()
    this.#paused = undefined
  }

  call<T>(spec: CallSpec<T>): Promise<T> {
    if (this.#killed) return new Promise(() => {})
    if (this.#closed) return Promise.reject(this.#closedError(spec.api))
    return new Promise((resolve, reject) => {
      this.#pending.set(reject, spec.api)
      const settle = (action: () => void): void => {
        // After close the caller has its answer already; after kill it never gets one.
        if (this.#pending.delete(reject)) action()
      }
      this.#tries(spec).then(
        (value) => settle(() => resolve(value)),
        (error: unknown) => settle(() => reject(error)),
      )
    })
  }

  async #tries<T>(spec: CallSpec<T>): Promise<T> {
    const deadline = this.#clock.now() + (spec.timeoutMs ?? DEFAULT_TIMEOUT_MS)
    let backoffMs = FIRST_BACKOFF_MS
    for (let attempt = 1; ; attempt++) {
      const call = { clientId: this.clientId, api: spec.api, args: spec.args, attempt }
      try {
        await this.#paused
        const { isUp, execute } = await spec.address()
        const answer = await this.#network.carry(call, isUp, execute)
        await this.#paused
        const code = spec.transientCode?.(answer)
        if (code === undefined) return answer
        throw new BrokerRefusal(code)
      } catch (error) {
        const lost = error instanceof ConnectionLost
        if (!lost && !(error instanceof BrokerRefusal)) throw error
        const failure = lost
          ? unreachable(spec.api, ['simulated'], error)
          : brokerError(spec.api, error.brokerCode, wordsOf(spec.resource), error.detail)
        if (!lost && !isTransient(error.brokerCode)) throw failure
        spec.onRetry?.()
        const waitMs = Math.ceil(backoffMs * (0.5 + this.#random.next() / 2))
        if (this.#killed || this.#closed || this.#clock.now() + waitMs > deadline) throw failure
        await this.#timers.sleep(waitMs)
        if (this.#killed || this.#closed) throw failure
        backoffMs = Math.min(LONGEST_BACKOFF_MS, backoffMs * 2)
      }
    }
  }

  #closedError(api: string): KafkaError {
    return unreachable(api, [], new Error('the client is closed'), false)
  }
}

function wordsOf(resource: Resource): string {
  return typeof resource === 'string' ? resource : resource()
}

/** Topics in words. */
export function namesOf(topics: readonly { readonly topic: string }[]): string {
  return topics.length === 0
    ? 'no topic'
    : [...new Set(topics.map(({ topic }) => `topic '${topic}'`))].join(', ')
}
