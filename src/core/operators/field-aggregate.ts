/**
 * Aggregates over one field of records, for sum, min, max, minBy and maxBy.
 */
import type { ReduceFunction } from '../state.ts'
import { excerpt } from './user-error.ts'

/**
 * Which part of a record is aggregated: a field name, an index of a tuple, or undefined for records that are values themselves
 * (0 works for these as well, as in Flink).
 */
export type AggregatedField = string | number | undefined

/** number: what can be added. ordered: what `<` orders. */
export type FieldKind = 'number' | 'ordered'

/** The field's value. @throws TypeError if it is missing or of another kind. */
export function fieldOf(record: unknown, field: AggregatedField, kind: FieldKind): any {
  const value = read(record, field)
  if (isOfKind(value, kind)) return value
  const place = field === undefined ? 'The record' : `Field '${field}' of the record`
  throw new TypeError(
    `${place} must be ${KIND_NAMES[kind]} but is ${value === null ? 'null' : typeof value}: ${excerpt(record)}`,
  )
}

const KIND_NAMES: Readonly<Record<FieldKind, string>> = {
  number: 'a number or bigint',
  ordered: 'a number, bigint, string, boolean or Date',
}

function read(record: unknown, field: AggregatedField): unknown {
  if (typeof record !== 'object' || record === null)
    return field === undefined || field === 0 ? record : undefined
  return field === undefined ? record : (record as Record<string | number, unknown>)[field]
}

function isOfKind(value: unknown, kind: FieldKind): boolean {
  const type = typeof value
  if (type === 'number' || type === 'bigint') return true
  if (kind === 'number') return false
  return type === 'string' || type === 'boolean' || Object.prototype.toString.call(value) === '[object Date]'
}

/** A reduce function that replaces `field` of the aggregate and keeps its other fields. */
export function combineField(
  field: AggregatedField,
  combine: (a: any, b: any) => unknown,
  kind: FieldKind,
): ReduceFunction<any> {
  return (aggregate, record) => {
    const combined = combine(fieldOf(aggregate, field, kind), fieldOf(record, field, kind))
    return withField(aggregate, field, combined)
  }
}

function withField(record: unknown, field: AggregatedField, value: unknown): unknown {
  if (typeof record !== 'object' || record === null || field === undefined) return value
  if (Array.isArray(record)) return record.with(Number(field), value)
  return { ...record, [field]: value }
}

/** A reduce function that keeps one of both records: the new one only if it is strictly better. */
export function keepBest(
  field: AggregatedField,
  isBetter: (candidate: any, kept: any) => boolean,
): ReduceFunction<any> {
  return (kept, record) =>
    isBetter(fieldOf(record, field, 'ordered'), fieldOf(kept, field, 'ordered')) ? record : kept
}
