/** What is refused before a job starts, because its output would never be seen. */
import { isTwoPhase } from '../core/connector.ts'
import type { JobGraph } from '../core/graph/job-graph.ts'
import type { JobSettings } from '../core/job-settings.ts'
import { MillraceError } from '../errors.ts'

/**
 * A sink in two phases commits with checkpoints, the last of which is the end of the input: without either nothing is ever committed.
 * @throws MILLRACE_CHECKPOINTING_REQUIRED naming the sink
 */
export function checkOutputIsCommitted(graph: JobGraph, settings: JobSettings): void {
  if (settings.checkpointing.intervalMs !== undefined) return
  const operators = graph.vertices.flatMap((vertex) => vertex.operators)
  if (operators.every(({ node }) => node.kind !== 'source' || node.source.bounded)) return
  for (const { node, name } of operators)
    if (node.kind === 'sink' && isTwoPhase(node.sink) && node.sink.worksWithoutCheckpoints !== true)
      throw new MillraceError(
        'MILLRACE_CHECKPOINTING_REQUIRED',
        `sink '${name}' (${node.sink.kind}) commits its output with checkpoints and the job is unbounded, but checkpointing is off: nothing would ever be committed`,
        { remedy: 'Call env.enableCheckpointing(intervalMs).' },
      )
}
