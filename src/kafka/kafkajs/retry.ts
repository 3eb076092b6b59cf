import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../core/ports.ts'
import { KafkaError } from '../../errors.ts'
import { KafkaCode } from '../kafka-cluster.ts'
import { unreachable } from './error-codes.ts'

const DEFAULT_TIMEOUT_MS = 60_000
const FIRST_DELAY_MS = 25
/** Markers of the last transaction are written within a few milliseconds, and a commit waits for this. */
const FIRST_DELAY_CONCURRENT_MS = 3
const MAX_DELAY_MS = 1_000
/** Passing trouble is worth a log line when it lasts this long. */
const WARN_AFTER_MS = 5_000

/** True for trouble that may pass by itself. */
export function isRetriable(error: unknown): error is KafkaError {
  return error instanceof KafkaError && error.retriable
}

/**
 * Repeats what failed for a passing reason, with back-off and jitter, until its time is up or the cluster is closed.
 * One of these belongs to one cluster object: `close` ends all waiting at once.
 */
export class Retry {
  readonly #closing = new AbortController()
  readonly #logger: Logger

  constructor(logger: Logger) {
    this.#logger = logger
  }

  get closed(): boolean {
    return this.#closing.signal.aborted
  }

  close(): void {
    this.#closing.abort()
  }

  /** What a call rejects with once the cluster is closed. */
  closedError(api: string): KafkaError {
    return unreachable(api, [], new Error('this client was closed'), false)
  }

  /**
   * Runs `attempt` until it succeeds or fails for good.
   * @param timeoutMs how long passing trouble is retried; 0 = one try
   * @throws the last error; brokers that gave no answer in any try are all named.
   */
  async run<T>(
    api: string,
    timeoutMs: number | undefined,
    attempt: (remainingMs: number, tries: number) => Promise<T>,
  ): Promise<T> {
    const begun = Date.now()
    const deadline = begun + (timeoutMs ?? DEFAULT_TIMEOUT_MS)
    let warned = false
    const silent = new Set<string>()
    for (let tries = 0; ; tries++) {
      if (this.closed) throw this.closedError(api)
      try {
        return await attempt(Math.max(0, deadline - Date.now()), tries)
      } catch (error) {
        if (this.closed) throw this.closedError(api)
        if (!isRetriable(error)) throw error
        for (const broker of silentBrokers(error)) silent.add(broker)
        const delay = delayAfter(error, tries)
        if (Date.now() + delay > deadline)
          throw error.code === 'MILLRACE_KAFKA_UNREACHABLE'
            ? unreachable(api, [...silent], error.cause ?? error)
            : error
        if (!warned && Date.now() - begun > WARN_AFTER_MS) {
          warned = true
          this.#logger.warn(
            `${api} has not succeeded for ${Math.round((Date.now() - begun) / 1000)} s; trying again`,
            { reason: error.message },
          )
        }
        await this.pause(api, delay)
      }
    }
  }

  /** Waits, but not longer than until the cluster is closed. */
  async pause(api: string, ms: number): Promise<void> {
    try {
      await sleep(ms, undefined, { signal: this.#closing.signal })
    } catch (error) {
      if (this.closed) throw this.closedError(api)
      throw error
    }
  }
}

function delayAfter(error: KafkaError, tries: number): number {
  const first =
    error.brokerCode === KafkaCode.CONCURRENT_TRANSACTIONS ? FIRST_DELAY_CONCURRENT_MS : FIRST_DELAY_MS
  return Math.min(MAX_DELAY_MS, first * 2 ** Math.min(tries, 20)) * (0.75 + Math.random() / 2)
}

function silentBrokers(error: KafkaError): readonly string[] {
  const brokers = error.details['brokers']
  return Array.isArray(brokers) ? brokers : []
}
