import { describe, expect, test } from '@jest/globals'
import { buildJobGraph } from '../../../../src/core/graph/job-graph-builder.ts'
import type { StreamGraph } from '../../../../src/core/graph/stream-graph.ts'
import { FORWARD, GraphFixture, HASH, sinkOf, sourceOf } from './graph-fixture.ts'

const build = (graph: StreamGraph, defaultParallelism = 2, maxParallelism = 128) =>
  buildJobGraph(graph, { jobName: 'job', defaultParallelism, maxParallelism })

const names = (graph: StreamGraph, defaultParallelism?: number) =>
  build(graph, defaultParallelism).vertices.map((vertex) => vertex.name)

/** source -> map =hash=> count -> sink */
function keyedJob(settings: { uid?: string; parallelism?: number } = {}): GraphFixture {
  const graph = new GraphFixture()
  const map = graph.operator('map', graph.source('orders'))
  const count = graph.operator('count', map, {
    partitioner: HASH,
    keyOf: [(v) => v],
    stateful: true,
    ...settings,
  })
  graph.sink('out', count)
  return graph
}

describe('chaining', () => {
  test('forward edges with equal parallelism become direct calls, a keyed edge does not', () => {
    const { vertices, edges } = build(keyedJob())
    expect(vertices.map(({ name, parallelism }) => [name, parallelism])).toEqual([
      ['orders -> map', 2],
      ['count -> out', 2],
    ])
    expect(edges).toEqual([
      { id: 0, from: 0, fromOperator: 1, to: 1, input: 0, partitioner: HASH, sideOutput: undefined },
    ])
    expect(vertices[0]!.chainedEdges).toEqual([{ from: 0, to: 1, input: 0, sideOutput: undefined }])
  })

  test('at parallelism 1 a keyed edge is a direct call too', () => {
    expect(names(keyedJob(), 1)).toEqual(['orders -> map -> count -> out'])
  })

  test('an implied forward becomes a rebalance where parallelism differs', () => {
    const graph = new GraphFixture()
    graph.sink('out', graph.operator('map', graph.source('numbers', { parallelism: 1 })))
    const { vertices, edges } = build(graph)
    expect(vertices.map((vertex) => vertex.name)).toEqual(['numbers', 'map -> out'])
    expect(edges[0]!.partitioner).toEqual({ kind: 'rebalance' })
  })

  test('several consumers of one operator form a tree with one head', () => {
    const graph = new GraphFixture()
    const source = graph.source('source')
    const map = graph.operator('map', source)
    graph.sink('a', map)
    graph.sink('b', graph.operator('filter', map))
    const side = graph.sink('c', [])
    graph.edge({ from: map, to: side, sideOutput: 'late' })
    const { vertices, edges } = build(graph)
    expect(vertices.map((vertex) => vertex.name)).toEqual(['source -> map -> (a, filter -> b, c)'])
    expect(edges).toEqual([])
    expect(vertices[0]!.chainedEdges).toEqual([
      { from: 0, to: 1, input: 0, sideOutput: undefined },
      { from: 1, to: 2, input: 0, sideOutput: undefined },
      { from: 1, to: 3, input: 0, sideOutput: undefined },
      { from: 3, to: 4, input: 0, sideOutput: undefined },
      { from: 1, to: 5, input: 0, sideOutput: 'late' },
    ])
  })

  test('a union and a two-input operator head their own vertices', () => {
    const graph = new GraphFixture()
    const [a, b] = [graph.source('a'), graph.source('b')]
    const union = graph.operator('union-map', [a, b])
    const both = graph.operator('co', union)
    graph.edge({ from: b, to: both, input: 1 })
    graph.sink('out', both)
    expect(names(graph, 1)).toEqual(['a', 'b', 'union-map', 'co -> out'])
  })

  test.each([
    ['disableChaining cuts before and behind', { chaining: 'never' } as const, ['source', 'map', 'out']],
    ['startNewChain cuts before', { chaining: 'head' } as const, ['source', 'map -> out']],
    ['another max parallelism cuts', { maxParallelism: 64 }, ['source', 'map', 'out']],
    [
      'another slot sharing group cuts, and is inherited',
      { slotSharingGroup: 'big' },
      ['source', 'map -> out'],
    ],
  ])('%s', (_name, settings, expected) => {
    const graph = new GraphFixture()
    graph.sink('out', graph.operator('map', graph.source('source'), settings))
    expect(names(graph)).toEqual(expected)
  })

  test('vertices are in topological order with sources first', () => {
    const graph = new GraphFixture()
    const a = graph.source('a', { parallelism: 1 })
    const first = graph.operator('first', a, { partitioner: HASH })
    const b = graph.source('b', { parallelism: 1 })
    graph.sink('out', [first, b])
    expect(names(graph)).toEqual(['a', 'b', 'first', 'out'])
  })
})

describe('parallelism', () => {
  test('that follows the slots stops at max parallelism', () => {
    const { vertices } = build(keyedJob(), 200)
    expect(vertices.map((vertex) => vertex.parallelism)).toEqual([128, 128])
  })

  test('that was set above max parallelism is refused', () => {
    expect(() => build(keyedJob({ parallelism: 129 }))).toThrow(
      "operator 'count' (job.ts:3): parallelism 129 is larger than its max parallelism 128",
    )
  })

  test.each([0, 32_769, 1.5])('max parallelism %s is refused', (maxParallelism) => {
    expect(() => build(keyedJob(), 1, maxParallelism)).toThrow(
      'max parallelism must be a whole number from 1 to 32768',
    )
  })

  test('an explicit forward between different parallelism is refused', () => {
    const graph = new GraphFixture()
    const source = graph.source('numbers', { parallelism: 1 })
    graph.sink('out', graph.operator('map', source, { partitioner: { kind: 'forward' } }))
    expect(() => build(graph)).toThrow(
      "forward() from source 'numbers' (job.ts:1) with parallelism 1 to operator 'map' (job.ts:2) with parallelism 2",
    )
  })
})

describe('what cannot run is refused with the names of the operators', () => {
  test('nothing but sources', () => {
    const graph = new GraphFixture()
    graph.source('orders')
    expect(() => build(graph)).toThrow(
      "job 'job': No operators defined in streaming topology. Cannot execute.",
    )
    expect(() => build({ nodes: [], edges: [] })).toThrow('Cannot execute')
  })

  test('a cycle', () => {
    const graph = new GraphFixture()
    const map = graph.operator('map', graph.source('source'))
    const filter = graph.operator('filter', map)
    graph.edge({ from: filter, to: map })
    graph.sink('out', filter)
    expect(() => build(graph)).toThrow(
      "the graph has a cycle through operator 'map' (job.ts:2), operator 'filter' (job.ts:3)",
    )
  })

  test('an operator without input, a source with one, a sink with a consumer, a loose edge', () => {
    const graph = new GraphFixture()
    const source = graph.source('source')
    graph.operator('map', [])
    expect(() => build(graph)).toThrow("operator 'map' (job.ts:2) has no input")
    expect(() => build({ nodes: graph.nodes, edges: [{ ...edge, from: 1, to: source }] })).toThrow(
      'takes no input',
    )
    const sink = graph.sink('out', source)
    expect(() => build({ nodes: graph.nodes, edges: [{ ...edge, from: sink, to: 1 }] })).toThrow(
      'has no output',
    )
    expect(() => build({ nodes: graph.nodes, edges: [{ ...edge, from: 0, to: 77 }] })).toThrow('from 0 to 77')
  })

  test('a uid that is used twice', () => {
    const graph = keyedJob({ uid: 'a' })
    graph.sink('second', 1, { uid: 'a' })
    expect(() => build(graph)).toThrow(
      "uid 'a' is used twice: by operator 'count' (job.ts:3) and by sink 'second' (job.ts:5)",
    )
  })

  test('two sinks with one transactional-id prefix', () => {
    const graph = new GraphFixture()
    const source = graph.source('source')
    graph.sink('a', source, { sink: sinkOf('kafka', { transactionalIdPrefix: 'etl' }) })
    graph.sink('b', source, { sink: sinkOf('kafka', { transactionalIdPrefix: 'etl' }) })
    expect(() => build(graph)).toThrow("same transactionalIdPrefix 'etl'")
    graph.nodes[2] = { ...graph.nodes[2]!, sink: sinkOf('kafka', { transactionalIdPrefix: 'etl2' }) } as never
    expect(build(graph).vertices).toHaveLength(1)
  })

  test('two sources that read one topic with one group', () => {
    const read = (first: object, second: object) => {
      const graph = new GraphFixture()
      const a = graph.source('a', { source: sourceOf('kafka', { ...first }) })
      const b = graph.source('b', { source: sourceOf('kafka', { ...second }) })
      graph.sink('out', [a, b])
      return () => build(graph)
    }
    const facts = { topics: ['x', 'y'], groupId: 'etl' }
    expect(read(facts, { ...facts, topics: ['y'] })).toThrow("both read topic 'y' with group 'etl'")
    expect(read(facts, { partitions: [{ topic: 'x', partition: 0 }], groupId: 'etl' })).toThrow("topic 'x'")
    expect(read({ topicPattern: /a.*/, groupId: 'etl' }, { topicPattern: /a.*/, groupId: 'etl' })).toThrow(
      '/a.*/',
    )
    expect(read(facts, { ...facts, groupId: 'other' })).not.toThrow()
    expect(read(facts, { ...facts, topics: ['z'] })).not.toThrow()
    expect(read({ topics: ['x'] }, { topics: ['x'] })).not.toThrow()
  })
})

describe('warnings', () => {
  test('name a stateful operator without uid', () => {
    expect(build(keyedJob()).warnings).toEqual([
      expect.stringContaining("operator 'count' (job.ts:3) keeps state but has no uid"),
    ])
    expect(build(keyedJob({ uid: 'count' })).warnings).toEqual([])
  })

  test('name a source without consumer, which is left out', () => {
    const graph = keyedJob({ uid: 'count' })
    graph.source('spare')
    expect(build(graph).warnings).toEqual(["source 'spare' (job.ts:5) has no consumer and is left out"])
    expect(names(graph)).toEqual(['orders -> map', 'count -> out'])
  })

  test('tell that there is no sink', () => {
    const graph = new GraphFixture()
    graph.operator('map', graph.source('source'))
    expect(build(graph).warnings).toEqual([expect.stringContaining('no sink')])
  })
})

describe('uids', () => {
  const uids = (graph: StreamGraph, parallelism = 2) =>
    build(graph, parallelism).vertices.flatMap((vertex) => vertex.operators.map(({ uid }) => uid))

  test('given ones are kept, others are derived and marked', () => {
    const operators = build(keyedJob({ uid: 'count' })).vertices.flatMap((vertex) => vertex.operators)
    expect(operators.map(({ uidIsExplicit }) => uidIsExplicit)).toEqual([false, false, true, false])
    expect(operators[2]!.uid).toBe('count')
    expect(operators[1]!.uid).toMatch(/^[0-9a-f]{32}$/)
  })

  test('derived ones do not depend on parallelism or on the names of operators', () => {
    const renamed = keyedJob()
    renamed.nodes[1]!.name = 'convert'
    expect(uids(renamed, 5)).toEqual(uids(keyedJob()))
    expect(uids(keyedJob(), 1)).toEqual(uids(keyedJob()))
  })

  test('equal siblings have different ones, and a new consumer elsewhere changes none', () => {
    const siblings = () => {
      const graph = new GraphFixture()
      const source = graph.source('source')
      graph.sink('a', graph.operator('map', source))
      graph.sink('b', graph.operator('map', source))
      return graph
    }
    const before = uids(siblings())
    expect(new Set(before).size).toBe(5)
    const grown = siblings()
    grown.sink('c', grown.operator('filter', 0))
    expect(uids(grown)).toEqual(expect.arrayContaining(before))
  })

  test('derived ones never change between versions', () => {
    // State is stored under these: a change here loses the state of every operator without uid.
    expect(uids(keyedJob())).toEqual(GOLDEN_UIDS)
  })
})

describe('fingerprint', () => {
  const fingerprint = (graph: StreamGraph, parallelism = 2, maxParallelism = 128) =>
    build(graph, parallelism, maxParallelism).fingerprint

  test('is the same for two builds of one job, whatever the number of slots and the names', () => {
    const renamed = keyedJob()
    for (const node of renamed.nodes) node.name = node.kind === 'source' ? node.name : `${node.name}!`
    expect(fingerprint(keyedJob(), 1)).toBe(fingerprint(keyedJob(), 7))
    expect(fingerprint(renamed)).toBe(fingerprint(keyedJob()))
    expect(fingerprint(keyedJob())).toMatch(/^[0-9a-f]{32}$/)
  })

  test.each<[string, (graph: GraphFixture) => void]>([
    ['an operator more', (graph) => graph.sink('more', 1)],
    ['a uid', (graph) => (graph.nodes[2]!.uid = 'count')],
    ['a parallelism that was set', (graph) => (graph.nodes[2]!.parallelism = 2)],
    [
      'a partitioner',
      (graph) => (graph.edges[0] = { ...graph.edges[0]!, partitioner: { kind: 'rebalance' } }),
    ],
    ['a side output', (graph) => (graph.edges[0] = { ...graph.edges[0]!, sideOutput: 'late' })],
    ['chaining', (graph) => (graph.nodes[2]!.chaining = 'never')],
    [
      'what a source reads',
      (graph) => Object.assign(graph.nodes[0]!, { source: sourceOf('test', { topics: ['x'] }) }),
    ],
    [
      'what a sink writes',
      (graph) => Object.assign(graph.nodes[3]!, { sink: sinkOf('test', { topic: 'x' }) }),
    ],
  ])('changes with %s', (_name, change) => {
    const changed = keyedJob()
    change(changed)
    expect(fingerprint(changed)).not.toBe(fingerprint(keyedJob()))
  })

  test('changes with the number of key groups', () => {
    expect(fingerprint(keyedJob(), 2, 256)).not.toBe(fingerprint(keyedJob()))
  })
})

const edge = { input: 0, partitioner: FORWARD, sideOutput: undefined }
const GOLDEN_UIDS = [
  '1a2a6df2adf6cecefa8aeb9cd117454d',
  '8c8975f91d3ca66949f3247ec0bd7ea3',
  '2cc11ac2a4c841f147cfc54c2ce877d7',
  '6f046b43f4aac748fe4f9928cdcd1319',
]
