/** The user's part in choosing a channel, whose errors tell the operator that sends, and the record. */
import type { SubtaskInfo } from '../core/connector.ts'
import type { Partitioner } from '../core/graph/stream-graph.ts'
import { userError } from '../core/operators/user-error.ts'

/** The same choice; without a sender its errors stay as they are. */
export function named(
  choose: (value: unknown) => number,
  sender: SubtaskInfo | undefined,
  what: string,
): (value: unknown) => number {
  if (sender === undefined) return choose
  return (value) => {
    try {
      return choose(value)
    } catch (error) {
      throw userError(error, sender, what, value)
    }
  }
}

/** What partitionCustom chooses of `partitions`. @throws UserFunctionError also for a choice that is not there */
export function customChoice(
  { choose, keyOf }: Extract<Partitioner, { kind: 'custom' }>,
  partitions: number,
  sender: SubtaskInfo | undefined,
): (value: unknown) => number {
  const checked = (value: unknown): number => {
    const chosen = choose(keyOf(value), partitions)
    if (Number.isInteger(chosen) && chosen >= 0 && chosen < partitions) return chosen
    throw new RangeError(`it chose partition ${chosen}; there are ${partitions} (0 to ${partitions - 1})`)
  }
  return named(checked, sender, 'partitionCustom for the output')
}
