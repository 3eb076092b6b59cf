/** Values of state for people and for tools. JSON has no form for some: they are written as an object with one key that begins with `$`. */
import { inspect } from 'node:util'
import { isDate, isMap, isSet, isUint8Array } from 'node:util/types'

/**
 * A value that `JSON.stringify` writes without loss:
 * `{"$bigint":"1"}`, `{"$date":"2026-01-01T00:00:00.000Z"}`, `{"$map":[[key,value],…]}`, `{"$set":[…]}`, `{"$bytes":"base64"}`,
 * `{"$number":"NaN"}` (also Infinity, -Infinity, -0) and `{"$undefined":true}`.
 */
export function jsonValue(value: unknown): unknown {
  if (typeof value === 'bigint') return { $bigint: String(value) }
  if (value === undefined) return { $undefined: true }
  if (typeof value === 'number' && (!Number.isFinite(value) || Object.is(value, -0)))
    return { $number: Object.is(value, -0) ? '-0' : String(value) }
  if (typeof value !== 'object' || value === null) return value
  if (isDate(value)) return { $date: Number.isNaN(value.getTime()) ? null : value.toISOString() }
  if (isMap(value)) return { $map: [...value].map(([key, each]) => [jsonValue(key), jsonValue(each)]) }
  if (isSet(value)) return { $set: [...value].map(jsonValue) }
  if (isUint8Array(value)) return { $bytes: Buffer.from(value).toString('base64') }
  if (Array.isArray(value)) return value.map(jsonValue)
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, jsonValue(each)]))
}

/** A value as a program would write it, on one line. */
export function shownValue(value: unknown): string {
  return inspect(value, { depth: null, maxArrayLength: null, maxStringLength: null, breakLength: Infinity })
}
