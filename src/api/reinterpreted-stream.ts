/** A stream that is taken for a keyed one as it is, without a shuffle. */
import type { KeySelector } from '../core/functions.ts'
import { reinterpretedKey } from '../core/operators/reinterpreted-key.ts'
import type { Key } from '../core/state.ts'
import { type DataStream, KeyedStream } from './data-stream.ts'
import { checkCallable } from './operator-specs.ts'

/**
 * Takes a stream for one that is keyed already: its records stay in their subtask. They must lie exactly as `keyBy(keyOf)` would put them.
 * That is so behind an operator that itself is behind a `keyBy` and keeps the key, with one parallelism and one max parallelism; and in any
 * stream when there is one subtask. It is not so for a topic that was partitioned by Kafka's own hash of the key: use `keyBy` there.
 * State can be moved to another parallelism only if the rule holds, so each record is checked; one in the wrong subtask fails the job
 * (MILLRACE_KEY_NOT_OWNED).
 * @example
 * const perUser = orders.keyBy(o => o.user).process(new Enrich())
 * reinterpretAsKeyedStream(perUser, o => o.user).process(new CountPerUser())
 */
export function reinterpretAsKeyedStream<T, K extends Key>(
  stream: DataStream<T>,
  keyOf: KeySelector<T, K>,
): KeyedStream<T, K> {
  checkCallable('reinterpretAsKeyedStream', keyOf, [])
  return new KeyedStream(stream.context, stream.forward().inputs, reinterpretedKey(keyOf))
}
