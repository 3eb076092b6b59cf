/** The operator behind `window`: which one it is follows from the assigner. */
import type { KeyOf, OperatorFactory } from '../operators/stream-operator.ts'
import { BaseWindowOperator, perSubtaskSpec, type WindowOperatorSpec } from './base-window-operator.ts'
import { MergingWindowOperator } from './merging-window-operator.ts'

/** Groups the records of each key into windows. */
export function windowOperator(spec: WindowOperatorSpec, keyOf: KeyOf): OperatorFactory {
  const own = perSubtaskSpec(spec)
  return spec.assigner.isMerging
    ? () => new MergingWindowOperator(own(), keyOf)
    : () => new BaseWindowOperator(own(), keyOf)
}
