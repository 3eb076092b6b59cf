/**
 * Who reads the records again that were in channels when an unaligned checkpoint was taken. Where nothing changed everybody gets its own back,
 * watermarks included. At another parallelism records are sent anew by the edge's partitioner, and watermarks are left out: the sources
 * make them again. A broadcast edge cannot change: its receivers had read it to different places.
 */
import type { InFlightElement, KeptElement } from '../checkpoint/in-flight.ts'
import type { SubtaskInfo } from '../core/connector.ts'
import { recordVector } from '../core/element.ts'
import type { JobEdge, JobGraph, JobVertex } from '../core/graph/job-graph.ts'
import { subtaskOfKey } from '../core/graph/key-groups.ts'
import { MillraceError } from '../errors.ts'
import { customChoice } from './partition-choice.ts'

/** Name of an edge in checkpoints: the operators at its ends, by uid. */
export function edgeName(graph: JobGraph, edge: JobEdge): string {
  const up = (graph.vertices[edge.from] as JobVertex).operators[edge.fromOperator]
  const down = (graph.vertices[edge.to] as JobVertex).operators[0]
  return `${up?.uid}/${edge.sideOutput ?? ''}→${down?.uid}/${edge.input}`
}

/** What one subtask of the checkpoint held. */
export interface StoredInFlight {
  readonly subtask: number
  readonly elements: readonly InFlightElement[]
}

/** An element for a channel of a subtask. */
export interface RestoredElement {
  readonly edge: JobEdge
  /** Upstream subtask whose channel it goes into. */
  readonly from: number
  readonly element: KeptElement
}

/** Parallelism of a vertex's operator when the checkpoint was taken; undefined = it was not there. */
export type FormerParallelism = (uid: string) => number | undefined

/**
 * `senderOf` tells who sent a record, for errors of partitionCustom.
 * @throws MILLRACE_STATE_NOT_RESTORED for records whose edge is gone, or cannot be given out anew.
 */
export function restoredFor(
  graph: JobGraph,
  vertex: JobVertex,
  subtask: number,
  stored: readonly StoredInFlight[],
  former: FormerParallelism,
  senderOf?: (edge: JobEdge, from: number) => SubtaskInfo,
): RestoredElement[] {
  const edges = new Map(
    graph.edges.filter((edge) => edge.to === vertex.id).map((edge) => [edgeName(graph, edge), edge]),
  )
  return stored.flatMap(({ subtask: reader, elements }) =>
    elements.flatMap(({ edge: name, from, element }) => {
      const edge = edges.get(name)
      if (edge === undefined) throw gone(name)
      const up = graph.vertices[edge.from] as JobVertex
      const same =
        former(vertex.operators[0]?.uid ?? '') === vertex.parallelism &&
        former(up.operators[edge.fromOperator]?.uid ?? '') === up.parallelism
      if (same) return reader === subtask ? [{ edge, from, element }] : []
      if (element.kind !== 'records') return []
      const own = ownPart(edge, vertex, reader, subtask, element, senderOf?.(edge, from))
      return own === undefined ? [] : [{ edge, from: from % up.parallelism, element: own }]
    }),
  )
}

/** The part of a vector that goes to `subtask` at the new parallelism. */
function ownPart(
  { partitioner }: JobEdge,
  { parallelism, maxParallelism, name }: JobVertex,
  reader: number,
  subtask: number,
  vector: Extract<KeptElement, { kind: 'records' }>,
  sender: SubtaskInfo | undefined,
): KeptElement | undefined {
  switch (partitioner.kind) {
    case 'broadcast':
      throw new MillraceError(
        'MILLRACE_STATE_NOT_RESTORED',
        `records on their way to '${name}' over a broadcast edge cannot be given out at another parallelism`,
        { remedy: 'Start with the former parallelism, take a savepoint, and change it from there.' },
      )
    case 'hash': {
      const { keyOf } = partitioner
      return pick(vector, (value) => subtaskOfKey(keyOf(value), maxParallelism, parallelism) === subtask)
    }
    case 'custom': {
      // As where records are sent: nobody is asked which of one it is.
      if (parallelism === 1) return vector
      const choice = customChoice(partitioner, parallelism, sender)
      return pick(vector, (value) => choice(value) === subtask)
    }
    case 'global':
      return subtask === 0 ? vector : undefined
    default:
      return reader % parallelism === subtask ? vector : undefined
  }
}

function pick(
  { values, timestamps }: Extract<KeptElement, { kind: 'records' }>,
  own: (value: unknown) => boolean,
): KeptElement | undefined {
  const kept = values.flatMap((value, i) => (own(value) ? [i] : []))
  if (kept.length === 0) return undefined
  return recordVector(
    kept.map((i) => values[i]),
    kept.map((i) => timestamps[i] as number),
  )
}

function gone(name: string): MillraceError {
  return new MillraceError(
    'MILLRACE_STATE_NOT_RESTORED',
    `the checkpoint holds records on the edge ${name}, which the job does not have any more`,
    { remedy: 'Start with the former graph, take a savepoint, and change it from there.' },
  )
}
