import { beforeEach, describe, expect, test } from '@jest/globals'
import {
  type Collector,
  CoProcessFunction,
  collectSink,
  type DataStream,
  KeyedBroadcastProcessFunction,
  KeyedCoProcessFunction,
  KeyedProcessFunction,
  MapStateDescriptor,
  OutputTag,
  ProcessFunction,
  StreamExecutionEnvironment,
  WatermarkStrategy,
} from 'millrace'
import type { OperatorNode, StreamGraph, StreamNode } from '../../../src/core/graph/stream-graph.ts'
import { RecordingExecutor } from './recording-executor.ts'

interface Order {
  user: string
  amount: number
}

class Keyed extends KeyedProcessFunction<string, Order, Order> {
  override processElement(order: Order, _ctx: this['Context'], out: Collector<Order>) {
    out.collect(order)
  }
}
class Plain extends ProcessFunction<Order, Order> {
  override processElement(order: Order, _ctx: this['Context'], out: Collector<Order>) {
    out.collect(order)
  }
}
class Remembering extends Plain {
  override snapshotState() {}
}
class Co extends CoProcessFunction<Order, string, string> {
  override processElement1() {}
  override processElement2() {}
}
class KeyedCo extends KeyedCoProcessFunction<string, Order, string, string> {
  override processElement1() {}
  override processElement2() {}
}
class Rules extends KeyedBroadcastProcessFunction<string, Order, string, Order> {
  override processElement() {}
  override processBroadcastElement() {}
}

let executor: RecordingExecutor
let env: StreamExecutionEnvironment
let orders: DataStream<Order>

beforeEach(() => {
  executor = new RecordingExecutor()
  env = StreamExecutionEnvironment.getExecutionEnvironment()
  orders = env.fromCollection<Order>([]).name('orders')
})

async function graphOf(stream: DataStream<any>): Promise<StreamGraph> {
  stream.sinkTo(collectSink())
  await env.executeAsync('job')
  return executor.last.graph
}

/** The operator before the sink, and the edges that lead to it. */
async function lastOperator(stream: DataStream<any>) {
  const graph = await graphOf(stream)
  const node = graph.nodes.at(-2) as OperatorNode
  return { node, edges: graph.edges.filter((edge) => edge.to === node.id), graph }
}

const nodeNames = (graph: StreamGraph) => graph.nodes.map((node: StreamNode) => node.name)

describe('operators', () => {
  test.each<[string, (stream: DataStream<Order>) => DataStream<any>, boolean]>([
    ['map', (s) => s.map((o) => o.amount), false],
    ['filter', (s) => s.filter((o) => o.amount > 0), false],
    ['flat-map', (s) => s.flatMap((o) => [o, o]), false],
    ['process', (s) => s.process(new Plain()), false],
    ['process', (s) => s.process(new Remembering()), true],
    [
      'timestamps-and-watermarks',
      (s) => s.assignTimestampsAndWatermarks(WatermarkStrategy.noWatermarks()),
      false,
    ],
    ['co-process', (s) => s.connect(env.fromCollection(['a'])).process(new Co()), false],
    [
      'co-map',
      (s) =>
        s.connect(env.fromCollection(['a'])).map(
          (o) => o.user,
          (text) => text,
        ),
      false,
    ],
    [
      'co-flat-map',
      (s) => s.connect(env.fromCollection(['a'])).flatMap({ flatMap1: () => [1], flatMap2: () => [2] }),
      false,
    ],
  ])('%s is a node without keys, fed by an implied forward', async (kind, build, stateful) => {
    const { node, edges } = await lastOperator(build(orders))
    expect(node).toMatchObject({
      kind: 'operator',
      operatorKind: kind,
      keyOf: undefined,
      stateful,
      chaining: 'always',
    })
    expect(edges.map((edge) => edge.input)).toEqual(kind.startsWith('co-') ? [0, 1] : [0])
    for (const edge of edges) expect(edge.partitioner).toEqual({ kind: 'forward', implied: true })
  })

  test.each<[string, (stream: DataStream<Order>) => DataStream<any>]>([
    ['keyed-process', (s) => s.keyBy((o) => o.user).process(new Keyed())],
    ['keyed-process', (s) => s.keyBy((o) => o.user).process(new Plain())],
    ['reduce', (s) => s.keyBy((o) => o.user).reduce((_a, b) => b)],
    ['sum', (s) => s.keyBy((o) => o.user).sum('amount')],
    ['min', (s) => s.keyBy((o) => o.user).min('amount')],
    ['max', (s) => s.keyBy((o) => o.user).max('amount')],
    ['minBy', (s) => s.keyBy((o) => o.user).minBy('amount')],
    ['maxBy', (s) => s.keyBy((o) => o.user).maxBy('amount')],
  ])('%s keeps state, fed by key', async (kind, build) => {
    const { node, edges } = await lastOperator(build(orders))
    expect(node).toMatchObject({ operatorKind: kind, stateful: true })
    const order = { user: 'a', amount: 1 }
    expect(node.keyOf!.map((keyOf) => keyOf!(order))).toEqual(['a'])
    expect(edges).toEqual([expect.objectContaining({ partitioner: { kind: 'hash', keyOf: node.keyOf![0] } })])
  })

  test('two keyed streams share an operator with a key selector for each input', async () => {
    const words = env.fromCollection(['a'])
    for (const connected of [
      orders.keyBy((o) => o.user).connect(words.keyBy((text) => text)),
      orders.connect(words).keyBy(
        (o) => o.user,
        (text) => text,
      ),
    ]) {
      const { node, edges } = await lastOperator(connected.process(new KeyedCo()))
      expect(node.operatorKind).toBe('keyed-co-process')
      expect(edges.map(({ input, partitioner }) => [input, partitioner.kind])).toEqual([
        [0, 'hash'],
        [1, 'hash'],
      ])
      expect(node.keyOf!.map((keyOf, i) => keyOf!([{ user: 'u' }, 'w'][i]))).toEqual(['u', 'w'])
    }
  })

  test('a broadcast stream goes whole to each subtask of the keyed operator beside it', async () => {
    const rules = env.fromCollection(['rule']).broadcast(new MapStateDescriptor<string, string>('rules'))
    const { node, edges } = await lastOperator(
      orders
        .keyBy((o) => o.user)
        .connect(rules)
        .process(new Rules()),
    )
    expect(node).toMatchObject({ operatorKind: 'keyed-broadcast-process', stateful: true })
    expect(node.keyOf![1]).toBeUndefined()
    expect(edges.map(({ input, partitioner }) => [input, partitioner.kind])).toEqual([
      [0, 'hash'],
      [1, 'broadcast'],
    ])
  })

  test('a union has an edge from each of its streams, with the partitioner that each had', async () => {
    const { edges } = await lastOperator(
      orders
        .rebalance()
        .union(orders, orders.global())
        .map((o) => o),
    )
    expect(edges.map(({ partitioner }) => partitioner.kind)).toEqual(['rebalance', 'forward', 'global'])
  })

  test('a side output is an edge of its own', async () => {
    const tag = new OutputTag<string>('late')
    const { edges } = await lastOperator(
      orders
        .process(new Plain())
        .getSideOutput(tag)
        .map((text) => text),
    )
    expect(edges).toEqual([expect.objectContaining({ sideOutput: 'late' })])
    expect(() => orders.union(orders).getSideOutput(tag)).toThrow(
      "side output 'late' must be taken from the operator",
    )
  })

  test.each<[string, (stream: DataStream<Order>) => DataStream<Order>]>([
    ['rebalance', (s) => s.rebalance()],
    ['rescale', (s) => s.rescale()],
    ['broadcast', (s) => s.broadcast()],
    ['global', (s) => s.global()],
    [
      'custom',
      (s) =>
        s.partitionCustom(
          (key: string) => key.length,
          (o) => o.user,
        ),
    ],
    ['hash', (s) => s.keyBy((o) => o.user)],
  ])('%s is the partitioner of the next edge', async (kind, partition) => {
    const { edges } = await lastOperator(partition(orders).map((o) => o))
    expect(edges[0]!.partitioner.kind).toBe(kind)
  })

  test('forward() is told from a forward that nobody asked for', async () => {
    const { edges } = await lastOperator(orders.forward().map((o) => o))
    expect(edges[0]!.partitioner).toEqual({ kind: 'forward' })
  })
})

describe('settings', () => {
  test('of an operator are those of its node', async () => {
    const stream = orders
      .map((o) => o)
      .uid('u')
      .name('n')
      .setParallelism(3)
      .setMaxParallelism(64)
      .startNewChain()
      .slotSharingGroup('g')
    expect((await lastOperator(stream)).node).toMatchObject({
      uid: 'u',
      name: 'n',
      parallelism: 3,
      maxParallelism: 64,
      chaining: 'head',
      slotSharingGroup: 'g',
    })
  })

  test('of a sink and of a source are those of their nodes', async () => {
    const source = env.fromSequence(1, 2).uid('s').disableChaining()
    source
      .print('p')
      .uid('k')
      .name('lines')
      .setParallelism('auto')
      .setMaxParallelism(2)
      .disableChaining()
      .slotSharingGroup('g')
    await env.executeAsync()
    const [first, second] = executor.last.graph.nodes.slice(1)
    expect(first).toMatchObject({ kind: 'source', uid: 's', chaining: 'never' })
    expect(second).toMatchObject({
      kind: 'sink',
      uid: 'k',
      name: 'lines',
      parallelism: 'auto',
      maxParallelism: 2,
      chaining: 'never',
    })
  })

  test('out of their range are refused with the operator and its place', () => {
    const map = orders.map((o) => o)
    expect(() => map.setParallelism(0)).toThrow(
      /operator 'map' \(test\/unit\/api\/data-stream\.test\.ts:\d+\) must be a whole number from 1/,
    )
    expect(() => map.setMaxParallelism(32_769)).toThrow('from 1 to 32768, not 32769')
    expect(() => map.uid('')).toThrow('uid must be a text')
  })

  test('each node knows the line that declared it', async () => {
    const line = Number(/data-stream\.test\.ts:(\d+)/.exec(new Error().stack!)![1])
    const { node } = await lastOperator(orders.map((o) => o))
    expect(node.declaredAt).toBe(`test/unit/api/data-stream.test.ts:${line + 1}`)
  })
})

describe('functions are checked when the job is declared', () => {
  test.each<[string, (stream: DataStream<any>) => unknown]>([
    ['map() needs a function, not 5', (s) => s.connect(s).map((x) => x, 5 as never)],
    ['map(): Object has no method map()', (s) => s.map({} as never)],
    ['map(): undefined has no method map()', (s) => s.map(undefined as never)],
    ['process(): Object has no method processElement()', (s) => s.process({} as never)],
    ['process() was given the class Plain; give it an object: new Plain()', (s) => s.process(Plain as never)],
    ['process(): Keyed is a KeyedProcessFunction and needs keys', (s) => s.process(new Keyed() as never)],
    [
      'process(): KeyedCo is a KeyedCoProcessFunction and needs keys',
      (s) => s.connect(s).process(new KeyedCo() as never),
    ],
  ])('%s', (message, build) => {
    expect(() => build(orders)).toThrow(message)
  })
})

describe('a later job', () => {
  test('has what was declared since, and what that reads from, with ids from 0', async () => {
    const mapped = orders.map((o) => o.amount)
    mapped.print()
    await env.executeAsync('first')
    env.fromSequence(1, 2).print()
    mapped.filter((amount) => amount > 0).sinkTo(collectSink())
    await env.executeAsync('second')
    const [first, second] = executor.submissions
    expect(nodeNames(first!.graph)).toEqual(['orders', 'map', 'print'])
    expect(nodeNames(second!.graph)).toEqual(['orders', 'map', 'sequence', 'print', 'filter', 'collect sink'])
    expect(second!.graph.nodes.map((node) => node.id)).toEqual([0, 1, 2, 3, 4, 5])
    expect(second!.graph.edges.map(({ from, to }) => [from, to])).toEqual([
      [0, 1],
      [2, 3],
      [1, 4],
      [4, 5],
    ])
  })

  test('is not changed by settings made after it was submitted', async () => {
    const map = orders.map((o) => o)
    const { node } = await lastOperator(map)
    map.name('renamed')
    expect(node.name).toBe('map')
  })
})
