/**
 * From what the user declared to what is deployed: checks, uids, resolved parallelism, and operators chained into vertices.
 *
 *   StreamGraph ──prune──▶ ordered nodes ──plan──▶ planned nodes ──chain──▶ JobGraph
 *
 * Pure and deterministic: each worker builds the graph from the same job module and must get the same vertices, edges and fingerprint.
 */
import { canonicalText, hashText } from './fingerprint.ts'
import {
  checkEdges,
  checkGroupOffsets,
  checkNotEmpty,
  checkParallelism,
  checkTransactionalPrefixes,
  checkUids,
  graphError,
  nodeTitle,
  topologicalOrder,
} from './graph-checks.ts'
import type { ChainedEdge, ChainedOperator, JobEdge, JobGraph, JobVertex } from './job-graph.ts'
import { kindOf, operatorUids } from './operator-uids.ts'
import type { Partitioner, StreamEdge, StreamGraph, StreamNode } from './stream-graph.ts'

/** What the graph itself does not say. */
export interface JobGraphOptions {
  readonly jobName: string
  /** For operators that set none: `parallelism.default`, or the number of slots when that is 'auto'. */
  readonly defaultParallelism: number
  /** `pipeline.max-parallelism`, for operators that set none. */
  readonly maxParallelism: number
}

interface PlannedNode {
  readonly node: StreamNode
  readonly operator: ChainedOperator
  readonly parallelism: number
  readonly maxParallelism: number
  readonly slotSharingGroup: string
  readonly inputs: PlannedEdge[]
  readonly outputs: PlannedEdge[]
}

interface PlannedEdge {
  readonly from: PlannedNode
  readonly to: PlannedNode
  readonly input: number
  readonly partitioner: Partitioner
  /** As the user wrote it: an implied forward is one even where it became a rebalance. */
  readonly declared: Partitioner['kind']
  readonly sideOutput: string | undefined
}

/**
 * Builds the job graph. @throws GraphError naming the operators and where they were declared; nothing was started then.
 * Warnings of the result are sentences for a person.
 */
export function buildJobGraph(declared: StreamGraph, options: JobGraphOptions): JobGraph {
  checkEdges(declared)
  const warnings: string[] = []
  const graph = withoutUnreadSources(declared, warnings)
  checkNotEmpty(graph, options.jobName)
  const ordered = topologicalOrder(graph)
  const inputsOf = Map.groupBy(graph.edges, (edge) => edge.to)
  const uids = operatorUids(ordered, inputsOf)
  checkUids(ordered, uids)
  checkTransactionalPrefixes(ordered)
  checkGroupOffsets(ordered)
  const planned = plan(ordered, inputsOf, uids, options)
  warn(planned, warnings)
  return { ...chain(planned), fingerprint: fingerprint(planned), warnings }
}

/** A source that nobody reads is not started. */
function withoutUnreadSources(graph: StreamGraph, warnings: string[]): StreamGraph {
  const read = new Set(graph.edges.map((edge) => edge.from))
  const unread = graph.nodes.filter((node) => node.kind === 'source' && !read.has(node.id))
  for (const node of unread) warnings.push(`${nodeTitle(node)} has no consumer and is left out`)
  return { nodes: graph.nodes.filter((node) => !unread.includes(node)), edges: graph.edges }
}

function warn(planned: readonly PlannedNode[], warnings: string[]): void {
  for (const { node } of planned)
    if (node.kind === 'operator' && node.stateful && node.uid === undefined)
      warnings.push(
        `${nodeTitle(node)} keeps state but has no uid: add .uid('…') so that a changed job finds this state again`,
      )
  if (!planned.some(({ node }) => node.kind === 'sink'))
    warnings.push('the job has no sink: results of its last operators go nowhere')
}

/** Resolves parallelism, slot sharing groups and implied partitioners. */
function plan(
  ordered: readonly StreamNode[],
  inputsOf: ReadonlyMap<number, readonly StreamEdge[]>,
  uids: ReadonlyMap<number, string>,
  options: JobGraphOptions,
): PlannedNode[] {
  const byId = new Map<number, PlannedNode>()
  for (const node of ordered) {
    const inputs = inputsOf.get(node.id) ?? []
    const groups = new Set(inputs.map((edge) => byId.get(edge.from)!.slotSharingGroup))
    const maxParallelism = node.maxParallelism ?? options.maxParallelism
    const fixed = typeof node.parallelism === 'number'
    // As many subtasks as slots, but key groups are the limit: a hundred more workers must not turn a running job into an invalid one.
    const parallelism = fixed
      ? (node.parallelism as number)
      : Math.min(options.defaultParallelism, maxParallelism)
    checkParallelism(node, parallelism, maxParallelism)
    const plannedNode: PlannedNode = {
      node,
      operator: { node, uid: uids.get(node.id)!, uidIsExplicit: node.uid !== undefined, name: node.name },
      parallelism,
      maxParallelism,
      slotSharingGroup: node.slotSharingGroup ?? (groups.size === 1 ? [...groups][0]! : 'default'),
      inputs: [],
      outputs: [],
    }
    byId.set(node.id, plannedNode)
    for (const edge of inputs) {
      const from = byId.get(edge.from)!
      const partitioner = resolvePartitioner(edge.partitioner, from, plannedNode)
      const plannedEdge: PlannedEdge = {
        from,
        to: plannedNode,
        input: edge.input,
        partitioner,
        declared: edge.partitioner.kind,
        sideOutput: edge.sideOutput,
      }
      from.outputs.push(plannedEdge)
      plannedNode.inputs.push(plannedEdge)
    }
  }
  return [...byId.values()]
}

function resolvePartitioner(partitioner: Partitioner, from: PlannedNode, to: PlannedNode): Partitioner {
  if (partitioner.kind !== 'forward') return partitioner
  if (from.parallelism === to.parallelism) return { kind: 'forward' }
  if (partitioner.implied === true) return { kind: 'rebalance' }
  throw graphError(
    `forward() from ${nodeTitle(from.node)} with parallelism ${from.parallelism} to ${nodeTitle(to.node)} with parallelism ` +
      `${to.parallelism}: the two must be equal; use rebalance() or rescale()`,
    from.node,
    to.node,
  )
}

/**
 * An edge becomes a direct call when its two ends always sit side by side: forward, or any partitioner with one subtask on both ends.
 * An operator with several input edges (union, two inputs) heads a vertex: its input gate aligns their barriers.
 */
function isChainable({ from, to, partitioner }: PlannedEdge): boolean {
  return (
    to.inputs.length === 1 &&
    to.node.chaining === 'always' &&
    from.node.chaining !== 'never' &&
    from.parallelism === to.parallelism &&
    from.maxParallelism === to.maxParallelism &&
    from.slotSharingGroup === to.slotSharingGroup &&
    (partitioner.kind === 'forward' || to.parallelism === 1)
  )
}

function chain(planned: readonly PlannedNode[]): { vertices: JobVertex[]; edges: JobEdge[] } {
  const place = new Map<PlannedNode, { vertex: number; operator: number }>()
  const vertices: JobVertex[] = []
  for (const head of planned) {
    if (head.inputs.length === 1 && isChainable(head.inputs[0]!)) continue
    const id = vertices.length
    const operators: ChainedOperator[] = []
    const chainedEdges: ChainedEdge[] = []
    const add = (member: PlannedNode): number => {
      const index = operators.push(member.operator) - 1
      place.set(member, { vertex: id, operator: index })
      for (const edge of member.outputs) {
        if (!isChainable(edge)) continue
        const to = operators.length
        chainedEdges.push({ from: index, to, input: edge.input, sideOutput: edge.sideOutput })
        add(edge.to)
      }
      return index
    }
    add(head)
    vertices.push({
      id,
      name: chainName(operators, chainedEdges, 0),
      operators,
      chainedEdges,
      parallelism: head.parallelism,
      maxParallelism: head.maxParallelism,
    })
  }
  const edges = planned
    .flatMap((node) => node.outputs)
    .filter((edge) => !isChainable(edge))
    .map((edge, id): JobEdge => {
      const from = place.get(edge.from)!
      return {
        id,
        from: from.vertex,
        fromOperator: from.operator,
        to: place.get(edge.to)!.vertex,
        input: edge.input,
        partitioner: edge.partitioner,
        sideOutput: edge.sideOutput,
      }
    })
  return { vertices, edges }
}

/** `a -> b -> c`; branches as Flink writes them: `a -> (b, c -> d)`. */
function chainName(operators: readonly ChainedOperator[], edges: readonly ChainedEdge[], at: number): string {
  const next = edges.filter((edge) => edge.from === at).map((edge) => chainName(operators, edges, edge.to))
  const name = operators[at]!.name
  if (next.length === 0) return name
  return `${name} -> ${next.length === 1 ? next[0] : `(${next.join(', ')})`}`
}

/**
 * Hash of everything that two workers must agree on: structure, uids, key groups, and what sources and sinks say of themselves.
 * Left out: names, code, the environment, and parallelism that follows the number of slots.
 */
function fingerprint(planned: readonly PlannedNode[]): string {
  const index = new Map(planned.map((node, i) => [node, i]))
  return hashText(
    canonicalText(
      planned.map(({ node, operator, maxParallelism, inputs }) => ({
        kind: node.kind === 'source' ? `source ${node.source.kind}` : kindOf(node),
        uid: operator.uid,
        facts:
          node.kind === 'source'
            ? node.source.describe()
            : node.kind === 'sink'
              ? node.sink.describe()
              : undefined,
        bounded: node.kind === 'source' ? node.source.bounded : undefined,
        keyed: node.kind === 'operator' ? node.keyOf?.map((keyOf) => keyOf !== undefined) : undefined,
        parallelism: typeof node.parallelism === 'number' ? node.parallelism : undefined,
        maxParallelism,
        chaining: node.chaining,
        slotSharingGroup: node.slotSharingGroup,
        inputs: inputs.map((edge) => [index.get(edge.from), edge.input, edge.declared, edge.sideOutput]),
      })),
    ),
  )
}
