/**
 * Writes one Kafka request. Byte fields given to `raw` are kept as references and handed to the socket as they are:
 * a produce request of a megabyte copies no record.
 */
export class RequestWriter {
  #buffer = Buffer.allocUnsafe(512)
  /** Where the piece that is being written begins. */
  #start = 0
  /** Where the next byte goes. The first four bytes are for the size of the whole request. */
  #end = 4
  readonly #pieces: Buffer[] = []

  int8(value: number): this {
    const at = this.#take(1)
    this.#buffer.writeInt8(value, at)
    return this
  }

  bool(value: boolean): this {
    return this.int8(value ? 1 : 0)
  }

  int16(value: number): this {
    const at = this.#take(2)
    this.#buffer.writeInt16BE(value, at)
    return this
  }

  int32(value: number): this {
    const at = this.#take(4)
    this.#buffer.writeInt32BE(value, at)
    return this
  }

  int64(value: bigint): this {
    const at = this.#take(8)
    this.#buffer.writeBigInt64BE(value, at)
    return this
  }

  uvarint(value: number): this {
    let rest = value
    while (rest > 0x7f) {
      this.#byte((rest & 0x7f) | 0x80)
      rest >>>= 7
    }
    this.#byte(rest)
    return this
  }

  string(value: string): this {
    const bytes = Buffer.byteLength(value)
    this.int16(bytes)
    const at = this.#take(bytes)
    this.#buffer.write(value, at)
    return this
  }

  nullableString(value: string | null): this {
    return value === null ? this.int16(-1) : this.string(value)
  }

  compactString(value: string): this {
    const bytes = Buffer.byteLength(value)
    this.uvarint(bytes + 1)
    const at = this.#take(bytes)
    this.#buffer.write(value, at)
    return this
  }

  bytes(value: Buffer): this {
    return this.int32(value.length).raw(value)
  }

  array<T>(values: readonly T[], write: (value: T) => void): this {
    this.int32(values.length)
    for (const value of values) write(value)
    return this
  }

  compactArray<T>(values: readonly T[], write: (value: T) => void): this {
    this.uvarint(values.length + 1)
    for (const value of values) write(value)
    return this
  }

  /** An empty section of tagged fields; ends every structure of a flexible version. */
  tags(): this {
    return this.#byte(0)
  }

  /** Adds bytes without copying them: they must not change until the answer is there. */
  raw(value: Buffer): this {
    this.#pieces.push(this.#buffer.subarray(this.#start, this.#end), value)
    this.#start = this.#end
    return this
  }

  /** The finished request, its size in front. The writer must not be used any more. */
  finish(): readonly Buffer[] {
    this.#pieces.push(this.#buffer.subarray(this.#start, this.#end))
    let size = -4
    for (const piece of this.#pieces) size += piece.length
    this.#pieces[0]?.writeInt32BE(size, 0)
    return this.#pieces
  }

  #byte(value: number): this {
    const at = this.#take(1)
    this.#buffer[at] = value
    return this
  }

  #take(bytes: number): number {
    if (this.#end + bytes > this.#buffer.length) {
      const written = this.#end - this.#start
      const bigger = Buffer.allocUnsafe(Math.max(512, 2 * (written + bytes)))
      this.#buffer.copy(bigger, 0, this.#start, this.#end)
      this.#buffer = bigger
      this.#start = 0
      this.#end = written
    }
    const at = this.#end
    this.#end += bytes
    return at
  }
}
