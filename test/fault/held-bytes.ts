/**
 * The bytes of one direction of a connection on their way through the proxy: they arrive in order, at once, later, or when a hold ends.
 *
 *   source ──push──► waiting (due at a time; not while held) ──► target          end of the source waits in the same line
 */
import type { Socket } from 'node:net'

/** More than this does not wait here but in the sender's socket, as with any network. */
const MOST_BYTES = 8 << 20

interface Waiting {
  /** Undefined: the source has ended. */
  readonly bytes: Buffer | undefined
  readonly due: number
}

export class HeldBytes {
  readonly #source: Socket
  readonly #target: Socket
  readonly #waiting: Waiting[] = []
  #bytes = 0
  #held = false
  #delayMs = 0
  #ended = false
  #timer: NodeJS.Timeout | undefined

  constructor(source: Socket, target: Socket) {
    this.#source = source
    this.#target = target
  }

  push(bytes: Buffer): void {
    if (this.#ended) return
    this.#bytes += bytes.length
    this.#line(bytes)
    if (this.#bytes > MOST_BYTES) this.#source.pause()
  }

  /** Nothing comes any more; the target hears of it behind what still waits. */
  end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#line(undefined)
  }

  /** Whether bytes wait, and how long each takes. */
  obey(held: boolean, delayMs: number): void {
    this.#held = held
    this.#delayMs = delayMs
    this.#move()
  }

  /** What waits is lost. */
  discard(): void {
    this.#ended = true
    this.#waiting.length = 0
    clearTimeout(this.#timer)
  }

  #line(bytes: Buffer | undefined): void {
    this.#waiting.push({ bytes, due: Date.now() + this.#delayMs })
    this.#move()
  }

  #move(): void {
    clearTimeout(this.#timer)
    while (!this.#held) {
      const first = this.#waiting[0]
      if (first === undefined) break
      const early = first.due - Date.now()
      if (early > 0) {
        this.#timer = setTimeout(() => this.#move(), early)
        break
      }
      this.#waiting.shift()
      this.#deliver(first.bytes)
    }
    if (this.#bytes <= MOST_BYTES && this.#source.isPaused()) this.#source.resume()
  }

  /** A target that is gone gets nothing, as on any network. */
  #deliver(bytes: Buffer | undefined): void {
    this.#bytes -= bytes?.length ?? 0
    if (this.#target.destroyed || this.#target.writableEnded) return
    if (bytes !== undefined) this.#target.write(bytes)
    else if (this.#source.errored === null) this.#target.end()
    else this.#target.destroy()
  }
}
