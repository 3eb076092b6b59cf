/**
 * Hash and canonical text of plain data, for derived uids and the fingerprint of a job graph.
 * Both are stored or compared between processes, so a change of either breaks restored jobs; fingerprint.test.ts holds known answers.
 */
import { murmur3Hex128 } from '../murmur3.ts'

const encoder = new TextEncoder()

/** 128-bit hash of the UTF-8 bytes of `text`, as 32 hex digits. Not for secrets: collisions can be made on purpose. */
export function hashText(text: string): string {
  return murmur3Hex128(encoder.encode(text))
}

/**
 * Text of plain data that is the same for equal data: object keys sorted, undefined left out, bigint and functions marked.
 * A function counts as 'a function': its code is not part of the fingerprint.
 */
export function canonicalText(value: unknown): string {
  switch (typeof value) {
    case 'bigint':
      return `${value}n`
    case 'function':
      return 'function'
    case 'undefined':
      return 'undefined'
    case 'symbol':
      return value.toString()
    case 'object':
      break
    default:
      return typeof value === 'number' && !Number.isFinite(value) ? String(value) : JSON.stringify(value)
  }
  if (value === null) return 'null'
  if (Object.prototype.toString.call(value) === '[object RegExp]') return String(value)
  if ('toJSON' in value && typeof value.toJSON === 'function') return canonicalText(value.toJSON())
  if (Symbol.iterator in value) {
    const items = [...(value as Iterable<unknown>)].map(canonicalText)
    return `[${items.join(',')}]`
  }
  const entries = Object.entries(value).filter(([, part]) => part !== undefined)
  entries.sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([key, part]) => `${JSON.stringify(key)}:${canonicalText(part)}`).join(',')}}`
}
