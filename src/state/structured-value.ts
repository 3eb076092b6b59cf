/**
 * Bytes of structured values: what state, checkpoints and frames hold. Format 1, held by test/compat/structured-value.json.
 *
 * A block is the version byte 01 and values one after the other; what they are for is known to whoever reads the block. A value is one
 * tag byte and what belongs to it; `n` is an unsigned LEB128 number of at most 53 bits; multi-byte numbers are little-endian.
 *
 *   00–3f integers 0–63            40–5f ASCII string of 0–31 bytes     80–ff object of shape 0–127
 *   60 undefined  61 null  62 false  63 true       64 integer of 32 bits, zigzag n      65 double, 8 bytes
 *   66 bigint of 64 bits, 8 bytes  67 other bigint: sign byte, n, hexadecimal digits
 *   68 ASCII string: n, bytes      69 string in UTF-8: n, bytes         6a other string: n, UTF-16 units
 *   6b Date: double                6c Uint8Array: n, bytes              6d Buffer: n, bytes
 *   6e typed array or ArrayBuffer: kind byte, n, bytes                  6f array: n, values
 *   70 object of a new shape: n, that many key strings, then values     71 object of a shape above 127: n, values
 *   72 object without a shape: n, then key and value in turn            73 Map: n, key and value in turn     74 Set: n, values
 *
 * A shape is the list of an object's keys in order; it is written once a block and numbered from 0.
 * Kept: undefined, NaN, -0, bigint, Date, Map, Set, bytes, lone surrogates. Not kept: symbol keys, holes (they become undefined),
 * properties of arrays, sharing of one object by two places. Refused: class instances, functions, symbols, cycles.
 */
import { types } from 'node:util'
import { refusalOf } from './refused-value.ts'
import { bytesOfView, isObjectPrototype, typedArrayKind } from './structured-kinds.ts'

/** First byte of every block. */
export const STRUCTURED_VALUE_VERSION = 1
/** Nesting deeper than this is refused when written and damaged when read. */
export const MAX_DEPTH = 512
/** Objects with more keys are dictionaries, not records: their keys are written in place. */
export const MAX_SHAPE_KEYS = 64
/** Shapes a block may have; further objects are written with their keys. */
export const MAX_SHAPES = 4096
/** A writer that is used again keeps no larger buffer. */
const REUSED_BYTES = 64 * 1024

/** The tag bytes of format 1. */
export const Tag = {
  SHORT_STRING: 0x40,
  UNDEFINED: 0x60,
  NULL: 0x61,
  FALSE: 0x62,
  TRUE: 0x63,
  INT32: 0x64,
  DOUBLE: 0x65,
  BIGINT64: 0x66,
  BIGINT: 0x67,
  ASCII: 0x68,
  UTF8: 0x69,
  UTF16: 0x6a,
  DATE: 0x6b,
  UINT8_ARRAY: 0x6c,
  BUFFER: 0x6d,
  TYPED_ARRAY: 0x6e,
  ARRAY: 0x6f,
  NEW_SHAPE: 0x70,
  SHAPE: 0x71,
  KEYED_OBJECT: 0x72,
  MAP: 0x73,
  SET: 0x74,
  SHORT_SHAPE: 0x80,
} as const

interface Shape {
  /** Its number in the block that `block` says. */
  id: number
  block: number
  readonly keys: readonly string[]
}

/** A step in the tree of shapes: keys seen so far, in order. */
class ShapeNode {
  readonly next = new Map<string, ShapeNode>()
  shape: Shape | undefined
}

/** Thrown inside the writer; `write` turns it into a StateValueError that names the place. */
class Refused extends Error {}

const int64Min = -(2n ** 63n)
const int64Max = 2n ** 63n - 1n

/**
 * Writes values into one block. After a value was refused the block is spoilt: `finish` throws that error again, so that half a value
 * is never stored.
 */
export class StructuredValueWriter {
  #buffer: Buffer
  #view: DataView
  #at: number
  readonly #headroom: number
  #root = new ShapeNode()
  /** Nodes below the root. */
  #nodes = 0
  #shapes = 0
  /** The last shape met at each depth: runs of equal objects find theirs without the tree. */
  readonly #lastShapes: (Shape | undefined)[] = []
  #failure: unknown
  /** Number of blocks begun; shapes of earlier ones are defined anew. */
  #block = 0

  /** `headroom` bytes are left free at the front of the result, for the header of whatever contains the block. */
  constructor(options: { headroom?: number; initialBytes?: number } = {}) {
    this.#headroom = options.headroom ?? 0
    this.#buffer = Buffer.allocUnsafeSlow(Math.max(16, options.initialBytes ?? 256) + this.#headroom)
    this.#view = new DataView(this.#buffer.buffer)
    this.#buffer.fill(0, 0, this.#headroom)
    this.#at = this.#headroom
    this.#buffer[this.#at++] = STRUCTURED_VALUE_VERSION
  }

  /** Bytes so far, headroom and version byte included. */
  get length(): number {
    return this.#at
  }

  /**
   * Appends a value. `stateName` is for the message only.
   * @throws StateValueError naming the state and the path to what cannot be kept
   */
  write(value: unknown, stateName?: string): void {
    try {
      this.#any(value, 0)
    } catch (error) {
      this.#failure = (error instanceof Refused && refusalOf(value, stateName, MAX_DEPTH)) || error
      throw this.#failure
    }
  }

  /** Appends a bare count, to be read by `readCount`: lists of values that are no value themselves. */
  writeCount(count: number): void {
    this.#reserve(9)
    this.#count(count)
  }

  /** Appends a bare double, to be read by `readDouble`. */
  writeDouble(value: number): void {
    this.#reserve(8)
    this.#view.setFloat64(this.#at, value, true)
    this.#at += 8
  }

  /** The block as bytes of its own. The writer can go on; a later `finish` holds more. */
  finish(): Uint8Array {
    if (this.#failure !== undefined) throw this.#failure
    return Uint8Array.prototype.slice.call(this.#buffer, 0, this.#at)
  }

  /** The same for one of many small blocks: small ones share a buffer, which stays as long as any of them. */
  finishShared(): Uint8Array {
    if (this.#failure !== undefined) throw this.#failure
    const bytes = Buffer.allocUnsafe(this.#at)
    this.#buffer.copy(bytes, 0, 0, this.#at)
    return bytes
  }

  /** Begins another block and forgets the one before: many small blocks need one writer. */
  reset(): void {
    this.#block++
    this.#shapes = 0
    this.#failure = undefined
    if (this.#nodes > MAX_SHAPES) {
      this.#root = new ShapeNode()
      this.#nodes = 0
      this.#lastShapes.length = 0
    }
    if (this.#buffer.length > REUSED_BYTES) {
      this.#buffer = Buffer.allocUnsafeSlow(REUSED_BYTES)
      this.#view = new DataView(this.#buffer.buffer)
    }
    this.#buffer.fill(0, 0, this.#headroom)
    this.#at = this.#headroom
    this.#buffer[this.#at++] = STRUCTURED_VALUE_VERSION
  }

  #reserve(count: number): void {
    const needed = this.#at + count
    if (needed <= this.#buffer.length) return
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.#buffer.length * 2))
    this.#buffer.copy(grown, 0, 0, this.#at)
    this.#buffer = grown
    this.#view = new DataView(grown.buffer)
  }

  /** The caller has reserved the room. */
  #count(count: number): void {
    let rest = count
    for (; rest > 0x7f; rest = rest > 0x7fffffff ? Math.floor(rest / 128) : rest >>> 7)
      this.#buffer[this.#at++] = (rest & 0x7f) | 0x80
    this.#buffer[this.#at++] = rest
  }

  #tagAndCount(tag: number, count: number): void {
    this.#reserve(10)
    this.#buffer[this.#at++] = tag
    this.#count(count)
  }

  #tag(tag: number): void {
    this.#reserve(1)
    this.#buffer[this.#at++] = tag
  }

  #any(value: unknown, depth: number): void {
    switch (typeof value) {
      case 'string':
        this.#string(value)
        return
      case 'number':
        this.#number(value)
        return
      case 'object':
        if (value === null) this.#tag(Tag.NULL)
        else this.#reference(value, depth)
        return
      case 'boolean':
        this.#tag(value ? Tag.TRUE : Tag.FALSE)
        return
      case 'undefined':
        this.#tag(Tag.UNDEFINED)
        return
      case 'bigint':
        this.#bigint(value)
        return
      default:
        throw new Refused()
    }
  }

  #number(value: number): void {
    this.#reserve(9)
    if ((value | 0) === value && (value !== 0 || 1 / value > 0)) {
      if (value >= 0 && value < Tag.SHORT_STRING) {
        this.#buffer[this.#at++] = value
        return
      }
      this.#buffer[this.#at++] = Tag.INT32
      this.#count(((value << 1) ^ (value >> 31)) >>> 0)
      return
    }
    this.#buffer[this.#at] = Tag.DOUBLE
    this.#view.setFloat64(this.#at + 1, value, true)
    this.#at += 9
  }

  #bigint(value: bigint): void {
    if (value >= int64Min && value <= int64Max) {
      this.#reserve(9)
      this.#buffer[this.#at] = Tag.BIGINT64
      this.#view.setBigInt64(this.#at + 1, value, true)
      this.#at += 9
      return
    }
    const digits = (value < 0n ? -value : value).toString(16)
    this.#reserve(11 + digits.length)
    this.#buffer[this.#at++] = Tag.BIGINT
    this.#buffer[this.#at++] = value < 0n ? 1 : 0
    this.#count(digits.length)
    this.#at += this.#buffer.write(digits, this.#at, 'latin1')
  }

  #string(text: string): void {
    const length = text.length
    if (length < 32) {
      this.#reserve(length + 1)
      const buffer = this.#buffer
      const start = this.#at + 1
      let i = 0
      for (; i < length; i++) {
        const c = text.charCodeAt(i)
        if (c > 0x7f) break
        buffer[start + i] = c
      }
      if (i === length) {
        buffer[this.#at] = Tag.SHORT_STRING | length
        this.#at = start + length
        return
      }
    }
    if (!text.isWellFormed()) {
      this.#reserve(10 + length * 2)
      this.#buffer[this.#at++] = Tag.UTF16
      this.#count(length)
      this.#at += this.#buffer.write(text, this.#at, 'utf16le')
      return
    }
    const bytes = Buffer.byteLength(text, 'utf8')
    this.#reserve(10 + bytes)
    this.#buffer[this.#at++] = bytes === length ? Tag.ASCII : Tag.UTF8
    this.#count(bytes)
    this.#at += this.#buffer.write(text, this.#at, bytes === length ? 'latin1' : 'utf8')
  }

  #reference(value: object, depth: number): void {
    if (depth >= MAX_DEPTH) throw new Refused()
    const prototype: object | null = Object.getPrototypeOf(value)
    if (prototype === Object.prototype || prototype === null)
      this.#object(value as Record<string, unknown>, depth)
    else if (Array.isArray(value)) this.#array(value, prototype, depth)
    else if (isObjectPrototype(prototype)) this.#object(value as Record<string, unknown>, depth)
    else this.#builtIn(value, prototype, depth)
  }

  #array(value: readonly unknown[], prototype: object, depth: number): void {
    // A subclass of Array has a prototype that is no array itself, or whose own prototype is one.
    if (!isObjectPrototype(Object.getPrototypeOf(prototype))) throw new Refused()
    this.#tagAndCount(Tag.ARRAY, value.length)
    for (let i = 0; i < value.length; i++) this.#any(value[i], depth + 1)
  }

  #object(value: Record<string, unknown>, depth: number): void {
    const keys = Object.keys(value)
    const shape = this.#lastShapes[depth]
    if (shape !== undefined && shape.block === this.#block && shape.keys.length === keys.length) {
      const known = shape.keys
      let i = 0
      while (i < keys.length && keys[i] === known[i]) i++
      if (i === keys.length) {
        this.#shapeTag(shape.id)
        for (let k = 0; k < known.length; k++) this.#any(value[known[k]!], depth + 1)
        return
      }
    }
    this.#lastShapes[depth] = this.#startObject(keys)
    if (this.#lastShapes[depth] !== undefined) for (const key of keys) this.#any(value[key], depth + 1)
    else {
      this.#tagAndCount(Tag.KEYED_OBJECT, keys.length)
      for (const key of keys) {
        this.#string(key)
        this.#any(value[key], depth + 1)
      }
    }
  }

  #shapeTag(id: number): void {
    if (id < 0x80) this.#tag(Tag.SHORT_SHAPE | id)
    else this.#tagAndCount(Tag.SHAPE, id)
  }

  /** Writes the tag of the object's shape, defining it if it is new; undefined (nothing written) if it gets none. */
  #startObject(keys: readonly string[]): Shape | undefined {
    if (keys.length > MAX_SHAPE_KEYS) return undefined
    let node = this.#root
    for (let i = 0; i < keys.length; i++) {
      let next = node.next.get(keys[i]!)
      if (next === undefined) {
        if (this.#shapes >= MAX_SHAPES) return undefined
        next = new ShapeNode()
        this.#nodes++
        node.next.set(keys[i]!, next)
      }
      node = next
    }
    const known = node.shape
    if (known !== undefined && known.block === this.#block) {
      this.#shapeTag(known.id)
      return known
    }
    if (this.#shapes >= MAX_SHAPES) return undefined
    if (known === undefined) node.shape = { id: this.#shapes++, block: this.#block, keys }
    else {
      known.id = this.#shapes++
      known.block = this.#block
    }
    this.#tagAndCount(Tag.NEW_SHAPE, keys.length)
    for (const key of keys) this.#string(key)
    return node.shape
  }

  #builtIn(value: object, prototype: object, depth: number): void {
    const parent: object | null = Object.getPrototypeOf(prototype)
    if (ArrayBuffer.isView(value) || types.isArrayBuffer(value)) {
      this.#bytes(value as ArrayBufferView | ArrayBuffer)
      return
    }
    // A subclass of Map, Set or Date: its prototype's prototype is that of the built-in.
    if (parent === null || !isObjectPrototype(parent)) throw new Refused()
    if (types.isDate(value)) {
      this.#tag(Tag.DATE)
      this.writeDouble(value.getTime())
    } else if (types.isMap(value)) {
      this.#tagAndCount(Tag.MAP, value.size)
      for (const [key, item] of value) {
        this.#any(key, depth + 1)
        this.#any(item, depth + 1)
      }
    } else if (types.isSet(value)) {
      this.#tagAndCount(Tag.SET, value.size)
      for (const item of value) this.#any(item, depth + 1)
    } else throw new Refused()
  }

  #bytes(value: ArrayBufferView | ArrayBuffer): void {
    const kind = typedArrayKind(value)
    if (kind === undefined) throw new Refused()
    const bytes = bytesOfView(value)
    this.#reserve(11 + bytes.length)
    if (kind === 'Uint8Array' || kind === 'Buffer') {
      this.#buffer[this.#at++] = kind === 'Buffer' ? Tag.BUFFER : Tag.UINT8_ARRAY
    } else {
      this.#buffer[this.#at++] = Tag.TYPED_ARRAY
      this.#buffer[this.#at++] = kind
    }
    this.#count(bytes.length)
    this.#buffer.set(bytes, this.#at)
    this.#at += bytes.length
  }
}
