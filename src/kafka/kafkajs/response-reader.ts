/** Reads one Kafka response. Byte fields are views into the response: nothing is copied. */
export class ResponseReader {
  readonly #buffer: Buffer
  #at = 0

  constructor(buffer: Buffer) {
    this.#buffer = buffer
  }

  int8(): number {
    const value = this.#buffer.readInt8(this.#at)
    this.#at += 1
    return value
  }

  bool(): boolean {
    return this.int8() !== 0
  }

  int16(): number {
    const value = this.#buffer.readInt16BE(this.#at)
    this.#at += 2
    return value
  }

  int32(): number {
    const value = this.#buffer.readInt32BE(this.#at)
    this.#at += 4
    return value
  }

  int64(): bigint {
    const value = this.#buffer.readBigInt64BE(this.#at)
    this.#at += 8
    return value
  }

  uvarint(): number {
    let value = 0
    for (let shift = 0; ; shift += 7) {
      const byte = this.#buffer.readUInt8(this.#at++)
      value |= (byte & 0x7f) << shift
      if (byte < 0x80) return value >>> 0
    }
  }

  /** A uuid in Kafka's base64 form. */
  uuid(): string {
    return this.#view(16).toString('base64url')
  }

  string(): string {
    return this.#text(this.int16())
  }

  nullableString(): string | null {
    const length = this.int16()
    return length < 0 ? null : this.#text(length)
  }

  compactString(): string {
    return this.#text(this.uvarint() - 1)
  }

  compactNullableString(): string | null {
    const length = this.uvarint() - 1
    return length < 0 ? null : this.#text(length)
  }

  /** Bytes with a 32-bit length; null gives an empty buffer. */
  bytes(): Buffer {
    const length = this.int32()
    return this.#view(Math.max(length, 0))
  }

  /** An array with a 32-bit length; null gives an empty array. */
  array<T>(read: () => T): T[] {
    const length = this.int32()
    const values: T[] = []
    for (let i = 0; i < length; i++) values.push(read())
    return values
  }

  /** An array of a flexible version; null gives an empty array. */
  compactArray<T>(read: () => T): T[] {
    const length = this.uvarint() - 1
    const values: T[] = []
    for (let i = 0; i < length; i++) values.push(read())
    return values
  }

  /** Skips the tagged fields that end a structure of a flexible version. */
  tags(): void {
    const count = this.uvarint()
    for (let i = 0; i < count; i++) {
      this.uvarint()
      const size = this.uvarint()
      this.#view(size)
    }
  }

  #text(length: number): string {
    const value = this.#buffer.toString('utf8', this.#at, this.#at + length)
    this.#at += length
    return value
  }

  #view(length: number): Buffer {
    const from = this.#at
    this.#at += length
    if (this.#at > this.#buffer.length)
      throw new RangeError(`the response ends ${this.#at - this.#buffer.length} bytes too early`)
    return this.#buffer.subarray(from, this.#at)
  }
}
