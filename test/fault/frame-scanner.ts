/** Finds where frames begin in a stream of Kafka's: each is a length of four bytes and so many bytes more. */
export class FrameScanner {
  readonly #head: Buffer
  readonly #onHead: (head: Buffer) => void
  /** Bytes of the frame's head that have come. */
  #filled = 0
  /** Bytes of the frame that are still to come, behind its head. */
  #left = 0

  /** `onHead` gets the first `headBytes` bytes of each frame, its length among them; no frame may be shorter. */
  constructor(headBytes: number, onHead: (head: Buffer) => void) {
    this.#head = Buffer.alloc(headBytes)
    this.#onHead = onHead
  }

  scan(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.#left > 0) {
        const skipped = Math.min(this.#left, chunk.length - at)
        this.#left -= skipped
        at += skipped
        continue
      }
      const copied = chunk.copy(this.#head, this.#filled, at)
      this.#filled += copied
      at += copied
      if (this.#filled < this.#head.length) return
      this.#filled = 0
      this.#left = this.#head.readInt32BE(0) + 4 - this.#head.length
      this.#onHead(this.#head)
    }
  }
}
