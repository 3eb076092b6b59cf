/**
 * One deployment of the job's graph in this worker: channels, chains and tasks; started together, cancelled together.
 */
import { storesItself } from '../checkpoint/keyed-snapshot.ts'
import type { SourceReader, SourceSplit, SubtaskInfo } from '../core/connector.ts'
import type { CheckpointingMode } from '../core/constants.ts'
import { deadline } from '../core/deadline.ts'
import {
  buildExecutionGraph,
  downstreamSubtasks,
  type ExecutionChannel,
} from '../core/graph/execution-graph.ts'
import type { ChainedOperator, JobEdge, JobGraph, JobVertex } from '../core/graph/job-graph.ts'
import { keyGroupRangeOf } from '../core/graph/key-groups.ts'
import type { ChainOutput } from '../core/operators/chain-output.ts'
import { OperatorChain } from '../core/operators/operator-chain.ts'
import { SinkOperator } from '../core/operators/sink-operator.ts'
import type { OperatorRestore, StreamOperator } from '../core/operators/stream-operator.ts'
import type { Counter, World } from '../core/ports.ts'
import type { KeyedStateBackend, KeyGroupRange } from '../core/state.ts'
import { SourceWatermarker } from '../core/time/source-watermarker.ts'
import { WatermarkAlignment } from '../core/time/watermark-alignment.ts'
import type { WatermarkStrategy } from '../core/time/watermarks.ts'
import { ChainDriver } from './chain-driver.ts'
import { LocalChannel } from './channel.ts'
import type { FaultHook } from './fault-points.ts'
import { type BarrierObeyer, GateInput } from './gate-input.ts'
import { InputGate } from './input-gate.ts'
import { QueueLimit } from './queue-limit.ts'
import { RecordWriter } from './record-writer.ts'
import type { RestoredState } from './restore.ts'
import { edgeName, type RestoredElement, restoredFor } from './restored-in-flight.ts'
import { SourceAlignment } from './source-alignment.ts'
import { SourceInput } from './source-input.ts'
import type { StateReader } from './state-storage.ts'
import { type Acknowledger, type SnapshotStorage, SubtaskCheckpointer } from './subtask-checkpointer.ts'
import { Task } from './task.ts'
import type { TaskInput } from './task-input.ts'
import { TaskLoad } from './task-load.ts'
import { VectorLimit } from './vector-limit.ts'

/** Records a vector holds at the most. */
export const VECTOR_SIZE = 256
/** How long a call in progress may take before a cancelled task is given up. */
const CANCEL_GRACE_MS = 3_000

export interface AttemptOptions {
  readonly jobName: string
  readonly attempt: number
  readonly graph: JobGraph
  readonly world: World
  readonly mode: CheckpointingMode
  readonly checkpointingEnabled: boolean
  readonly storage: SnapshotStorage
  readonly createBackend: (options: {
    range: KeyGroupRange
    maxParallelism: number
    info: SubtaskInfo
  }) => KeyedStateBackend
  readonly restored: RestoredState | undefined
  /** Reads what the restored state names. */
  readonly reader: StateReader
  /** Splits of each source by uid, with their positions. */
  readonly splits: ReadonlyMap<string, readonly SourceSplit[]>
  readonly leases: ReadonlyMap<string, readonly unknown[]>
  readonly acknowledger: Acknowledger
  readonly onFailure: (task: Task, error: unknown) => void
  /** All input of the task was handled to its end. */
  readonly onEndOfData: (taskId: string) => void
  readonly fault?: FaultHook | undefined
}

/** Id of a subtask in acknowledgements. */
export function subtaskId(vertex: number, subtask: number): string {
  return `${vertex}/${subtask}`
}

/** Which subtask reads a split: by its place, so that splits are spread evenly. */
export function splitOwner(index: number, parallelism: number): number {
  return index % parallelism
}

interface RunningSource {
  readonly uid: string
  readonly head: ChainedOperator
  readonly readers: SourceReader<unknown, SourceSplit>[]
  readonly watermarkers: (SourceWatermarker<unknown> | undefined)[]
  assigned: number
}

export class Attempt {
  readonly tasks: Task[] = []
  readonly #options: AttemptOptions
  readonly #channels = new Map<ExecutionChannel, LocalChannel>()
  readonly #execution: ReturnType<typeof buildExecutionGraph>
  readonly #sources = new Map<string, RunningSource>()
  readonly #backends: KeyedStateBackend[] = []
  readonly #alignment = new WatermarkAlignment()

  constructor(options: AttemptOptions) {
    this.#options = options
    this.#execution = buildExecutionGraph(options.graph)
  }

  /** Ids of all subtasks. */
  get subtasks(): readonly string[] {
    return this.#execution.subtasks.map(({ vertex, subtask }) => subtaskId(vertex, subtask))
  }

  /** Builds and opens every task, receivers before senders, without processing a record. */
  async deploy(): Promise<void> {
    for (const channel of this.#execution.channels) this.#channels.set(channel, new LocalChannel())
    for (const vertex of this.#options.graph.vertices.toReversed())
      for (let subtask = 0; subtask < vertex.parallelism; subtask++)
        this.tasks.unshift(await this.#task(vertex, subtask))
    for (const task of this.tasks.toReversed()) await task.open()
  }

  run(): void {
    for (const task of this.tasks.toReversed()) task.run()
  }

  /** Gives newly found splits to the subtasks of a source. */
  addSplits(uid: string, splits: readonly SourceSplit[]): void {
    const source = this.#sources.get(uid)
    if (source === undefined) return
    for (const split of splits) {
      const owner = splitOwner(source.assigned++, source.readers.length)
      this.#addToWatermarks(source, owner, split.id)
      ;(source.readers[owner] as SourceReader<unknown, SourceSplit>).addSplits([split])
    }
  }

  async cancel(): Promise<void> {
    const results = await Promise.allSettled(this.tasks.map((task) => task.cancel(CANCEL_GRACE_MS)))
    for (const result of results)
      if (result.status === 'rejected')
        this.#options.world.logger.warn('closing an operator failed', { error: result.reason })
    await this.#closeBackends()
  }

  /** Lets go of files and connections of the state. A store that does not answer must not hold up the next attempt. */
  async #closeBackends(): Promise<void> {
    const { world } = this.#options
    const wait = deadline(world.timers, CANCEL_GRACE_MS, true)
    const closed = Promise.allSettled(this.#backends.splice(0).map(async (backend) => backend.close()))
    const results = await Promise.race([closed, wait.expired.then(() => undefined)])
    wait.cancel()
    if (results === undefined) world.logger.warn(`closing the state took longer than ${CANCEL_GRACE_MS} ms`)
    for (const result of results ?? [])
      if (result.status === 'rejected')
        world.logger.warn('closing the state of an operator failed', { error: result.reason })
  }

  async #task(vertex: JobVertex, subtask: number): Promise<Task> {
    const { world, graph, storage, acknowledger, restored, onFailure, onEndOfData } = this.#options
    const id = subtaskId(vertex.id, subtask)
    const name = nameOf(vertex, subtask)
    const load = new TaskLoad(world.clock)
    const writers = new Map<JobEdge, RecordWriter>()
    for (const edge of graph.edges.filter((e) => e.from === vertex.id))
      writers.set(edge, this.#writer(edge, subtask, load))
    const backends: (KeyedStateBackend | undefined)[] = []
    for (const operator of vertex.operators) backends.push(await this.#backend(vertex, operator, subtask))
    let task: Task
    const fail = (error: unknown): void => task.fail(error)
    const chain = new OperatorChain(vertex, {
      operator: (index) => this.#operator(vertex, index, subtask),
      context: (index, output) => ({
        info: this.#info(vertex, vertex.operators[index] as ChainedOperator, subtask),
        world: this.#worldOf(vertex.operators[index] as ChainedOperator, subtask),
        output,
        vectorSize: VECTOR_SIZE,
        keyedState: backends[index],
        keyGroups:
          backends[index] === undefined
            ? undefined
            : keyGroupRangeOf(subtask, vertex.maxParallelism, vertex.parallelism),
        maxParallelism: vertex.maxParallelism,
        requestProcessingTime: (time) => task.requestProcessingTime(index, time),
        post: (action) => task.post(action),
        watermarkHeldBackBy: () => input.watermarkHeldBackBy(),
        inputWaiting: () => input.waiting(),
        fail,
      }),
      outside: (index, sideOutput) =>
        [...writers]
          .filter(([edge]) => edge.fromOperator === index && edge.sideOutput === sideOutput)
          .map(([, writer]) => outputOf(writer)),
      outsideTags: (index) =>
        [...writers.keys()].flatMap((edge) =>
          edge.fromOperator === index && edge.sideOutput !== undefined ? [edge.sideOutput] : [],
        ),
      restored: (index) => this.#restore(vertex.operators[index] as ChainedOperator, subtask),
    })
    const head = vertex.operators[0] as ChainedOperator
    const restoredEnd = restored?.operator(head.uid)?.ended === true
    const driver = new ChainDriver(chain, [...writers.values()], restoredEnd, () => onEndOfData(id))
    const source =
      head.node.kind === 'source' ? this.#source(vertex, head, subtask, driver, () => task.wake()) : undefined
    const checkpointer = new SubtaskCheckpointer({
      subtaskId: id,
      subtaskIndex: subtask,
      operators: vertex.operators.map((operator, index) => ({
        uid: operator.uid,
        keyedState: backends[index],
      })),
      chain,
      driver,
      storage,
      acknowledger,
      world,
      splits: source === undefined ? undefined : (n) => source.reader.snapshot(n),
      fail,
      fault: this.#options.fault,
    })
    const input: TaskInput = source ?? this.#gate(vertex, subtask, driver, checkpointer, () => task.wake())
    if (input instanceof GateInput) this.#watermarkMetrics(head, subtask, input)
    task = new Task({ id, name, chain, input, driver, checkpointer, world, load, onFailure })
    this.#countLoad(head, subtask, load)
    return task
  }

  /** Flink's busyTimeMsPerSecond and its siblings. */
  #countLoad(head: ChainedOperator, subtask: number, load: TaskLoad): void {
    const { metrics } = this.#worldOf(head, subtask)
    metrics.gauge('busy_ms_per_second', () => load.rates().busy)
    metrics.gauge('idle_ms_per_second', () => load.rates().idle)
    metrics.gauge('backpressured_ms_per_second', () => load.rates().backpressured)
  }

  #info(vertex: JobVertex, operator: ChainedOperator, subtaskIndex: number): SubtaskInfo {
    const { jobName, attempt } = this.#options
    return {
      jobName,
      operatorName: operator.name,
      uid: operator.uid,
      subtaskIndex,
      parallelism: vertex.parallelism,
      attempt,
    }
  }

  #worldOf(operator: ChainedOperator, subtask: number): World {
    const { world } = this.#options
    return { ...world, metrics: world.metrics.group({ operator: operator.name, subtask: String(subtask) }) }
  }

  #counter(operator: ChainedOperator, subtask: number, name: string): Counter {
    return this.#worldOf(operator, subtask).metrics.counter(name)
  }

  #operator(vertex: JobVertex, index: number, subtask: number): StreamOperator | undefined {
    const operator = vertex.operators[index] as ChainedOperator
    const { node } = operator
    switch (node.kind) {
      case 'source':
        return undefined
      case 'operator':
        return node.factory()
      case 'sink': {
        const lease = this.#options.leases.get(operator.uid)?.[subtask]
        return new SinkOperator(node.sink, {
          recordsOut: this.#counter(operator, subtask, 'records_out'),
          checkpointingEnabled: this.#options.checkpointingEnabled,
          ...(lease === undefined ? {} : { lease }),
        })
      }
    }
  }

  async #backend(
    vertex: JobVertex,
    operator: ChainedOperator,
    subtask: number,
  ): Promise<KeyedStateBackend | undefined> {
    if (operator.node.kind !== 'operator' || operator.node.keyOf === undefined) return undefined
    const backend = this.#options.createBackend({
      range: keyGroupRangeOf(subtask, vertex.maxParallelism, vertex.parallelism),
      maxParallelism: vertex.maxParallelism,
      info: this.#info(vertex, operator, subtask),
    })
    this.#backends.push(backend)
    const state = this.#options.restored?.operator(operator.uid)
    if (storesItself(backend)) await backend.restoreFrom(state?.keyed(subtask) ?? [], this.#options.reader)
    else if (state !== undefined) backend.restore(await state.images(subtask))
    this.#worldOf(operator, subtask).metrics.gauge('state_entries', () => backend.entries)
    return backend
  }

  #restore(operator: ChainedOperator, subtask: number): OperatorRestore | undefined {
    const { restored, splits } = this.#options
    if (restored === undefined) return undefined
    const state = restored.operator(operator.uid)
    return {
      checkpointId: restored.checkpointId,
      operatorState: state?.operatorState(subtask) ?? {},
      redistributions: state?.redistributions ?? {},
      splits: splits.get(operator.uid),
    }
  }

  #source(
    vertex: JobVertex,
    head: ChainedOperator,
    subtask: number,
    driver: ChainDriver,
    wake: () => void,
  ): SourceInput {
    const { node } = head
    if (node.kind !== 'source') throw new TypeError('not a source')
    const world = this.#worldOf(head, subtask)
    const info = this.#info(vertex, head, subtask)
    const limit = new VectorLimit(VECTOR_SIZE)
    const reader = node.source.createReader({
      info,
      world,
      get vectorSize() {
        return limit.size
      },
      recordsIn: this.#counter(head, subtask, 'records_in'),
    })
    const strategy = node.watermarks as WatermarkStrategy<unknown> | undefined
    const watermarker = strategy === undefined ? undefined : new SourceWatermarker<unknown>(strategy, info)
    const splits = this.#options.splits.get(head.uid) ?? []
    const own = splits.filter((_, index) => splitOwner(index, vertex.parallelism) === subtask)
    reader.addSplits(own)
    let source = this.#sources.get(head.uid)
    if (source === undefined) {
      source = { uid: head.uid, head, readers: [], watermarkers: [], assigned: splits.length }
      this.#sources.set(head.uid, source)
    }
    source.readers[subtask] = reader
    source.watermarkers[subtask] = watermarker
    for (const split of own) this.#addToWatermarks(source, subtask, split.id)
    if (watermarker !== undefined)
      world.metrics.gauge('current_watermark', () => watermarker.current().watermark)
    const settings = strategy?.alignment
    const alignment =
      watermarker === undefined || settings === undefined
        ? undefined
        : new SourceAlignment(
            this.#alignment.join(`source '${head.name}' (subtask ${subtask + 1})`, settings),
            watermarker,
            reader,
            world,
          )
    return new SourceInput(reader, watermarker, driver, world, wake, alignment, limit)
  }

  /** The split counts for the watermark of its subtask from now on, and shows in metrics. */
  #addToWatermarks({ head, watermarkers }: RunningSource, subtask: number, splitId: string): void {
    const watermarker = watermarkers[subtask]
    if (watermarker === undefined) return
    watermarker.splitAdded(splitId)
    const metrics = this.#worldOf(head, subtask).metrics.group({ split: splitId })
    metrics.gauge('current_watermark', () => watermarker.watermarkOf(splitId))
    metrics.gauge('holds_watermark_back', () => (watermarker.holdingBack().includes(splitId) ? 1 : 0))
  }

  #gate(
    vertex: JobVertex,
    subtask: number,
    driver: ChainDriver,
    checkpointer: SubtaskCheckpointer,
    wake: () => void,
  ): GateInput {
    const { graph, mode, storage } = this.#options
    const channels = this.#execution.channels.filter(
      ({ to }) => to.vertex === vertex.id && to.subtask === subtask,
    )
    const gate = new InputGate(
      channels.map((channel) => ({
        channel: this.#channels.get(channel) as LocalChannel,
        input: (graph.edges[channel.edge] as JobEdge).input,
        from: `${(graph.vertices[channel.from.vertex] as JobVertex).name} (${channel.from.subtask + 1})`,
        heldBackBy: () => this.#splitsHoldingBack(channel),
        place: {
          edge: edgeName(graph, graph.edges[channel.edge] as JobEdge),
          from: channel.from.subtask,
        },
      })),
    )
    gate.onData = wake
    const placeOf = (edge: JobEdge, from: number): number => {
      const exact = channels.findIndex((channel) => channel.edge === edge.id && channel.from.subtask === from)
      // At another parallelism a subtask may not read from that one: any channel of the edge will do.
      return exact >= 0 ? exact : channels.findIndex((channel) => channel.edge === edge.id)
    }
    for (const { edge, from, element } of this.#inFlight(vertex, subtask))
      gate.restore(placeOf(edge, from), element)
    const head = vertex.operators[0] as ChainedOperator
    const obeyer: BarrierObeyer = {
      checkpoint: (n, kind, unaligned) => checkpointer.checkpoint(n, kind, unaligned),
      cancelled: (n, reason) => {
        this.#options.world.logger.debug(`${vertex.name}: checkpoint ${n} is cancelled here: ${reason}`)
        checkpointer.abort(n)
        driver.broadcast({ kind: 'cancel-checkpoint', n })
      },
    }
    const { clock, timers } = this.#options.world
    const writer = () => storage.codec.inFlight.writer(head.name)
    const queue = new QueueLimit(gate.channels.map(({ channel }) => channel))
    return new GateInput(gate, mode, driver, obeyer, { clock, timers, wake, writer }, queue)
  }

  /** Records that waited for this subtask when the restored checkpoint was taken. */
  #inFlight(vertex: JobVertex, subtask: number): RestoredElement[] {
    const { graph, restored } = this.#options
    const head = vertex.operators[0] as ChainedOperator
    const stored = restored?.operator(head.uid)?.inFlight ?? []
    if (restored === undefined || stored.length === 0) return []
    const sender = (edge: JobEdge, from: number): SubtaskInfo => {
      const up = graph.vertices[edge.from] as JobVertex
      return this.#info(up, up.operators[edge.fromOperator] as ChainedOperator, from)
    }
    return restoredFor(graph, vertex, subtask, stored, (uid) => restored.parallelism(uid), sender)
  }

  /** How far the subtask is, and which of its channels hold it back. */
  #watermarkMetrics(head: ChainedOperator, subtask: number, input: GateInput): void {
    const { metrics } = this.#worldOf(head, subtask)
    metrics.gauge('current_watermark', () => input.watermark)
    for (const [index, channel] of input.channels.entries()) {
      const group = metrics.group({ channel })
      group.gauge('current_watermark', () => input.channelWatermark(index).watermark)
      group.gauge('holds_watermark_back', () => (input.channelWatermark(index).holdsBack ? 1 : 0))
    }
  }

  #splitsHoldingBack({ from }: ExecutionChannel): readonly string[] {
    const head = (this.#options.graph.vertices[from.vertex] as JobVertex).operators[0] as ChainedOperator
    return this.#sources.get(head.uid)?.watermarkers[from.subtask]?.holdingBack() ?? []
  }

  #writer(edge: JobEdge, subtask: number, load: TaskLoad): RecordWriter {
    const { graph } = this.#options
    const down = graph.vertices[edge.to] as JobVertex
    const up = graph.vertices[edge.from] as JobVertex
    const receivers = downstreamSubtasks(edge.partitioner.kind, subtask, up.parallelism, down.parallelism)
    const channels = receivers.map((receiver) => {
      const channel = this.#execution.channels.find(
        (c) => c.edge === edge.id && c.from.subtask === subtask && c.to.subtask === receiver,
      )
      return this.#channels.get(channel as ExecutionChannel) as LocalChannel
    })
    return new RecordWriter(edge.partitioner, channels, {
      subtask,
      downstreamParallelism: down.parallelism,
      maxParallelism: down.maxParallelism,
      receivers: receivers.map((receiver) => nameOf(down, receiver)),
      sender: this.#info(up, up.operators[edge.fromOperator] as ChainedOperator, subtask),
      load,
    })
  }
}

/** A subtask, for people. */
function nameOf({ name, parallelism }: JobVertex, subtask: number): string {
  return parallelism === 1 ? name : `${name} (${subtask + 1}/${parallelism})`
}

function outputOf(writer: RecordWriter): ChainOutput {
  return {
    emit: (vector) => writer.emit(vector),
    emitWatermark: (timestamp) => writer.broadcast({ kind: 'watermark', timestamp }),
    emitStatus: (status) => writer.broadcast(status),
  }
}
