/** A real chain of one operator with one edge out, and an operator and a source reader that do what a test tells them. */
import type { SourceReader, SourceSplit, SplitRecords } from '../../../src/core/connector.ts'
import { type RecordVector, recordVector, type StreamElement } from '../../../src/core/element.ts'
import { AbstractOperator } from '../../../src/core/operators/operator-base.ts'
import { OperatorChain } from '../../../src/core/operators/operator-chain.ts'
import type { OperatorSnapshot, StreamOperator } from '../../../src/core/operators/stream-operator.ts'
import { ChainDriver } from '../../../src/runtime/chain-driver.ts'
import { LocalChannel } from '../../../src/runtime/channel.ts'
import { RecordWriter } from '../../../src/runtime/record-writer.ts'
import type { VirtualWorld } from './virtual-world.ts'

export const vector = (...values: unknown[]): RecordVector =>
  recordVector(
    values,
    values.map(() => Number.NaN),
  )

/** Passes records on; notes every call; waits or throws on cue. */
export class RecordingOperator extends AbstractOperator {
  readonly calls: string[] = []
  snapshots: OperatorSnapshot = {}
  /** Awaited in the named calls. */
  readonly waits = new Map<string, Promise<void>>()
  readonly throws = new Map<string, unknown>()

  processVector(records: RecordVector): void | Promise<void> {
    const wait = this.note('records', `records ${records.values.join()}`)
    const emit = () => this.output.emit(records)
    return wait === undefined ? emit() : wait.then(emit)
  }
  override processWatermark(timestamp: number): void | Promise<void> {
    this.note('watermark', `watermark ${timestamp}`)
    return super.processWatermark(timestamp)
  }
  endInput(input: number): void | Promise<void> {
    return this.note('end', `end ${input}`)
  }
  onProcessingTime(time: number): void | Promise<void> {
    return this.note('timer', `timer ${time}`)
  }
  prepareSnapshot(n: number, ended: boolean, savepoint = false): void | Promise<void> {
    return this.note('prepare', `prepare ${n}${ended ? ' ended' : ''}${savepoint ? ' for a savepoint' : ''}`)
  }
  snapshot(n: number): OperatorSnapshot {
    this.note('snapshot', `snapshot ${n}`)
    return this.snapshots
  }
  notifyCheckpointComplete(n: number): void | Promise<void> {
    return this.note('complete', `complete ${n}`)
  }
  notifyCheckpointAborted(n: number): void {
    void this.note('aborted', `aborted ${n}`)
  }
  notifyCheckpointConfirmed(n: number): void {
    void this.note('confirmed', `confirmed ${n}`)
  }
  close(): void | Promise<void> {
    return this.note('close', 'close')
  }
  wish(time: number): void {
    this.context.requestProcessingTime(time)
  }

  private note(what: string, call: string): void | Promise<void> {
    this.calls.push(call)
    if (this.throws.has(what)) throw this.throws.get(what)
    return this.waits.get(what)
  }
}

/** A chain and what it sends out. */
export interface Wired {
  readonly chain: OperatorChain
  readonly driver: ChainDriver
  readonly out: LocalChannel
  readonly side: LocalChannel
  /** Everything that came out since the last look. */
  taken(): StreamElement[]
}

export function wire(
  virtual: VirtualWorld,
  operator: StreamOperator | undefined,
  options: {
    readonly restoredEnd?: boolean
    readonly requestProcessingTime?: (time: number) => void
    readonly onEndOfData?: () => void
    readonly capacity?: number
  } = {},
): Wired {
  const out = new LocalChannel(options.capacity)
  const side = new LocalChannel()
  const settings = { subtask: 0, downstreamParallelism: 1, maxParallelism: 128 }
  const writers = [
    new RecordWriter({ kind: 'forward' }, [out], settings),
    new RecordWriter({ kind: 'forward' }, [side], settings),
  ]
  const chain = new OperatorChain(
    { operators: [{ name: 'op' }], chainedEdges: [] },
    {
      operator: () => operator,
      context: (_index, output) => ({
        info: { jobName: 'job', operatorName: 'op', uid: 'op', subtaskIndex: 0, parallelism: 1, attempt: 1 },
        world: virtual.world,
        output,
        vectorSize: 100,
        keyedState: undefined,
        keyGroups: undefined,
        maxParallelism: 128,
        requestProcessingTime: (time) => options.requestProcessingTime?.(time),
        post: (action) => void action(),
        fail: (error) => {
          throw error
        },
      }),
      outside: (_index, tag) => {
        const writer = writers[tag === undefined ? 0 : 1]!
        return [
          {
            emit: (records) => writer.emit(records),
            emitWatermark: (timestamp) => writer.broadcast({ kind: 'watermark', timestamp }),
            emitStatus: (status) => writer.broadcast(status),
          },
        ]
      },
      outsideTags: () => ['tag'],
      restored: () => undefined,
    },
  )
  const driver = new ChainDriver(
    chain,
    [writers[0]!],
    options.restoredEnd ?? false,
    options.onEndOfData ?? (() => undefined),
  )
  const taken = (): StreamElement[] => {
    const elements: StreamElement[] = []
    for (let element = out.take(); element !== undefined; element = out.take()) elements.push(element)
    return elements
  }
  return { chain, driver, out, side, taken }
}

/** Gives what a test put into it. */
export class QueueReader implements SourceReader<unknown, SourceSplit> {
  readonly queue: SplitRecords<unknown>[] = []
  readonly calls: string[] = []
  finished = false
  failure: unknown
  position = 0
  closing: () => Promise<void> = async () => undefined
  describeLastRecords?: (splitId: string) => string | undefined
  #wake: (() => void) | undefined

  put(...values: unknown[]): void {
    this.queue.push({ splitId: 's', vector: vector(...values) })
    this.wake()
  }
  wake(): void {
    this.#wake?.()
    this.#wake = undefined
  }
  start(): void {
    this.calls.push('start')
  }
  addSplits(): void {}
  poll(): SplitRecords<unknown> | undefined {
    if (this.failure !== undefined) throw this.failure
    const records = this.queue.shift()
    this.position += records?.vector.values.length ?? 0
    return records
  }
  available(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve
    })
  }
  isFinished(): boolean {
    return this.finished && this.queue.length === 0
  }
  snapshot(): readonly SourceSplit[] {
    return [{ id: `s@${this.position}` }]
  }
  notifyCheckpointComplete(n: number): void {
    this.calls.push(`complete ${n}`)
  }
  close(): Promise<void> {
    this.calls.push('close')
    return this.closing()
  }
}

/** A promise and the function that resolves it. */
export function gate(): { readonly opened: Promise<void>; open: () => void } {
  let open: () => void = () => undefined
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open: () => open() }
}
