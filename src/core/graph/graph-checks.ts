/**
 * What a job graph must hold before anything is started. Each offence names the operators and where they were declared.
 */
import { GraphError } from '../../errors.ts'
import type { SinkNode, SourceNode, StreamGraph, StreamNode } from './stream-graph.ts'

/** Key groups are numbered with 15 bits, as in Flink. */
export const MAX_KEY_GROUPS = 32_768

/** A node as messages name it: `operator 'count' (job.ts:12)`. */
export function nodeTitle(node: StreamNode): string {
  return `${node.kind} '${node.name}'${node.declaredAt === undefined ? '' : ` (${node.declaredAt})`}`
}

/** A GraphError about these nodes. */
export function graphError(message: string, ...nodes: readonly StreamNode[]): GraphError {
  return new GraphError('MILLRACE_INVALID_GRAPH', message, {
    details: {
      operators: nodes.map((node) => ({ name: node.name, uid: node.uid, declaredAt: node.declaredAt })),
    },
  })
}

/** Edges end at nodes, sources have no input, everything else has one. */
export function checkEdges(graph: StreamGraph): void {
  const byId = new Map(graph.nodes.map((node) => [node.id, node]))
  const fed = new Set<number>()
  for (const edge of graph.edges) {
    const target = byId.get(edge.to)
    const origin = byId.get(edge.from)
    if (target === undefined || origin === undefined)
      throw new GraphError(
        'MILLRACE_INVALID_GRAPH',
        `an edge from ${edge.from} to ${edge.to} ends at no operator`,
      )
    if (target.kind === 'source')
      throw graphError(`${nodeTitle(target)} is a source and takes no input`, target)
    if (origin.kind === 'sink') throw graphError(`${nodeTitle(origin)} is a sink and has no output`, origin)
    fed.add(edge.to)
  }
  for (const node of graph.nodes)
    if (node.kind !== 'source' && !fed.has(node.id)) throw graphError(`${nodeTitle(node)} has no input`, node)
}

/** There is something to run besides sources. Flink's words, because people search for them. */
export function checkNotEmpty(graph: StreamGraph, jobName: string): void {
  if (graph.nodes.every((node) => node.kind === 'source'))
    throw graphError(
      `job '${jobName}': No operators defined in streaming topology. Cannot execute. Add a sink with sinkTo() or print().`,
      ...graph.nodes,
    )
}

/** Nodes so that each comes after its inputs, sources first, otherwise as declared. @throws GraphError on a cycle. */
export function topologicalOrder(graph: StreamGraph): StreamNode[] {
  const waiting = new Map(graph.nodes.map((node) => [node.id, 0]))
  const outputs = Map.groupBy(graph.edges, (edge) => edge.from)
  for (const edge of graph.edges) waiting.set(edge.to, waiting.get(edge.to)! + 1)
  const byId = new Map(graph.nodes.map((node) => [node.id, node]))
  const ordered = graph.nodes.filter((node) => waiting.get(node.id) === 0)
  for (const node of ordered) {
    for (const edge of outputs.get(node.id) ?? []) {
      const left = waiting.get(edge.to)! - 1
      waiting.set(edge.to, left)
      if (left === 0) ordered.push(byId.get(edge.to)!)
    }
  }
  if (ordered.length < graph.nodes.length) {
    const rest = graph.nodes.filter((node) => !ordered.includes(node))
    throw graphError(`the graph has a cycle through ${rest.map(nodeTitle).join(', ')}`, ...rest)
  }
  return ordered
}

/** One uid, one operator. */
export function checkUids(nodes: readonly StreamNode[], uids: ReadonlyMap<number, string>): void {
  const owners = new Map<string, StreamNode>()
  for (const node of nodes) {
    const uid = uids.get(node.id)!
    const owner = owners.get(uid)
    if (owner !== undefined)
      throw graphError(
        `uid '${uid}' is used twice: by ${nodeTitle(owner)} and by ${nodeTitle(node)}`,
        owner,
        node,
      )
    owners.set(uid, node)
  }
}

/** Parallelism within its bounds. */
export function checkParallelism(node: StreamNode, parallelism: number, maxParallelism: number): void {
  if (!Number.isInteger(maxParallelism) || maxParallelism < 1 || maxParallelism > MAX_KEY_GROUPS)
    throw graphError(
      `${nodeTitle(node)}: max parallelism must be a whole number from 1 to ${MAX_KEY_GROUPS}, not ${maxParallelism}`,
      node,
    )
  if (!Number.isInteger(parallelism) || parallelism < 1)
    throw graphError(
      `${nodeTitle(node)}: parallelism must be a whole number of at least 1, not ${parallelism}`,
      node,
    )
  if (parallelism > maxParallelism)
    throw graphError(
      `${nodeTitle(node)}: parallelism ${parallelism} is larger than its max parallelism ${maxParallelism}`,
      node,
    )
}

/** Two sinks with one transactional-id prefix would fence each other for ever. */
export function checkTransactionalPrefixes(nodes: readonly StreamNode[]): void {
  const owners = new Map<string, SinkNode>()
  for (const node of nodes) {
    if (node.kind !== 'sink') continue
    const prefix = node.sink.describe()['transactionalIdPrefix']
    if (typeof prefix !== 'string') continue
    const owner = owners.get(prefix)
    if (owner !== undefined)
      throw graphError(
        `${nodeTitle(owner)} and ${nodeTitle(node)} have the same transactionalIdPrefix '${prefix}': they would fence each other`,
        owner,
        node,
      )
    owners.set(prefix, node)
  }
}

/** Two sources that commit offsets of one topic under one group would overwrite each other's. */
export function checkGroupOffsets(nodes: readonly StreamNode[]): void {
  const sources = nodes.filter((node): node is SourceNode => node.kind === 'source')
  const seen = new Map<string, SourceNode>()
  for (const node of sources) {
    const facts = node.source.describe()
    const groupId = facts['groupId']
    if (typeof groupId !== 'string') continue
    for (const topic of topicsOf(facts)) {
      const key = JSON.stringify([groupId, topic])
      const owner = seen.get(key)
      if (owner !== undefined && owner !== node)
        throw graphError(
          `${nodeTitle(owner)} and ${nodeTitle(node)} both read ${topic} with group '${groupId}' and would overwrite each other's offsets: ` +
            'give one its own groupId, or read the topic once and use the stream twice',
          owner,
          node,
        )
      seen.set(key, node)
    }
  }
}

/** `topic 'a'` and `topics matching /b/` of a source's describe(): its topics, partitions ({ topic }) and topicPattern. */
function topicsOf(facts: Readonly<Record<string, unknown>>): string[] {
  const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])
  const names = list(facts['topics']).map(String)
  for (const part of list(facts['partitions'])) names.push(String((part as { topic?: unknown }).topic))
  const pattern = facts['topicPattern']
  return [
    ...new Set(names.map((name) => `topic '${name}'`)),
    ...(pattern === undefined ? [] : [`topics matching ${String(pattern)}`]),
  ]
}
