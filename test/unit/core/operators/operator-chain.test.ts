import { expect, test } from '@jest/globals'
import type { RecordVector } from '../../../../src/core/element.ts'
import type { ChainedEdge } from '../../../../src/core/graph/job-graph.ts'
import type { ChainOutput } from '../../../../src/core/operators/chain-output.ts'
import { filterOperator, mapOperator } from '../../../../src/core/operators/map.ts'
import { OperatorChain } from '../../../../src/core/operators/operator-chain.ts'
import { processOperator } from '../../../../src/core/operators/process.ts'
import type { OperatorContext, StreamOperator } from '../../../../src/core/operators/stream-operator.ts'
import { OutputTag } from '../../../../src/core/output-tag.ts'
import { contextFor, deferred, settled, vectorOf } from './recording-output.ts'

const edge = (from: number, to: number, options: Partial<ChainedEdge> = {}): ChainedEdge => ({
  from,
  to,
  input: 0,
  sideOutput: undefined,
  ...options,
})

/** An operator that notes its calls in `log` and passes records on. */
class RecordingOperator implements StreamOperator {
  private readonly name: string
  private readonly log: string[]
  private context!: OperatorContext
  waits: void | Promise<void> = undefined
  failsToClose = false

  constructor(name: string, log: string[]) {
    this.name = name
    this.log = log
  }
  setup(context: OperatorContext) {
    this.context = context
  }
  initializeState() {
    this.log.push(`${this.name} restore`)
  }
  open() {
    this.log.push(`${this.name} open`)
  }
  processVector(vector: RecordVector) {
    this.log.push(`${this.name} ${vector.values}`)
    return this.context.output.emit(vector) ?? this.waits
  }
  processWatermark(timestamp: number) {
    this.log.push(`${this.name} watermark ${timestamp}`)
    return this.context.output.emitWatermark(timestamp)
  }
  processStatus() {}
  endInput(input: number) {
    this.log.push(`${this.name} end ${input}`)
  }
  prepareSnapshot(n: number, end: boolean) {
    this.log.push(`${this.name} prepare ${n} ${end}`)
    return this.waits
  }
  snapshot(n: number) {
    return { committables: [`${this.name}${n}`] }
  }
  close() {
    this.log.push(`${this.name} close`)
    if (this.failsToClose) throw new Error(`${this.name} cannot close`)
  }
}

class RecordingTwoInputs extends RecordingOperator {
  processVector2(vector: RecordVector) {
    return this.processVector(vector)
  }
}

function build(
  operators: (StreamOperator | undefined)[],
  chainedEdges: ChainedEdge[],
  outside: Record<string, ChainOutput[]> = {},
) {
  return new OperatorChain(
    { chainedEdges, operators: operators.map((_, i) => ({ name: `op${i}` })) },
    {
      operator: (index) => operators[index],
      context: (index, output) => contextFor(output, {}, `op${index}`),
      outside: (index, side) => outside[side === undefined ? `${index}` : `${index} ${side}`] ?? [],
      outsideTags: (index) =>
        Object.keys(outside).flatMap((key) =>
          key.startsWith(`${index} `) ? [key.slice(`${index} `.length)] : [],
        ),
      restored: () => undefined,
    },
  )
}

function recording(log: string[], name: string, wait?: () => Promise<void> | undefined): ChainOutput {
  return {
    emit: (vector) => {
      log.push(`${name} ${vector.values}`)
      return wait?.()
    },
    emitWatermark: (timestamp) => void log.push(`${name} watermark ${timestamp}`),
    emitStatus: ({ idle }) => void log.push(`${name} idle ${idle}`),
  }
}

test('records run through the chained operators and out, in one synchronous call', () => {
  const log: string[] = []
  const chain = build(
    [
      mapOperator((x: number) => x + 1)(),
      filterOperator((x: number) => x > 2)(),
      mapOperator((x: number) => x * 10)(),
    ],
    [edge(0, 1), edge(1, 2)],
    { '2': [recording(log, 'out')] },
  )
  expect(chain.openAll()).toBeUndefined()
  expect(chain.processHeadVector(0, vectorOf(1, 2, 3))).toBeUndefined()
  chain.processHeadWatermark(7)
  chain.processHeadStatus({ kind: 'watermark-status', idle: true })
  expect(log).toEqual(['out 30,40', 'out watermark 7', 'out idle true'])
  expect([
    chain.recordsIn(0),
    chain.recordsOut(0),
    chain.recordsIn(1),
    chain.recordsOut(1),
    chain.recordsOut(2),
  ]).toEqual([3, 3, 3, 2, 2])
})

test('what a source reads enters as the output of the head', () => {
  const log: string[] = []
  const chain = build([undefined, new RecordingOperator('map', log)], [edge(0, 1)])
  chain.processHeadVector(0, vectorOf(1))
  chain.processHeadWatermark(5)
  chain.endInput(0)
  expect(log).toEqual(['map 1', 'map watermark 5', 'map end 0'])
  expect(chain.snapshots(3)).toEqual([{}, { committables: ['map3'] }])
})

test('operators are restored and opened the last one first, and closed the first one first', async () => {
  const log: string[] = []
  const chain = build(
    ['a', 'b', 'c'].map((name) => new RecordingOperator(name, log)),
    [edge(0, 1), edge(1, 2)],
  )
  await chain.openAll()
  await chain.closeAll()
  expect(log).toEqual([
    'c restore',
    'c open',
    'b restore',
    'b open',
    'a restore',
    'a open',
    'a close',
    'b close',
    'c close',
  ])
})

test('every operator is closed though one fails, and the first failure is told', async () => {
  const log: string[] = []
  const operators = ['a', 'b', 'c'].map((name) => new RecordingOperator(name, log))
  operators[0]!.failsToClose = true
  operators[1]!.failsToClose = true
  const chain = build(operators, [edge(0, 1), edge(1, 2)])
  await expect(chain.closeAll()).rejects.toThrow('a cannot close')
  expect(log).toEqual(['a close', 'b close', 'c close'])
})

test('several receivers each get every vector in order, and all are waited for', async () => {
  const log: string[] = []
  const gates = [deferred(), deferred()]
  const chain = build(
    [mapOperator((x: number) => x)(), new RecordingOperator('chained', log)],
    [edge(0, 1)],
    {
      '0': [recording(log, 'x', () => gates[0]!.promise), recording(log, 'y', () => gates[1]!.promise)],
    },
  )
  let done = false
  const wait = Promise.resolve(chain.processHeadVector(0, vectorOf(1))).then(() => {
    done = true
  })
  expect(log).toEqual(['chained 1', 'x 1', 'y 1'])
  gates[1]!.resolve()
  await settled()
  expect(done).toBe(false)
  gates[0]!.resolve()
  await wait
  expect(done).toBe(true)
})

test('a failure of one receiver leaves no unhandled rejection of another', async () => {
  const unhandled: unknown[] = []
  const listen = (error: unknown) => unhandled.push(error)
  process.on('unhandledRejection', listen)
  const failing: ChainOutput = {
    ...recording([], 'y'),
    emit: () => {
      throw new Error('first told')
    },
  }
  const chain = build([mapOperator((x: number) => x)()], [], {
    '0': [recording([], 'x', () => Promise.reject(new Error('later'))), failing],
  })
  expect(() => chain.processHeadVector(0, vectorOf(1))).toThrow('first told')
  await settled()
  process.off('unhandledRejection', listen)
  expect(unhandled).toEqual([])
})

test('side outputs go to their own receivers, with watermarks; one nobody reads is dropped', () => {
  const log: string[] = []
  const fn = {
    processElement(value: number, context: any, out: any) {
      out.collect(value)
      context.output(new OutputTag('odd'), -value)
      context.output(new OutputTag('unread'), value)
    },
  }
  const chain = build(
    [processOperator(fn as never)(), new RecordingOperator('chained', log)],
    [edge(0, 1, { sideOutput: 'odd' })],
    {
      '0': [recording(log, 'main')],
      '0 odd': [recording(log, 'odd')],
    },
  )
  chain.processHeadVector(0, vectorOf(1, 3))
  chain.processHeadWatermark(9)
  expect(log).toEqual([
    'main 1,3',
    'chained -1,-3',
    'odd -1,-3',
    'main watermark 9',
    'chained watermark 9',
    'odd watermark 9',
  ])
})

test('an operator that two chained edges lead to gets their minimum watermark, and ends with both', async () => {
  const log: string[] = []
  const fn = { processElement() {} }
  const chain = build(
    [
      processOperator(fn as never)(),
      filterOperator(() => true)(),
      filterOperator(() => true)(),
      new RecordingOperator('join', log),
    ],
    [edge(0, 1), edge(0, 2), edge(1, 3), edge(2, 3)],
  )
  await chain.processHeadWatermark(4)
  await chain.endInput(0)
  expect(log).toEqual(['join watermark 4', 'join end 0'])
})

test('an operator with two inputs ends each by itself, and what follows when both have', () => {
  const log: string[] = []
  const chain = build([new RecordingTwoInputs('join', log), new RecordingOperator('next', log)], [edge(0, 1)])
  chain.processHeadVector(1, vectorOf(1))
  chain.endInput(1)
  expect(log).toEqual(['join 1', 'next 1', 'join end 1'])
  chain.endInput(0)
  expect(log.slice(3)).toEqual(['join end 0', 'next end 0'])
})

test('operators prepare for a snapshot one after the other, the head first', async () => {
  const log: string[] = []
  const operators = ['a', 'b'].map((name) => new RecordingOperator(name, log))
  const gate = deferred()
  operators[0]!.waits = gate.promise
  const chain = build(operators, [edge(0, 1)])
  const done = chain.prepareSnapshot(8, true)
  await settled()
  expect(log).toEqual(['a prepare 8 true'])
  gate.resolve()
  await done
  expect(log).toEqual(['a prepare 8 true', 'b prepare 8 true'])
  expect(chain.snapshots(8)).toEqual([{ committables: ['a8'] }, { committables: ['b8'] }])
})

test('an error of a chained function is wrapped once, by the operator that ran it', () => {
  const cause = new Error('inner')
  const chain = build(
    [
      mapOperator((x: number) => x)(),
      mapOperator(() => {
        throw cause
      })(),
    ],
    [edge(0, 1)],
  )
  expect(() => chain.processHeadVector(0, vectorOf(1))).toThrow(
    expect.objectContaining({ message: expect.stringContaining("operator 'op1'"), cause }),
  )
})

test('edges in a cycle are refused', () => {
  expect(() =>
    build([mapOperator((x: number) => x)(), mapOperator((x: number) => x)()], [edge(0, 1), edge(1, 0)]),
  ).toThrow(/cycle/)
})
