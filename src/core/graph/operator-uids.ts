/**
 * Uids: the name under which an operator's state is stored. Those that the user gave are kept; the others are derived from the
 * operator's place in the graph, so that an unchanged graph always finds its state again.
 */
import { canonicalText, hashText } from './fingerprint.ts'
import type { StreamEdge, StreamNode } from './stream-graph.ts'

/**
 * Uid of each node by node id. `ordered` is in topological order.
 * A derived uid depends on the kind of the operator, the uids of its inputs, and its rank among equal siblings: never on parallelism
 * or names (a source's name excepted: two sources differ in nothing else), so that neither another worker nor a new label loses state.
 */
export function operatorUids(
  ordered: readonly StreamNode[],
  inputsOf: ReadonlyMap<number, readonly StreamEdge[]>,
): Map<number, string> {
  const uids = new Map<number, string>()
  const ranks = new Map<string, number>()
  for (const node of ordered) {
    const place = canonicalText({
      kind: kindOf(node),
      inputs: (inputsOf.get(node.id) ?? []).map((edge) => [
        uids.get(edge.from),
        edge.input,
        edge.partitioner.kind,
        edge.sideOutput,
      ]),
    })
    const rank = ranks.get(place) ?? 0
    ranks.set(place, rank + 1)
    uids.set(node.id, node.uid ?? hashText(`${place}#${rank}`))
  }
  return uids
}

/** What a node is, without its settings: 'source kafka orders', 'map', 'sink print'. */
export function kindOf(node: StreamNode): string {
  switch (node.kind) {
    case 'source':
      return `source ${node.source.kind} ${node.name}`
    case 'sink':
      return `sink ${node.sink.kind}`
    case 'operator':
      return node.operatorKind
  }
}
