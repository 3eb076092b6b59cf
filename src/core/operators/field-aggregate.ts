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
type FieldKind = 'number' | 'ordered'

/** The field's value. @throws TypeError if it is missing or of another kind. */
function fieldOf(record: unknown, field: AggregatedField, kind: FieldKind): any {
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
function combineField(
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
function keepBest(
  field: AggregatedField,
  isBetter: (candidate: any, kept: any) => boolean,
): ReduceFunction<any> {
  return (kept, record) =>
    isBetter(fieldOf(record, field, 'ordered'), fieldOf(kept, field, 'ordered')) ? record : kept
}

/** How a field is aggregated: the reduce function, and the check of the first record, which is an aggregate as it is. */
export interface FieldAggregate {
  readonly reduce: ReduceFunction<any>
  /** Throws if the record cannot be an aggregate. */
  readonly checkFirst: (first: unknown) => unknown
}

const FIELD_AGGREGATES = {
  /** Adds up the field; the other fields are those of the first record. */
  sum: (field) =>
    of(
      combineField(field, (a, b) => a + b, 'number'),
      field,
      'number',
    ),
  /** Keeps the smallest field; the other fields are those of the first record. */
  min: (field) => of(combineField(field, smaller, 'ordered'), field, 'ordered'),
  /** Keeps the largest field; the other fields are those of the first record. */
  max: (field) => of(combineField(field, larger, 'ordered'), field, 'ordered'),
  /** Keeps the record with the smallest field; of equals the first. */
  minBy: (field) =>
    of(
      keepBest(field, (candidate, kept) => candidate < kept),
      field,
      'ordered',
    ),
  /** Keeps the record with the largest field; of equals the first. */
  maxBy: (field) =>
    of(
      keepBest(field, (candidate, kept) => candidate > kept),
      field,
      'ordered',
    ),
} as const satisfies Record<string, (field: AggregatedField) => FieldAggregate>

/** Names of the aggregates over a field. */
export type FieldAggregateKind = keyof typeof FIELD_AGGREGATES

/** The aggregate of a kind over `field`. */
export function fieldAggregate(kind: FieldAggregateKind, field: AggregatedField): FieldAggregate {
  return FIELD_AGGREGATES[kind](field)
}

function of(reduce: ReduceFunction<any>, field: AggregatedField, kind: FieldKind): FieldAggregate {
  return { reduce, checkFirst: (first) => fieldOf(first, field, kind) }
}

/** By `<`, which orders strings and dates too. The first of equals. */
function smaller(kept: any, candidate: any): unknown {
  return candidate < kept ? candidate : kept
}

function larger(kept: any, candidate: any): unknown {
  return candidate > kept ? candidate : kept
}
