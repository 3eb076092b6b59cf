/** A window operator in a harness, made by the settings that a job makes it with. */
import type { OperatorSpec } from '../../../../src/api/graph-builder.ts'
import { WindowSettings } from '../../../../src/api/window-specs.ts'
import type { WindowAssigner } from '../../../../src/core/windows/window-assigner.ts'
import { type HarnessOptions, OperatorHarness } from '../../../../src/testing/operator-harness.ts'

/** A record of key `k`. */
export interface Row {
  readonly k: string
  readonly v: number
}

/** Windows of rows by their key. */
export function windowsOf(assigner: WindowAssigner<any, any>): WindowSettings {
  return new WindowSettings(assigner, (row: Row) => row.k, true)
}

/** Opens the operator. */
export function harnessOf<OUT = any>(
  spec: OperatorSpec,
  options?: HarnessOptions,
): Promise<OperatorHarness<Row, OUT>> {
  return OperatorHarness.of<Row, OUT>(spec.factory, { ...options, keyed: true })
}

/** Adds up `v`, in place. */
export const sums = {
  createAccumulator: () => ({ count: 0, sum: 0 }),
  add: (row: Row, total: { count: number; sum: number }) => {
    total.count++
    total.sum += row.v
    return total
  },
  getResult: (total: { count: number; sum: number }) => total,
  merge: (a: { count: number; sum: number }, b: { count: number; sum: number }) => ({
    count: a.count + b.count,
    sum: a.sum + b.sum,
  }),
}

/** 'key start-end: values in order', for each firing. */
export const listed = (
  key: string,
  context: { window(): any },
  rows: readonly Row[],
  out: { collect(text: string): void },
): void => {
  const window = context.window()
  const bounds = window.start === undefined ? 'all' : `${window.start}-${window.end}`
  out.collect(`${key} ${bounds}: ${rows.map(({ v }) => v).join(' ')}`)
}

/** Sends rows 'key value@timestamp', one call each. */
export async function send(harness: OperatorHarness<Row, any>, ...rows: string[]): Promise<void> {
  for (const text of rows) {
    const [k, v, timestamp] = text.split(/[ @]/)
    await harness.processElement({ k: k!, v: Number(v) }, timestamp === undefined ? null : Number(timestamp))
  }
}
