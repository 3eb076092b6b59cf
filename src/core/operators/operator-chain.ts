/**
 * The operators of one subtask, connected by direct calls.
 *
 *   setup all (head first) ─► openAll (last first) ─► records, watermarks, timers, snapshots (head first) ─► endInput ─► closeAll
 *
 * The head is a source, which has no operator here (what it reads enters the chain as the head's output), or the operator that reads the
 * input gate.
 */
import { MillraceError } from '../../errors.ts'
import type { RecordVector, WatermarkStatus } from '../element.ts'
import type { ChainedEdge, JobVertex } from '../graph/job-graph.ts'
import { type ChainOutput, OperatorOutput } from './chain-output.ts'
import { ChainedInputs, deliver } from './chained-input.ts'
import { andThen, inOrder } from './continuation.ts'
import type {
  OperatorContext,
  OperatorRestore,
  OperatorSnapshot,
  Output,
  StreamOperator,
} from './stream-operator.ts'

/** What the runtime gives to a chain; indexes are those of `vertex.operators`. */
export interface ChainWiring {
  /** A new operator, or undefined for the source at the head. */
  operator(index: number): StreamOperator | undefined
  /** The operator's context, with the given output in it. */
  context(index: number, output: Output): OperatorContext
  /** Edges that leave the chain from the operator's main output (undefined) or a side output. */
  outside(index: number, sideOutput: string | undefined): readonly ChainOutput[]
  /** Tag ids of side outputs of the operator that leave the chain. */
  outsideTags(index: number): readonly string[]
  /** What the operator gets back, undefined in a fresh start. */
  restored(index: number): OperatorRestore | undefined
}

/** What a chain needs of its vertex. */
export type ChainShape = Pick<JobVertex, 'chainedEdges'> & {
  readonly operators: readonly { readonly name: string }[]
}

/** One subtask's chain. The caller makes one call at a time and awaits what it returns. */
export class OperatorChain {
  /** By index; undefined for a source. */
  readonly operators: readonly (StreamOperator | undefined)[]
  /** Operators that may refuse records for a while. */
  private readonly limited: readonly StreamOperator[]
  private readonly outputs: readonly OperatorOutput[]
  private readonly inputs: readonly ChainedInputs[]
  private readonly edges: readonly ChainedEdge[]
  private readonly restored: (index: number) => OperatorRestore | undefined
  /** Indexes so that every operator comes after those that send to it. */
  private readonly order: readonly number[]
  private readonly endedHeadInputs = new Set<number>()
  private headRecordsIn = 0

  constructor(vertex: ChainShape, wiring: ChainWiring) {
    const count = vertex.operators.length
    this.edges = vertex.chainedEdges
    this.order = topological(count, vertex.chainedEdges)
    this.restored = (index) => wiring.restored(index)
    this.operators = Array.from({ length: count }, (_, index) => wiring.operator(index))
    this.limited = this.operators.filter((operator) => operator?.room !== undefined) as StreamOperator[]
    this.inputs = this.operators.map((operator, index) => this.inputsOf(index, operator ?? SOURCE))
    this.outputs = this.operators.map((_, index) => this.outputFor(index, wiring))
    for (const index of this.order) this.operators[index]?.setup(wiring.context(index, this.outputs[index]!))
  }

  /** What the operators say of themselves, for people. */
  describeOperators(): string[] {
    return this.operators.flatMap((operator) => operator?.describe?.() ?? [])
  }

  /** Where the head sends to; a source's records enter here. */
  get headOutput(): Output {
    return this.outputs[0]!
  }

  recordsIn(index: number): number {
    return index === 0 ? this.headRecordsIn : this.inputs[index]!.recordsIn
  }

  recordsOut(index: number): number {
    return this.outputs[index]!.recordsOut
  }

  /** Restores and opens the operators, the last one first: an operator may emit in `open`. */
  openAll(): void | Promise<void> {
    const reversed = this.order.toReversed()
    return inOrder(reversed.length, (i) => {
      const operator = this.operators[reversed[i]!]
      return andThen(operator?.initializeState?.(this.restored(reversed[i]!)), () => operator?.open?.())
    })
  }

  /** Undefined: records may come into the chain; a promise: not before it resolves, but everything else may. */
  room(): Promise<void> | undefined {
    for (const operator of this.limited) {
      const wait = operator.room!()
      if (wait !== undefined) return wait
    }
    return undefined
  }

  processHeadVector(input: number, vector: RecordVector): void | Promise<void> {
    this.headRecordsIn += vector.values.length
    const head = this.operators[0]
    return head === undefined ? this.headOutput.emit(vector) : deliver(head, input, vector)
  }

  /** The watermark of all inputs of the head. */
  processHeadWatermark(timestamp: number): void | Promise<void> {
    const head = this.operators[0]
    return head === undefined ? this.headOutput.emitWatermark(timestamp) : head.processWatermark(timestamp)
  }

  processHeadStatus(status: WatermarkStatus): void | Promise<void> {
    const head = this.operators[0]
    return head === undefined ? this.headOutput.emitStatus(status) : head.processStatus(status)
  }

  /** The time that operator `index` asked for has come. */
  onProcessingTime(index: number, time: number): void | Promise<void> {
    return this.operators[index]?.onProcessingTime?.(time)
  }

  /** Input `input` of the head ended. Chained operators end, in order, when all that sends to them has ended. */
  endInput(input: number): void | Promise<void> {
    this.endedHeadInputs.add(input)
    const head = this.operators[0]
    return andThen(head?.endInput?.(input), () => {
      const hasSecond = head?.processVector2 !== undefined
      if (this.endedHeadInputs.size < (hasSecond ? 2 : 1)) return
      return inOrder(this.order.length, (i) => this.endEdgesFrom(this.order[i]!))
    })
  }

  /** All edges out of an operator that has ended end; the inputs that end with them are told. */
  private endEdgesFrom(index: number): void | Promise<void> {
    if (index !== 0 && !this.inputs[index]!.allEnded) return
    const out = this.edges.filter((edge) => edge.from === index)
    return inOrder(out.length, (i) => {
      const edge = out[i]!
      const inputs = this.inputs[edge.to]!
      const ended = inputs.endEdge(this.edgesInto(edge.to).indexOf(edge))
      return ended === undefined ? undefined : inputs.operator.endInput?.(ended)
    })
  }

  /** At barrier n: every operator emits or flushes what is pending, the head first. */
  prepareSnapshot(checkpointId: number, endOfInput: boolean, savepoint = false): void | Promise<void> {
    return this.inTurn((operator) => operator.prepareSnapshot?.(checkpointId, endOfInput, savepoint))
  }

  /** Synchronous part of snapshot n, by index. */
  snapshots(checkpointId: number): readonly OperatorSnapshot[] {
    return this.operators.map((operator) => operator?.snapshot?.(checkpointId) ?? {})
  }

  notifyCheckpointComplete(checkpointId: number): void | Promise<void> {
    return this.inTurn((operator) => operator.notifyCheckpointComplete?.(checkpointId))
  }

  notifyCheckpointAborted(checkpointId: number): void {
    for (const operator of this.operators) operator?.notifyCheckpointAborted?.(checkpointId)
  }

  notifyCheckpointConfirmed(checkpointId: number): void {
    for (const operator of this.operators) operator?.notifyCheckpointConfirmed?.(checkpointId)
  }

  /** Closes every operator, the head first, also after one failed; then throws the first failure. */
  async closeAll(): Promise<void> {
    const failures: unknown[] = []
    for (const index of this.order) {
      try {
        await this.operators[index]?.close?.()
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length > 0) throw failures[0]
  }

  private inTurn(call: (operator: StreamOperator) => void | Promise<void>): void | Promise<void> {
    return inOrder(this.order.length, (i) => {
      const operator = this.operators[this.order[i]!]
      return operator === undefined ? undefined : call(operator)
    })
  }

  private edgesInto(index: number): readonly ChainedEdge[] {
    return this.edges.filter((edge) => edge.to === index)
  }

  private inputsOf(index: number, operator: StreamOperator): ChainedInputs {
    return new ChainedInputs(
      operator,
      this.edgesInto(index).map((edge) => edge.input),
    )
  }

  private outputFor(index: number, wiring: ChainWiring): OperatorOutput {
    const receivers = (sideOutput: string | undefined): ChainOutput[] => [
      ...this.edges
        .filter((edge) => edge.from === index && edge.sideOutput === sideOutput)
        .map((edge) => this.inputs[edge.to]!.receiver(this.edgesInto(edge.to).indexOf(edge))),
      ...wiring.outside(index, sideOutput),
    ]
    const chainedTags = this.edges.flatMap((edge) =>
      edge.from === index && edge.sideOutput !== undefined ? [edge.sideOutput] : [],
    )
    const tags = new Set([...chainedTags, ...wiring.outsideTags(index)])
    return new OperatorOutput({
      main: receivers(undefined),
      sides: new Map(Array.from(tags, (tag) => [tag, receivers(tag)])),
    })
  }
}

/** Stands where a source has no operator; nothing is ever delivered to it. */
const SOURCE: StreamOperator = {
  setup() {},
  processVector: refuse,
  processWatermark: refuse,
  processStatus: refuse,
}

function refuse(): never {
  throw new MillraceError('MILLRACE_INTERNAL', 'A chained edge leads into a source')
}

/** Indexes in an order in which every edge leads forward. @throws MILLRACE_INTERNAL for a cycle. */
function topological(count: number, edges: readonly ChainedEdge[]): number[] {
  const open = Array.from({ length: count }, (_, index) => edges.filter((edge) => edge.to === index).length)
  const order: number[] = []
  const ready = open.flatMap((incoming, index) => (incoming === 0 ? [index] : []))
  for (let index = ready.shift(); index !== undefined; index = ready.shift()) {
    order.push(index)
    for (const edge of edges) if (edge.from === index && --open[edge.to]! === 0) ready.push(edge.to)
  }
  if (order.length === count) return order
  throw new MillraceError('MILLRACE_INTERNAL', 'The edges of a chain form a cycle')
}
