/**
 * Operators chained into vertices: each vertex is deployed as `parallelism` subtasks, edges inside a vertex are direct calls.
 */
import type { Partitioner, StreamNode } from './stream-graph.ts'

/** An edge inside a chain: a direct call. */
export interface ChainedEdge {
  /** Index into `operators`. */
  readonly from: number
  readonly to: number
  readonly input: number
  readonly sideOutput: string | undefined
}

/** One chained operator. */
export interface ChainedOperator {
  readonly node: StreamNode
  /** The user's uid, or one derived from the node's place in the graph (stable as long as the graph is). */
  readonly uid: string
  readonly uidIsExplicit: boolean
  readonly name: string
}

/** A chain; operators[0] is the head: a source, or the operator that reads the input gate. */
export interface JobVertex {
  readonly id: number
  /** Names of its operators joined by ' -> '. */
  readonly name: string
  readonly operators: readonly ChainedOperator[]
  readonly chainedEdges: readonly ChainedEdge[]
  readonly parallelism: number
  readonly maxParallelism: number
}

/** An edge between chains: one logical channel for each (upstream subtask, downstream subtask) pair that the partitioner can use. */
export interface JobEdge {
  readonly id: number
  readonly from: number
  /** Index into the upstream vertex's operators: whose output it carries. */
  readonly fromOperator: number
  readonly to: number
  /** Input of the downstream head. */
  readonly input: number
  readonly partitioner: Partitioner
  readonly sideOutput: string | undefined
}

export interface JobGraph {
  /** In topological order, sources first. */
  readonly vertices: readonly JobVertex[]
  readonly edges: readonly JobEdge[]
  /** Same for two builds of one job; leaves out 'auto' parallelism and environment. Hex. */
  readonly fingerprint: string
  /** Things a person should know, e.g. a stateful operator without uid. */
  readonly warnings: readonly string[]
}
