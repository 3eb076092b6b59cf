/** Collects what builders declare, and hands it out job by job. */
import type { Sink, Source } from '../core/connector.ts'
import type {
  OperatorNode,
  Partitioner,
  SinkNode,
  SourceNode,
  StreamEdge,
  StreamGraph,
  StreamNode,
} from '../core/graph/stream-graph.ts'
import { callSite } from './call-site.ts'
import type { JobClient } from './job-client.ts'

/** One upstream of a stream: an operator's main or side output, and how its records reach the next operator. */
export interface StreamInput {
  readonly node: StreamNode
  readonly sideOutput: string | undefined
  readonly partitioner: Partitioner
}

/** What an operator is, without its inputs. */
export interface OperatorSpec extends Pick<OperatorNode, 'operatorKind' | 'factory' | 'keyOf' | 'stateful'> {
  readonly name: string
}

/** The nodes and edges of one environment. */
export class GraphBuilder {
  readonly #nodes: StreamNode[] = []
  readonly #edges: StreamEdge[] = []
  /** Nodes before this index were handed out with an earlier job. */
  #taken = 0

  addSource(source: Source<any, any>, watermarks: unknown, name: string): SourceNode {
    return this.#add({ ...this.#base(name), kind: 'source', source, watermarks }, [])
  }

  /** `inputs[i]` are the streams that come into input i; several of them are a union. */
  addOperator(spec: OperatorSpec, inputs: readonly (readonly StreamInput[])[]): OperatorNode {
    return this.#add({ ...this.#base(spec.name), ...spec, kind: 'operator' }, inputs)
  }

  addSink(sink: Sink<any>, name: string, inputs: readonly StreamInput[]): SinkNode {
    return this.#add({ ...this.#base(name), kind: 'sink', sink }, [inputs])
  }

  /**
   * What was declared since the last call, with all that it reads from: a stream may be used again in a later job.
   * The answer is a copy with ids 0, 1, 2, …
   */
  take(): StreamGraph {
    const wanted = new Set(this.#nodes.slice(this.#taken).map((node) => node.id))
    this.#taken = this.#nodes.length
    // Edges lead from lower ids to higher ones, so one walk from the end finds everything upstream.
    for (const edge of this.#edges.toSorted((a, b) => b.to - a.to))
      if (wanted.has(edge.to)) wanted.add(edge.from)
    const ids = new Map([...wanted].sort((a, b) => a - b).map((id, index) => [id, index]))
    return withSideSinks({
      nodes: [...ids].map(([id, index]) => ({ ...this.#nodes[id]!, id: index })),
      edges: this.#edges
        .filter((edge) => ids.has(edge.to))
        .map((edge) => ({ ...edge, from: ids.get(edge.from)!, to: ids.get(edge.to)! })),
    })
  }

  #base(name: string) {
    return {
      id: this.#nodes.length,
      name,
      uid: undefined,
      parallelism: undefined,
      maxParallelism: undefined,
      chaining: 'always',
      slotSharingGroup: undefined,
      declaredAt: callSite(),
    } as const
  }

  #add<N extends StreamNode>(node: N, inputs: readonly (readonly StreamInput[])[]): N {
    this.#nodes.push(node)
    for (const [input, streams] of inputs.entries())
      for (const { node: from, partitioner, sideOutput } of streams)
        this.#edges.push({ from: from.id, to: node.id, input, partitioner, sideOutput })
    return node
  }
}

/**
 * Adds the hidden sinks that sources bring along (dead letters). They are added last, when the source's uid and parallelism are known:
 * the sink's own uid follows from them.
 */
function withSideSinks(graph: StreamGraph): StreamGraph {
  const nodes = [...graph.nodes]
  const edges = [...graph.edges]
  for (const node of graph.nodes) {
    if (node.kind !== 'source' || node.source.sideSink === undefined) continue
    const { tagId, name, uidSuffix, sink } = node.source.sideSink
    const { uid, parallelism, maxParallelism, slotSharingGroup, declaredAt } = node
    const id = nodes.length
    nodes.push({
      id,
      kind: 'sink',
      sink,
      name: `${node.name}: ${name}`,
      uid: uid === undefined ? undefined : `${uid}.${uidSuffix}`,
      parallelism,
      maxParallelism,
      chaining: 'always',
      slotSharingGroup,
      declaredAt,
    })
    edges.push({ from: node.id, to: id, input: 0, partitioner: { kind: 'forward' }, sideOutput: tagId })
  }
  return { nodes, edges }
}

/** What streams need of their environment. */
export interface StreamContext {
  readonly graph: GraphBuilder
  submit(jobName: string): Promise<JobClient>
}
