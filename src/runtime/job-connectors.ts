/** The connectors of a job that its master talks to itself, by operator uid. */
import { type Committer, isTwoPhase, type Source } from '../core/connector.ts'
import type { JobGraph } from '../core/graph/job-graph.ts'
import type { World } from '../core/ports.ts'

export interface JobConnectors {
  readonly sources: ReadonlyMap<string, Source<unknown, any>>
  /** One of each two-phase sink, made here. */
  readonly committers: ReadonlyMap<string, Committer<unknown>>
}

export function connectorsOf(graph: JobGraph, jobName: string, world: World): JobConnectors {
  const sources = new Map<string, Source<unknown, any>>()
  const committers = new Map<string, Committer<unknown>>()
  for (const vertex of graph.vertices)
    for (const { node, uid } of vertex.operators) {
      if (node.kind === 'source') sources.set(uid, node.source)
      if (node.kind === 'sink' && isTwoPhase(node.sink))
        committers.set(uid, node.sink.createCommitter({ jobName, uid, world }))
    }
  return { sources, committers }
}
