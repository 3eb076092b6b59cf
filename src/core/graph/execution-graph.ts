/**
 * The job graph at a parallelism: subtasks, and one logical channel for each pair of subtasks that an edge connects.
 *
 *   vertex 0, parallelism 2        vertex 1, parallelism 3
 *     0/0 ──────────────────────────▶ 1/0        hash, rebalance, broadcast, global, custom: every pair
 *     0/1 ──────────────────────────▶ 1/1        forward: i → i        rescale: neighbouring ranges
 *                                     1/2
 */
import type { JobEdge, JobGraph, JobVertex } from './job-graph.ts'
import type { Partitioner } from './stream-graph.ts'

/** One of `parallelism` copies of a vertex. */
export interface ExecutionSubtask {
  /** Index of the vertex in the job graph. */
  readonly vertex: number
  /** 0-based. */
  readonly subtask: number
}

/** A channel from one subtask to another. Its place in a receiver's inputs is by edge, then by sender. */
export interface ExecutionChannel {
  readonly edge: number
  readonly from: ExecutionSubtask
  readonly to: ExecutionSubtask
}

/** All that is deployed in one attempt. */
export interface ExecutionGraph {
  /** By vertex, then by index. */
  readonly subtasks: readonly ExecutionSubtask[]
  /** By edge, then by receiver, then by sender. */
  readonly channels: readonly ExecutionChannel[]
}

/** Subtasks and channels of a job graph. */
export function buildExecutionGraph(graph: JobGraph): ExecutionGraph {
  const subtasks = graph.vertices.flatMap((vertex) =>
    Array.from(
      { length: vertex.parallelism },
      (_, subtask): ExecutionSubtask => ({ vertex: vertex.id, subtask }),
    ),
  )
  const channels = graph.edges.flatMap((edge) => {
    const [up, down] = [graph.vertices[edge.from]!.parallelism, graph.vertices[edge.to]!.parallelism]
    return Array.from({ length: down }, (_, subtask) =>
      upstreamSubtasks(edge.partitioner.kind, subtask, up, down).map(
        (sender): ExecutionChannel => ({
          edge: edge.id,
          from: { vertex: edge.from, subtask: sender },
          to: { vertex: edge.to, subtask },
        }),
      ),
    ).flat()
  })
  return { subtasks, channels }
}

/**
 * Senders of receiver `subtask` of an edge. A receiver always has one at least: `global` sends records to subtask 0 only, but
 * barriers and watermarks to all, otherwise the others would never take part in a checkpoint.
 */
export function upstreamSubtasks(
  partitioner: Partitioner['kind'],
  subtask: number,
  upstream: number,
  downstream: number,
): number[] {
  switch (partitioner) {
    case 'forward':
      return [subtask]
    case 'rescale':
      return upstream >= downstream
        ? range(
            Math.floor((subtask * upstream) / downstream),
            Math.floor(((subtask + 1) * upstream) / downstream),
          )
        : [Math.floor((subtask * upstream) / downstream)]
    default:
      return range(0, upstream)
  }
}

/** Receivers of sender `subtask` of an edge, in the order of the partitioner's choices. */
export function downstreamSubtasks(
  partitioner: Partitioner['kind'],
  subtask: number,
  upstream: number,
  downstream: number,
): number[] {
  return range(0, downstream).filter((receiver) =>
    upstreamSubtasks(partitioner, receiver, upstream, downstream).includes(subtask),
  )
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => from + i)
}

/**
 * The job graph as a tree for a terminal: vertices with their chained operators, and where each sends its records.
 * Warnings come last.
 */
export function explain(graph: JobGraph): string {
  const lines = [`fingerprint ${graph.fingerprint}`]
  for (const vertex of graph.vertices) {
    lines.push('', `${vertex.id}  ${vertex.name}`, `   ${sizes(vertex)}`)
    lines.push(...operatorLines(vertex, graph.edges, 0, '   '))
  }
  if (graph.warnings.length > 0) lines.push('', ...graph.warnings.map((warning) => `warning: ${warning}`))
  return lines.join('\n')
}

function sizes(vertex: JobVertex): string {
  const keyed = vertex.operators.some(({ node }) => node.kind === 'operator' && node.keyOf !== undefined)
  const groups = keyed ? `, ${vertex.maxParallelism} key groups` : ''
  return `parallelism ${vertex.parallelism}${groups}`
}

function operatorLines(vertex: JobVertex, edges: readonly JobEdge[], at: number, indent: string): string[] {
  const { name, uid, uidIsExplicit, node } = vertex.operators[at]!
  const what =
    node.kind === 'operator'
      ? node.operatorKind
      : `${node.kind}: ${node.kind === 'source' ? node.source.kind : node.sink.kind}`
  const lines = [
    `${indent}${name}  [${what}]  ${uidIsExplicit ? `uid ${uid}` : `no uid (${uid.slice(0, 8)}…)`}`,
  ]
  const chained = vertex.chainedEdges.filter((edge) => edge.from === at)
  const outgoing = edges.filter((edge) => edge.from === vertex.id && edge.fromOperator === at)
  for (const edge of chained) {
    const [first, ...rest] = operatorLines(vertex, edges, edge.to, `${indent}   `)
    lines.push(`${indent}└─ ${sideLabel(edge.sideOutput)}${first!.trimStart()}`, ...rest)
  }
  for (const edge of outgoing)
    lines.push(
      `${indent}══ ${sideLabel(edge.sideOutput)}${edge.partitioner.kind} ══▶ ${edge.to}${edge.input === 0 ? '' : ` (input ${edge.input + 1})`}`,
    )
  return lines
}

function sideLabel(sideOutput: string | undefined): string {
  return sideOutput === undefined ? '' : `side output '${sideOutput}': `
}
