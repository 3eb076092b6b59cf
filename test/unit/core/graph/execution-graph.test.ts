import { describe, expect, test } from '@jest/globals'
import {
  buildExecutionGraph,
  downstreamSubtasks,
  explain,
  upstreamSubtasks,
} from '../../../../src/core/graph/execution-graph.ts'
import { buildJobGraph } from '../../../../src/core/graph/job-graph-builder.ts'
import { GraphFixture, HASH } from './graph-fixture.ts'

const options = { jobName: 'job', defaultParallelism: 2, maxParallelism: 128 }

describe('channels', () => {
  test('forward connects equal indices', () => {
    expect(upstreamSubtasks('forward', 1, 3, 3)).toEqual([1])
    expect(downstreamSubtasks('forward', 1, 3, 3)).toEqual([1])
  })

  test.each(['hash', 'rebalance', 'broadcast', 'global', 'custom'] as const)(
    '%s connects every pair',
    (kind) => {
      expect(upstreamSubtasks(kind, 1, 3, 2)).toEqual([0, 1, 2])
      expect(downstreamSubtasks(kind, 2, 3, 2)).toEqual([0, 1])
    },
  )

  test('rescale connects neighbouring ranges, and leaves nobody out', () => {
    expect([0, 1].map((subtask) => upstreamSubtasks('rescale', subtask, 4, 2))).toEqual([
      [0, 1],
      [2, 3],
    ])
    expect([0, 1].map((subtask) => downstreamSubtasks('rescale', subtask, 2, 4))).toEqual([
      [0, 1],
      [2, 3],
    ])
    for (let up = 1; up <= 7; up++)
      for (let down = 1; down <= 7; down++) {
        const senders = Array.from({ length: down }, (_, i) => upstreamSubtasks('rescale', i, up, down))
        expect(senders.every((list) => list.length > 0)).toBe(true)
        expect(new Set(senders.flat()).size).toBe(up)
      }
  })

  test('of a whole graph are listed by edge, receiver and sender', () => {
    const graph = new GraphFixture()
    graph.sink(
      'out',
      graph.operator('count', graph.source('orders', { parallelism: 1 }), { partitioner: HASH }),
    )
    const { subtasks, channels } = buildExecutionGraph(buildJobGraph(graph, options))
    expect(subtasks).toEqual([
      { vertex: 0, subtask: 0 },
      { vertex: 1, subtask: 0 },
      { vertex: 1, subtask: 1 },
    ])
    expect(channels).toEqual([
      { edge: 0, from: { vertex: 0, subtask: 0 }, to: { vertex: 1, subtask: 0 } },
      { edge: 0, from: { vertex: 0, subtask: 0 }, to: { vertex: 1, subtask: 1 } },
    ])
  })
})

test('explain draws vertices, chained operators, edges and warnings', () => {
  const graph = new GraphFixture()
  const map = graph.operator('map', graph.source('orders'))
  const count = graph.operator('count', map, { partitioner: HASH, keyOf: [(v) => v], stateful: true })
  const late = graph.sink('late', [], { uid: 'late-out' })
  graph.edge({ from: count, to: late, sideOutput: 'late' })
  graph.sink('out', count, { parallelism: 1 })
  const text = explain(buildJobGraph(graph, options)).replace(/[0-9a-f]{32}|[0-9a-f]{8}…/g, '#')
  expect(text).toBe(
    [
      'fingerprint #',
      '',
      '0  orders -> map',
      '   parallelism 2',
      '   orders  [source: test]  no uid (#)',
      '   └─ map  [map]  no uid (#)',
      '      ══ hash ══▶ 1',
      '',
      '1  count -> late',
      '   parallelism 2, 128 key groups',
      '   count  [count]  no uid (#)',
      "   └─ side output 'late': late  [sink: test]  uid late-out",
      '   ══ rebalance ══▶ 2',
      '',
      '2  out',
      '   parallelism 1',
      '   out  [sink: test]  no uid (#)',
      '',
      "warning: operator 'count' (job.ts:3) keeps state but has no uid: add .uid('…') so that a changed job finds this state again",
    ].join('\n'),
  )
})
