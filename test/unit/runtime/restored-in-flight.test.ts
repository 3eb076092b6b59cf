import { describe, expect, test } from '@jest/globals'
import { recordVector } from '../../../src/core/element.ts'
import type { JobGraph } from '../../../src/core/graph/job-graph.ts'
import { edgeName, restoredFor } from '../../../src/runtime/restored-in-flight.ts'

/** One sender, `parallelism` receivers, and a partitioner of the user between them. */
function graphOf(parallelism: number, choose: (key: number, partitions: number) => number): JobGraph {
  const vertex = (id: number, uid: string, subtasks: number) => ({
    id,
    name: uid,
    parallelism: subtasks,
    maxParallelism: 128,
    operators: [{ uid, name: uid }],
  })
  const partitioner = { kind: 'custom', choose, keyOf: (value: number) => value }
  return {
    vertices: [vertex(0, 'up', 1), vertex(1, 'down', parallelism)],
    edges: [{ id: 0, from: 0, to: 1, fromOperator: 0, input: 0, partitioner }],
  } as unknown as JobGraph
}

/** What each receiver gets of records 0 to 5 that were in flight when there were four. */
function given(parallelism: number, choose: (key: number, partitions: number) => number): unknown[][] {
  const graph = graphOf(parallelism, choose)
  const stored = [
    {
      subtask: 3,
      elements: [
        { edge: edgeName(graph, graph.edges[0]!), from: 0, element: recordVector([0, 1, 2, 3, 4, 5], []) },
      ],
    },
  ]
  const sender = () => ({
    jobName: 'job',
    operatorName: 'up',
    uid: 'up',
    subtaskIndex: 0,
    parallelism: 1,
    attempt: 2,
  })
  return Array.from({ length: parallelism }, (_, subtask) =>
    restoredFor(graph, graph.vertices[1]!, subtask, stored, (uid) => (uid === 'up' ? 1 : 4), sender).flatMap(
      ({ element }) => (element.kind === 'records' ? element.values : []),
    ),
  )
}

describe('records in flight behind partitionCustom, at another parallelism', () => {
  test('are given out anew, each once', () => {
    expect(given(2, (key, partitions) => key % partitions)).toEqual([
      [0, 2, 4],
      [1, 3, 5],
    ])
    // With one receiver nobody is asked, as where records are sent.
    expect(given(1, () => 7)).toEqual([[0, 1, 2, 3, 4, 5]])
  })

  test('a choice that is not there is an error with the sender and the record, not a lost record', () => {
    expect(() => given(3, (key) => key)).toThrow(
      expect.objectContaining({
        code: 'MILLRACE_USER_FUNCTION',
        message: expect.stringMatching(/operator 'up'.*it chose partition 3; there are 3 \(0 to 2\)/),
        details: expect.objectContaining({ record: '3' }),
      }),
    )
  })
})
