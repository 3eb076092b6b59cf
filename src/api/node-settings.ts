/** What may be set on every operator, source and sink; the checks in one place. */

import { MAX_KEY_GROUPS, nodeTitle } from '../core/graph/graph-checks.ts'
import type { Parallelism, StreamNode } from '../core/graph/stream-graph.ts'
import { GraphError } from '../errors.ts'
import { checkNumber } from './settings.ts'

/** @throws GraphError for an empty uid. */
export function setUid(node: StreamNode, uid: string): void {
  node.uid = nonEmpty(node, 'uid', uid)
}

/** @throws GraphError for an empty name. */
export function setName(node: StreamNode, name: string): void {
  node.name = nonEmpty(node, 'name', name)
}

/** @throws GraphError for an empty group. */
export function setSlotSharingGroup(node: StreamNode, group: string): void {
  node.slotSharingGroup = nonEmpty(node, 'slot sharing group', group)
}

/** @throws ConfigError unless it is 'auto' or a whole number from 1 to 32768. */
export function setParallelism(node: StreamNode, parallelism: Parallelism): void {
  if (parallelism !== 'auto')
    checkNumber(`parallelism of ${nodeTitle(node)}`, parallelism, {
      whole: true,
      min: 1,
      max: MAX_KEY_GROUPS,
    })
  node.parallelism = parallelism
}

/** @throws ConfigError unless it is a whole number from 1 to 32768. */
export function setMaxParallelism(node: StreamNode, maxParallelism: number): void {
  checkNumber(`max parallelism of ${nodeTitle(node)}`, maxParallelism, {
    whole: true,
    min: 1,
    max: MAX_KEY_GROUPS,
  })
  node.maxParallelism = maxParallelism
}

function nonEmpty(node: StreamNode, what: string, value: string): string {
  if (typeof value === 'string' && value !== '') return value
  throw new GraphError(
    'MILLRACE_INVALID_GRAPH',
    `${nodeTitle(node)}: the ${what} must be a text that is not empty`,
  )
}
