/** Rights as Kafka tells them: one bit for each AclOperation. */
import type { ResourceOperation } from '../kafka-cluster.ts'

/** Numbers of Kafka's AclOperation. */
const OPERATIONS: readonly (readonly [ResourceOperation, number])[] = [
  ['Read', 3],
  ['Write', 4],
  ['Create', 5],
  ['Delete', 6],
  ['Alter', 7],
  ['Describe', 8],
  ['DescribeConfigs', 10],
]

/** What the broker answers when it was not asked, or does not tell. */
const UNKNOWN = -2_147_483_648

export function operationsOf(bits: number): ReadonlySet<ResourceOperation> | undefined {
  if (bits === UNKNOWN) return undefined
  return new Set(OPERATIONS.filter(([, bit]) => (bits & (1 << bit)) !== 0).map(([name]) => name))
}
