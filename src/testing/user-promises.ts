/**
 * Promises that functions and sinks of the job wait for. Virtual time does not move them on: a real timer, a socket or a file does. So while one is
 * pending the clock of a test stands still and real time passes.
 *
 *   note ──► pending ──settles──► (forgotten)
 *               └── nothing settles for `patienceMs` real milliseconds ──► MILLRACE_TEST_DRIVER
 */
import { clearTimeout, setTimeout } from 'node:timers'
import { MillraceError } from '../errors.ts'

interface Waiting {
  readonly whose: string
  /** True while it waits for something that the clock of the test brings, e.g. room downstream. */
  readonly waitsForClock: () => boolean
}

/** What functions of one worker wait for. */
export class UserPromises {
  readonly #patienceMs: number
  readonly #pending = new Map<PromiseLike<unknown>, Waiting>()
  #settled = Promise.withResolvers<void>()

  /** `patienceMs`: how long nothing may settle, in real milliseconds. */
  constructor(patienceMs: number) {
    this.#patienceMs = patienceMs
  }

  /** True if something is waited for that no microtask settled. */
  get pending(): boolean {
    for (const { waitsForClock } of this.#pending.values()) if (!waitsForClock()) return true
    return false
  }

  /** Hears of a promise; `whose` is for messages. */
  note(promise: PromiseLike<unknown>, whose: string, waitsForClock: () => boolean = () => false): void {
    this.#pending.set(promise, { whose, waitsForClock })
    const forget = (): void => {
      this.#pending.delete(promise)
      this.#settled.resolve()
    }
    promise.then(forget, forget)
  }

  /** Resolves when one more has settled. @throws MILLRACE_TEST_DRIVER naming whose promises are pending when that takes too long. */
  async nextSettled(): Promise<void> {
    if (!this.pending) return
    this.#settled = Promise.withResolvers()
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(() => late.reject(this.#stuck()), this.#patienceMs)
    try {
      await Promise.race([this.#settled.promise, late.promise])
    } finally {
      clearTimeout(timer)
    }
  }

  #stuck(): MillraceError {
    return new MillraceError(
      'MILLRACE_TEST_DRIVER',
      `the test waited ${this.#patienceMs} ms of real time for a promise of ${this.#names()}`,
      {
        remedy:
          'Let the promise settle, or raise realWaitMs. A promise that waits for the clock of the test must use timers of the function.',
      },
    )
  }

  #names(): string {
    const functions = [...this.#pending.values()].filter(({ waitsForClock }) => !waitsForClock())
    return [...new Set(functions.map(({ whose }) => whose))].join(' and ')
  }
}
