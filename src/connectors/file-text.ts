/** Text of a file on its way, as UTF-8 in one buffer that grows and is used again. */

const FIRST_BYTES = 16 * 1024
/** UTF-8 needs at most this many bytes for one UTF-16 unit. */
const BYTES_PER_UNIT = 3

/** Collects text and bytes. What `take` returns is valid until the next call. */
export class TextBuffer {
  #buffer = Buffer.allocUnsafe(FIRST_BYTES)
  #length = 0

  get length(): number {
    return this.#length
  }

  /** Lone surrogates become U+FFFD, as everywhere in UTF-8. */
  append(text: string): void {
    this.#room(text.length * BYTES_PER_UNIT)
    this.#length += this.#buffer.write(text, this.#length, 'utf8')
  }

  appendBytes(bytes: Uint8Array): void {
    this.#room(bytes.length)
    this.#buffer.set(bytes, this.#length)
    this.#length += bytes.length
  }

  take(): Uint8Array {
    const taken = this.#buffer.subarray(0, this.#length)
    this.#length = 0
    return taken
  }

  #room(bytes: number): void {
    const needed = this.#length + bytes
    if (needed <= this.#buffer.length) return
    const grown = Buffer.allocUnsafe(Math.max(needed, this.#buffer.length * 2))
    this.#buffer.copy(grown, 0, 0, this.#length)
    this.#buffer = grown
  }
}
