/** What `asyncMap` adds to the graph: its settings, checked. */
import type { KeySelector } from '../core/functions.ts'
import { asyncMapOperator } from '../core/operators/async-map.ts'
import type {
  AsyncMapFunction,
  AsyncMapOptions,
  AsyncMapSettings,
  AsyncRetry,
} from '../core/operators/async-settings.ts'
import type { KeyOf } from '../core/operators/stream-operator.ts'
import type { Key } from '../core/state.ts'
import type { OperatorSpec } from './graph-builder.ts'
import { checkCallable } from './operator-specs.ts'
import { checkNumber } from './settings.ts'

/** Flink's default. */
const CAPACITY = 100

/** `keyOf`: of the stream, if it has keys. @throws GraphError if `f` cannot be called, ConfigError for a setting that makes no sense. */
export function asyncMap(
  f: AsyncMapFunction<any, any>,
  options: AsyncMapOptions<any, any, any>,
  keyOf?: KeySelector<any, Key>,
): OperatorSpec {
  checkCallable('asyncMap', f, ['asyncMap'])
  if (options.onTimeout !== undefined) checkCallable('asyncMap: onTimeout', options.onTimeout, [])
  const settings = settingsOf(options)
  return {
    operatorKind: 'async-map',
    name: settings.ordered ? 'async-map' : 'async-map (unordered)',
    factory: asyncMapOperator(f, settings, keyOf as KeyOf | undefined),
    keyOf: undefined,
    // Records in flight are state.
    stateful: true,
  }
}

function settingsOf({
  ordered = true,
  capacity = CAPACITY,
  timeoutMs,
  onTimeout,
  retry,
  serde,
}: AsyncMapOptions<any, any, any>): AsyncMapSettings {
  checkNumber('asyncMap: capacity', capacity, { whole: true, min: 1 })
  if (timeoutMs !== undefined) checkNumber('asyncMap: timeoutMs', timeoutMs, { min: 1 })
  if (retry !== undefined) checkRetry(retry)
  return { ordered, capacity, timeoutMs, onTimeout, retry, serde }
}

function checkRetry({ maxAttempts, backoffMs, multiplier, maxBackoffMs }: AsyncRetry<any>): void {
  checkNumber('asyncMap: retry.maxAttempts', maxAttempts, { whole: true, min: 1 })
  if (backoffMs !== undefined) checkNumber('asyncMap: retry.backoffMs', backoffMs, { min: 0 })
  if (multiplier !== undefined) checkNumber('asyncMap: retry.multiplier', multiplier, { min: 1 })
  if (maxBackoffMs !== undefined) checkNumber('asyncMap: retry.maxBackoffMs', maxBackoffMs, { min: 0 })
}
