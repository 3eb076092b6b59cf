/**
 * Deep copies of structured values: primitives, bigint, Date, Map, Set, bytes, arrays and plain objects.
 */
import { StateValueError } from '../../errors.ts'

/** What to do with a value that is not structured (a class instance, a function); `path` tells where it is. */
export type ForeignValue = (value: unknown, path: string) => unknown

/** Keeps foreign values as they are, shared with the original. */
export const keepForeign: ForeignValue = (value) => value

/** Refuses foreign values with the state's name and the path inside the value. */
export function refuseForeign(stateName: string): ForeignValue {
  return (value, path) => {
    const what = typeof value === 'object' ? `an instance of ${className(value)}` : `a ${typeof value}`
    throw new StateValueError(
      'MILLRACE_INVALID_STATE_VALUE',
      `State '${stateName}' cannot keep ${what}${path === '' ? '' : `, at ${path}`}`,
      { details: { state: stateName, path } },
    )
  }
}

function className(value: unknown): string {
  return (value as { constructor?: { name?: string } }).constructor?.name || 'a nameless class'
}

/** A copy that shares nothing mutable with `value`. Cyclic values overflow the stack, as they do everywhere in state. */
export function structuredCopy<T>(value: T, foreign: ForeignValue, path = ''): T {
  if (typeof value !== 'object' || value === null) {
    return typeof value === 'function' || typeof value === 'symbol' ? (foreign(value, path) as T) : value
  }
  return copyObject(value, foreign, path) as T
}

function copyObject(value: object, foreign: ForeignValue, path: string): unknown {
  if (Array.isArray(value)) return copyArray(value, foreign, path)
  const prototype = Object.getPrototypeOf(value)
  if (prototype === Object.prototype || prototype === null)
    return copyPlain(value, foreign, path, prototype === null)
  // The tag rather than instanceof: the value may come from another realm.
  switch (Object.prototype.toString.call(value)) {
    case '[object Date]':
      return new Date((value as Date).getTime())
    case '[object Map]':
      return copyMap(value as Map<unknown, unknown>, foreign, path)
    case '[object Set]':
      return copySet(value as Set<unknown>, foreign, path)
    case '[object Uint8Array]':
      return (value as Uint8Array).slice()
    case '[object Object]':
      // A plain object of another realm has a prototype whose own prototype is null.
      return isPlainElsewhere(prototype) ? copyPlain(value, foreign, path, false) : foreign(value, path)
    default:
      return foreign(value, path)
  }
}

function isPlainElsewhere(prototype: object): boolean {
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, 'hasOwnProperty')
}

function copyArray(value: readonly unknown[], foreign: ForeignValue, path: string): unknown[] {
  const copy = new Array<unknown>(value.length)
  for (let i = 0; i < value.length; i++) {
    const item = value[i]
    copy[i] = isPrimitive(item) ? item : structuredCopy(item, foreign, `${path}[${i}]`)
  }
  return copy
}

/** A spread copies flat objects at full speed; only what is nested is replaced afterwards. */
function copyPlain(value: object, foreign: ForeignValue, path: string, bare: boolean): object {
  const copy: Record<string, unknown> = bare ? Object.assign(Object.create(null), value) : { ...value }
  for (const name in copy) {
    const item = copy[name]
    if (isPrimitive(item) || !Object.hasOwn(copy, name)) continue
    const itemCopy = structuredCopy(item, foreign, `${path}.${name}`)
    // Assigning to this name would set the prototype.
    if (name === '__proto__') Object.defineProperty(copy, name, { ...PLAIN_PROPERTY, value: itemCopy })
    else copy[name] = itemCopy
  }
  return copy
}

const PLAIN_PROPERTY = { writable: true, enumerable: true, configurable: true } as const

function copyMap(value: Map<unknown, unknown>, foreign: ForeignValue, path: string): Map<unknown, unknown> {
  const copy = new Map<unknown, unknown>()
  let i = 0
  for (const [key, item] of value) {
    copy.set(
      structuredCopy(key, foreign, `${path}.key(${i})`),
      structuredCopy(item, foreign, `${path}.value(${i})`),
    )
    i++
  }
  return copy
}

function copySet(value: Set<unknown>, foreign: ForeignValue, path: string): Set<unknown> {
  const copy = new Set<unknown>()
  for (const item of value) copy.add(structuredCopy(item, foreign, `${path}.item(${copy.size})`))
  return copy
}

function isPrimitive(value: unknown): boolean {
  return typeof value !== 'object' ? typeof value !== 'function' && typeof value !== 'symbol' : value === null
}
