/**
 * Keys of a stream that was not shuffled: each must belong to the subtask that got it, or its state would be where no later keyBy and no
 * rescale finds it.
 */
import { MillraceError } from '../../errors.ts'
import { keyGroupOf, rangeContains, subtaskOfKeyGroup } from '../graph/key-groups.ts'
import type { Key } from '../state.ts'
import type { KeyOf, OperatorContext } from './stream-operator.ts'
import { excerpt } from './user-error.ts'

const REINTERPRETED = Symbol('reinterpreted key')

/** The same selector, marked: operators check the keys that it gives. */
export function reinterpretedKey<T, K extends Key>(keyOf: (value: T) => K): (value: T) => K {
  return Object.assign((value: T) => keyOf(value), { [REINTERPRETED]: true })
}

/** The check of one input's keys; undefined if there is nothing to check: keyBy has brought them, or there is one subtask. */
export function ownershipCheck(
  keyOf: KeyOf | undefined,
  context: OperatorContext,
): ((key: Key, record: unknown) => void) | undefined {
  const { keyGroups, maxParallelism, info } = context
  if (keyOf === undefined || !(REINTERPRETED in keyOf) || keyGroups === undefined || info.parallelism === 1)
    return undefined
  return (key, record) => {
    const keyGroup = keyGroupOf(key, maxParallelism, info.operatorName)
    if (rangeContains(keyGroups, keyGroup)) return
    const owner = subtaskOfKeyGroup(keyGroup, maxParallelism, info.parallelism)
    throw new MillraceError(
      'MILLRACE_KEY_NOT_OWNED',
      `Operator '${info.operatorName}' reads a stream through reinterpretAsKeyedStream, but that stream is not partitioned as keyBy would do it: ` +
        `the record ${excerpt(record)} has the key ${excerpt(key)}, whose key group ${keyGroup} of ${maxParallelism} belongs to subtask ${owner + 1} of ` +
        `${info.parallelism}, and it came to subtask ${info.subtaskIndex + 1}. (Kafka's partitioner hashes keys in another way than keyBy.)`,
      {
        details: {
          operator: info.operatorName,
          uid: info.uid,
          key: excerpt(key),
          keyGroup,
          owner,
          subtaskIndex: info.subtaskIndex,
        },
      },
    )
  }
}
