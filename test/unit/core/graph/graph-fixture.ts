/** Small stream graphs for tests of the graph code. */
import type { Sink, Source } from '../../../../src/core/connector.ts'
import type {
  OperatorNode,
  Partitioner,
  StreamEdge,
  StreamGraph,
  StreamNode,
} from '../../../../src/core/graph/stream-graph.ts'

export const FORWARD: Partitioner = { kind: 'forward', implied: true }
export const HASH: Partitioner = { kind: 'hash', keyOf: (value) => value.key }

const unused = (): never => {
  throw new Error('graphs are not run in these tests')
}

export function sourceOf(kind: string, facts: Record<string, unknown> = {}): Source<any> {
  return { kind, bounded: true, describe: () => facts, createEnumerator: unused, createReader: unused }
}

export function sinkOf(kind: string, facts: Record<string, unknown> = {}): Sink<any> {
  return { kind, describe: () => facts, createWriter: unused }
}

type Settings = Partial<Omit<OperatorNode, 'id' | 'kind'>>

/** Adds nodes with edges from earlier ones. */
export class GraphFixture implements StreamGraph {
  readonly nodes: StreamNode[] = []
  readonly edges: StreamEdge[] = []

  source(name: string, settings: Settings & { source?: Source<any> } = {}): number {
    return this.#add({
      ...this.#base(name),
      source: sourceOf('test'),
      watermarks: undefined,
      ...settings,
      kind: 'source',
    })
  }

  operator(
    name: string,
    from: number | number[],
    settings: Settings & { partitioner?: Partitioner } = {},
  ): number {
    const { partitioner = FORWARD, ...rest } = settings
    const base = {
      ...this.#base(name),
      operatorKind: name,
      factory: unused,
      keyOf: undefined,
      stateful: false,
    }
    return this.#connect(this.#add({ ...base, ...rest, kind: 'operator' }), from, partitioner)
  }

  sink(name: string, from: number | number[], settings: Settings & { sink?: Sink<any> } = {}): number {
    return this.#connect(
      this.#add({ ...this.#base(name), sink: sinkOf('test'), ...settings, kind: 'sink' }),
      from,
      FORWARD,
    )
  }

  edge(edge: Pick<StreamEdge, 'from' | 'to'> & Partial<StreamEdge>): void {
    this.edges.push({ input: 0, partitioner: FORWARD, sideOutput: undefined, ...edge })
  }

  #base(name: string) {
    return {
      id: this.nodes.length,
      name,
      uid: undefined,
      parallelism: undefined,
      maxParallelism: undefined,
      chaining: 'always',
      slotSharingGroup: undefined,
      declaredAt: `job.ts:${this.nodes.length + 1}`,
    } as const
  }

  #add(node: StreamNode): number {
    this.nodes.push(node)
    return node.id
  }

  #connect(to: number, from: number | number[], partitioner: Partitioner): number {
    for (const origin of [from].flat()) this.edge({ from: origin, to, partitioner })
    return to
  }
}
