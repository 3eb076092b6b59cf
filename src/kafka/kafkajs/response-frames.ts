/** An answer cannot be larger: a length beyond this is the first bytes of something that is not Kafka. */
const MAX_FRAME_BYTES = 1 << 30
const LENGTH_BYTES = 4

/**
 * Cuts what arrives on a socket into answers. Each is copied once, into a buffer of exactly its size, as it arrives: a fetch
 * of some megabytes is held in memory once and never as a list of chunks.
 */
export class ResponseFrames {
  readonly #deliver: (frame: Buffer) => void
  readonly #length = Buffer.alloc(LENGTH_BYTES)
  #frame: Buffer | undefined
  /** Bytes of the frame, or of its length, that are there. */
  #filled = 0

  /** @param deliver gets each answer without the length in front; the buffer is its own. */
  constructor(deliver: (frame: Buffer) => void) {
    this.#deliver = deliver
  }

  /** Takes the next bytes; they may be overwritten afterwards. @throws RangeError if they cannot be Kafka's. */
  take(chunk: Buffer): void {
    let at = 0
    while (at < chunk.length) {
      const target = this.#frame ?? this.#length
      const copied = chunk.copy(target, this.#filled, at)
      at += copied
      this.#filled += copied
      if (this.#filled < target.length) continue
      this.#filled = 0
      if (this.#frame === undefined) this.#frame = newFrame(this.#length.readInt32BE(0))
      if (target === this.#frame || this.#frame.length === 0) {
        const frame = this.#frame
        this.#frame = undefined
        this.#deliver(frame)
      }
    }
  }
}

function newFrame(length: number): Buffer {
  if (length < 0 || length > MAX_FRAME_BYTES)
    throw new RangeError(
      `the other side announces an answer of ${length} bytes: it is not a Kafka broker, or it wants TLS`,
    )
  return Buffer.allocUnsafe(length)
}
