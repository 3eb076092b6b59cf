/**
 * Why a value cannot be kept in state: the slow walk that finds the place and names it, once the fast one has said no.
 */
import { types } from 'node:util'
import { StateValueError } from '../errors.ts'
import { isObjectPrototype, isPlainObject, typedArrayKind } from './structured-kinds.ts'

interface Refusal {
  readonly path: string
  readonly what: string
}

const IDENTIFIER = /^[A-Za-z_$][\w$]*$/

function property(key: string): string {
  return IDENTIFIER.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`
}

function className(value: object): string {
  const name = (value as { constructor?: { name?: unknown } }).constructor?.name
  return typeof name === 'string' && name !== ''
    ? `an instance of ${name}`
    : 'an object with a prototype of its own'
}

/** The children of a container by path, or undefined if the value is none that can be kept. */
function children(value: object): Iterable<readonly [string, unknown]> | undefined {
  const prototype: object | null = Object.getPrototypeOf(value)
  const parent = prototype === null ? null : (Object.getPrototypeOf(prototype) as object | null)
  if (Array.isArray(value))
    return isObjectPrototype(parent) ? value.map((item, i) => [`[${i}]`, item] as const) : undefined
  if (isPlainObject(value)) return Object.entries(value).map(([key, item]) => [property(key), item] as const)
  if (ArrayBuffer.isView(value) || types.isArrayBuffer(value))
    return typedArrayKind(value as ArrayBufferView) === undefined ? undefined : []
  if (!isObjectPrototype(parent)) return undefined
  if (types.isDate(value)) return []
  if (types.isSet(value)) return [...value].map((item, i) => [` (element ${i} of the set)`, item] as const)
  if (types.isMap(value))
    return [...value].flatMap(([key, item], i) => [
      [` (key ${i} of the map)`, key] as const,
      [
        typeof key === 'object'
          ? ` (value ${i} of the map)`
          : `.get(${typeof key === 'string' ? JSON.stringify(key) : String(key)})`,
        item,
      ] as const,
    ])
  return undefined
}

function find(value: unknown, path: string, ancestors: object[], maxDepth: number): Refusal | undefined {
  if (typeof value === 'function' || typeof value === 'symbol') return { path, what: `a ${typeof value}` }
  if (typeof value !== 'object' || value === null) return undefined
  if (ancestors.includes(value)) return { path, what: 'a reference to something that contains it' }
  if (ancestors.length >= maxDepth)
    return { path: `${path.slice(0, 80)}…`, what: `anything nested deeper than ${maxDepth} levels` }
  const inside = children(value)
  if (inside === undefined) return { path, what: className(value) }
  ancestors.push(value)
  for (const [step, child] of inside) {
    const refusal = find(child, path + step, ancestors, maxDepth)
    if (refusal !== undefined) return refusal
  }
  ancestors.pop()
  return undefined
}

/**
 * The error for the first thing in `value` that state cannot keep, or undefined if all of it can be kept.
 * Names the state and the path: "State 'total' cannot keep an instance of Owner, at .items[3].owner".
 */
export function refusalOf(
  value: unknown,
  stateName: string | undefined,
  maxDepth: number,
): StateValueError | undefined {
  const refusal = find(value, '', [], maxDepth)
  if (refusal === undefined) return undefined
  const who = stateName === undefined ? 'State' : `State '${stateName}'`
  const where = refusal.path === '' ? '' : `, at ${refusal.path.trim()}`
  return new StateValueError('MILLRACE_INVALID_STATE_VALUE', `${who} cannot keep ${refusal.what}${where}`, {
    details: { state: stateName, path: refusal.path.trim() },
  })
}

/**
 * True if the value itself is of a kind that state can keep; what it holds is not looked at. Cheap enough for every update: it finds a
 * class instance where it is stored, not at the next checkpoint.
 */
export function isStorable(value: unknown): boolean {
  if (typeof value !== 'object') return typeof value !== 'function' && typeof value !== 'symbol'
  if (value === null) return true
  const prototype: object | null = Object.getPrototypeOf(value)
  if (prototype === Object.prototype || prototype === Array.prototype) return true
  return children(value) !== undefined
}
