/**
 * Reads what `StructuredValueWriter` wrote. Stored bytes may be damaged or made to harm: whatever they say, reading ends, allocates in
 * proportion to the bytes that are there, and answers with a value or a StateLostError.
 */
import { StateLostError } from '../errors.ts'
import { makeTypedArray } from './structured-kinds.ts'
import { MAX_DEPTH, MAX_SHAPES, STRUCTURED_VALUE_VERSION, Tag } from './structured-value.ts'

/** Keys of a shape; an own `__proto__` must not be set by assignment. */
interface ReadShape {
  readonly keys: readonly string[]
  readonly plain: boolean
}

function setProperty(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key === '__proto__')
    Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true })
  else target[key] = value
}

/** Reads values one after the other from one block. */
export class StructuredValueReader {
  readonly #bytes: Buffer
  readonly #view: DataView
  readonly #end: number
  readonly #where: string
  readonly #shapes: ReadShape[] = []
  #at: number

  /**
   * `where` names the bytes in messages, e.g. "operator 'count', key group 3"; the block begins at `offset`.
   * @throws StateLostError if the block is of another format version
   */
  constructor(bytes: Uint8Array, where: string, offset = 0) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
    this.#end = bytes.length
    this.#where = where
    this.#at = offset
    const version = this.#byte()
    if (version !== STRUCTURED_VALUE_VERSION)
      this.#damaged(`format version ${version} is unknown to this release`)
  }

  /** True when every byte was read. */
  get atEnd(): boolean {
    return this.#at === this.#end
  }

  /** The next value. @throws StateLostError */
  read(): unknown {
    return this.#any(0)
  }

  /** A bare count of things that take at least `bytesEach` bytes; a larger one than the rest of the block can hold is damage. */
  readCount(bytesEach = 0): number {
    const count = this.#number()
    if (count * bytesEach > this.#end - this.#at) this.#damaged('a count exceeds the bytes that are left')
    return count
  }

  /** A bare double. */
  readDouble(): number {
    const at = this.#take(8)
    return this.#view.getFloat64(at, true)
  }

  #damaged(what: string): never {
    throw new StateLostError(
      'MILLRACE_STATE_LOST',
      `Stored state is damaged (${this.#where}): ${what}, at byte ${this.#at}`,
      {
        details: { where: this.#where, byte: this.#at },
      },
    )
  }

  /** Moves past `count` bytes and gives where they begin. */
  #take(count: number): number {
    const at = this.#at
    if (count > this.#end - at) this.#damaged(`${count} bytes are expected and ${this.#end - at} are left`)
    this.#at = at + count
    return at
  }

  #byte(): number {
    if (this.#at >= this.#end) this.#damaged('it ends too early')
    return this.#bytes[this.#at++]!
  }

  #number(): number {
    let byte = this.#byte()
    if (byte < 0x80) return byte
    let value = byte & 0x7f
    for (let factor = 128; byte > 0x7f; factor *= 128) {
      if (factor > 2 ** 49) this.#damaged('a number is too long')
      byte = this.#byte()
      value += (byte & 0x7f) * factor
    }
    return value
  }

  /** A string or a value that must be one. */
  #key(): string {
    const key = this.#any(MAX_DEPTH)
    if (typeof key !== 'string') this.#damaged('an object key is no string')
    return key
  }

  #any(depth: number): unknown {
    const tag = this.#byte()
    if (tag < Tag.SHORT_STRING) return tag
    if (tag >= Tag.SHORT_SHAPE) return this.#shaped(tag - Tag.SHORT_SHAPE, depth)
    if (tag < Tag.UNDEFINED) return this.#ascii(tag - Tag.SHORT_STRING)
    switch (tag) {
      case Tag.UNDEFINED:
        return undefined
      case Tag.NULL:
        return null
      case Tag.FALSE:
        return false
      case Tag.TRUE:
        return true
      case Tag.INT32: {
        const zigzag = this.#number()
        return (zigzag >>> 1) ^ -(zigzag & 1)
      }
      case Tag.DOUBLE:
        return this.readDouble()
      case Tag.BIGINT64:
        return this.#view.getBigInt64(this.#take(8), true)
      case Tag.BIGINT:
        return this.#bigint()
      case Tag.ASCII:
        return this.#ascii(this.#number())
      case Tag.UTF8: {
        const length = this.#number()
        const at = this.#take(length)
        return this.#bytes.toString('utf8', at, at + length)
      }
      case Tag.UTF16: {
        const length = this.#number() * 2
        const at = this.#take(length)
        return this.#bytes.toString('utf16le', at, at + length)
      }
      case Tag.DATE:
        return new Date(this.readDouble())
      default:
        return this.#container(tag, depth)
    }
  }

  #container(tag: number, depth: number): unknown {
    if (depth >= MAX_DEPTH) this.#damaged('values are nested too deep')
    switch (tag) {
      case Tag.UINT8_ARRAY:
        return new Uint8Array(this.#slice())
      case Tag.BUFFER:
        return Buffer.from(this.#slice())
      case Tag.TYPED_ARRAY: {
        const made = makeTypedArray(this.#byte(), this.#slice())
        if (made === undefined) this.#damaged('a typed array has an impossible kind or length')
        return made
      }
      case Tag.ARRAY: {
        const items: unknown[] = []
        for (let count = this.readCount(1); count > 0; count--) items.push(this.#any(depth + 1))
        return items
      }
      case Tag.NEW_SHAPE:
        return this.#newShape(depth)
      case Tag.SHAPE:
        return this.#shaped(this.#number(), depth)
      case Tag.KEYED_OBJECT: {
        const target: Record<string, unknown> = {}
        for (let count = this.readCount(2); count > 0; count--)
          setProperty(target, this.#key(), this.#any(depth + 1))
        return target
      }
      case Tag.MAP: {
        const map = new Map<unknown, unknown>()
        for (let count = this.readCount(2); count > 0; count--)
          map.set(this.#any(depth + 1), this.#any(depth + 1))
        return map
      }
      case Tag.SET: {
        const set = new Set<unknown>()
        for (let count = this.readCount(1); count > 0; count--) set.add(this.#any(depth + 1))
        return set
      }
      default:
        return this.#damaged(`tag 0x${tag.toString(16)} is unknown`)
    }
  }

  #ascii(length: number): string {
    const at = this.#take(length)
    return this.#bytes.toString('latin1', at, at + length)
  }

  /** A view of `n` bytes that the caller copies. */
  #slice(): Uint8Array {
    const length = this.#number()
    const at = this.#take(length)
    return this.#bytes.subarray(at, at + length)
  }

  #bigint(): bigint {
    const negative = this.#byte() === 1
    const digits = this.#ascii(this.#number())
    if (!/^[0-9a-f]+$/.test(digits)) this.#damaged('a bigint has no digits')
    const magnitude = BigInt(`0x${digits}`)
    return negative ? -magnitude : magnitude
  }

  #newShape(depth: number): unknown {
    const count = this.readCount(1)
    if (this.#shapes.length >= MAX_SHAPES) this.#damaged('it has too many shapes')
    const keys: string[] = []
    for (let i = 0; i < count; i++) keys.push(this.#key())
    this.#shapes.push({ keys, plain: !keys.includes('__proto__') })
    return this.#shaped(this.#shapes.length - 1, depth)
  }

  #shaped(id: number, depth: number): unknown {
    if (depth >= MAX_DEPTH) this.#damaged('values are nested too deep')
    const shape = this.#shapes[id]
    if (shape === undefined) this.#damaged(`shape ${id} is unknown`)
    const target: Record<string, unknown> = {}
    const keys = shape.keys
    if (shape.plain) for (let i = 0; i < keys.length; i++) target[keys[i]!] = this.#any(depth + 1)
    else for (const key of keys) setProperty(target, key, this.#any(depth + 1))
    return target
  }
}
