/**
 * Telling kinds of objects apart whichever realm made them: inside a vm context (jest, for one) `instanceof` and `=== Object.prototype`
 * say no to objects from outside.
 */

/** Kinds of typed arrays by the byte that names them in structured values. Never renumbered. Uint8Array and Buffer have tags of their own. */
const TYPED_ARRAYS: readonly [name: string, make: (buffer: ArrayBuffer) => unknown, elementBytes: number][] =
  [
    ['ArrayBuffer', (buffer) => buffer, 1],
    ['Int8Array', (buffer) => new Int8Array(buffer), 1],
    ['Uint8ClampedArray', (buffer) => new Uint8ClampedArray(buffer), 1],
    ['Int16Array', (buffer) => new Int16Array(buffer), 2],
    ['Uint16Array', (buffer) => new Uint16Array(buffer), 2],
    ['Int32Array', (buffer) => new Int32Array(buffer), 4],
    ['Uint32Array', (buffer) => new Uint32Array(buffer), 4],
    ['Float32Array', (buffer) => new Float32Array(buffer), 4],
    ['Float64Array', (buffer) => new Float64Array(buffer), 8],
    ['BigInt64Array', (buffer) => new BigInt64Array(buffer), 8],
    ['BigUint64Array', (buffer) => new BigUint64Array(buffer), 8],
  ]

const NUMBERS = new Map(TYPED_ARRAYS.map(([name], number) => [name, number]))

/** True for the `Object.prototype` of this or any other realm. */
export function isObjectPrototype(value: object | null): boolean {
  if (value === Object.prototype) return true
  return value !== null && Object.getPrototypeOf(value) === null && Object.hasOwn(value, 'isPrototypeOf')
}

/** True for objects made by `{}` or `Object.create(null)`, of any realm. */
export function isPlainObject(value: object): boolean {
  const prototype: object | null = Object.getPrototypeOf(value)
  return prototype === null || isObjectPrototype(prototype)
}

/** The built-in name of an object, e.g. 'Map' or 'Float64Array'; a class of the user's may claim one. */
function tagOf(value: object): string {
  return Object.prototype.toString.call(value).slice(8, -1)
}

/** What kind of bytes a view or ArrayBuffer is: a name with a tag of its own, the number of its kind, or undefined for a DataView or a subclass. */
export function typedArrayKind(
  value: ArrayBufferView | ArrayBuffer,
): 'Uint8Array' | 'Buffer' | number | undefined {
  if (Buffer.isBuffer(value)) return 'Buffer'
  const name = tagOf(value)
  const prototype: object = Object.getPrototypeOf(value)
  // The built-in's prototype carries the constructor's name; a subclass has another one.
  if ((prototype as { constructor?: { name?: unknown } }).constructor?.name !== name) return undefined
  return name === 'Uint8Array' ? 'Uint8Array' : NUMBERS.get(name)
}

/** The bytes beneath a view or an ArrayBuffer, not copied. */
export function bytesOfView(value: ArrayBufferView | ArrayBuffer): Uint8Array {
  return ArrayBuffer.isView(value)
    ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    : new Uint8Array(value)
}

/** A typed array (or ArrayBuffer) of the given kind on its own copy of the bytes; undefined if kind or length is impossible. */
export function makeTypedArray(kind: number, bytes: Uint8Array): unknown {
  const entry = TYPED_ARRAYS[kind]
  if (entry === undefined || bytes.length % entry[2] !== 0) return undefined
  const copy = new ArrayBuffer(bytes.length)
  new Uint8Array(copy).set(bytes)
  return entry[1](copy)
}
