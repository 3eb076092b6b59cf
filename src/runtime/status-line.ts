/**
 * A terminal whose last line is a status that is drawn over and over, while log lines scroll above it.
 * What must hold: whoever writes to the terminal, the status is cleared before and drawn again after, so that it never mixes with their text.
 */

/** What a status line needs of a stream; `process.stderr` is one. */
export interface TextStream {
  write(text: string): unknown
  readonly isTTY?: boolean | undefined
  readonly columns?: number | undefined
}

/** To the first column, and everything on the line away. */
const CLEAR = '\r\u001b[2K'
/** Used when the terminal does not tell its width. */
const DEFAULT_COLUMNS = 80

/** A stream with a status as its last line if it is a terminal; a plain stream otherwise. */
export class StatusLine implements TextStream {
  /** True if a status can be shown. */
  readonly isTTY: boolean
  readonly #stream: TextStream
  #status = ''
  #release: (() => void) | undefined

  constructor(stream: TextStream) {
    this.#stream = stream
    this.isTTY = stream.isTTY === true
  }

  get columns(): number {
    return this.#stream.columns ?? DEFAULT_COLUMNS
  }

  /** Writes whole lines above the status. */
  write(text: string): void {
    this.#stream.write(this.#status === '' ? text : `${CLEAR}${text}${this.#drawn()}`)
  }

  /** Replaces the status; an empty text takes it away. Does nothing unless the stream is a terminal. */
  show(status: string): void {
    if (!this.isTTY || status === this.#status) return
    this.#status = status.replaceAll('\n', ' ')
    this.#stream.write(`${CLEAR}${this.#drawn()}`)
  }

  /**
   * Makes room whenever the program writes to `other`, the same terminal under another name (print() and console.log go to stdout).
   * Ends with `close`.
   */
  shareWith(other: TextStream): void {
    if (!this.isTTY || other.isTTY !== true || this.#release !== undefined) return
    const original = other.write
    const around = (...args: unknown[]): unknown => {
      if (this.#status === '') return Reflect.apply(original, other, args)
      this.#stream.write(CLEAR)
      const result = Reflect.apply(original, other, args)
      // Half a line keeps the cursor; the status comes back with the next full one.
      if (typeof args[0] === 'string' && args[0].endsWith('\n')) this.#stream.write(this.#drawn())
      return result
    }
    other.write = around as typeof original
    this.#release = () => {
      if (other.write === around) other.write = original
    }
  }

  /** Takes the status away and leaves the terminal as it was found. */
  close(): void {
    this.show('')
    this.#release?.()
    this.#release = undefined
  }

  /** The status cut to one line: a wrapped one could not be cleared. */
  #drawn(): string {
    const room = this.columns - 1
    return this.#status.length <= room ? this.#status : `${this.#status.slice(0, Math.max(0, room - 1))}…`
  }
}
