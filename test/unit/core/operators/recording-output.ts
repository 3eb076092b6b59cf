/** An operator's surroundings that note what it does; the output can be told to make it wait or fail. */

import { type RecordVector, recordVector, type WatermarkStatus } from '../../../../src/core/element.ts'
import type {
  OperatorContext,
  OperatorFactory,
  OperatorRestore,
  Output,
  StreamOperator,
} from '../../../../src/core/operators/stream-operator.ts'
import type { Logger } from '../../../../src/core/ports.ts'
import { MetricRegistry } from '../../../../src/metrics/metrics.ts'
import { HeapKeyedStateBackend } from '../../../../src/state/heap-backend.ts'
import { SeededRandom } from '../../../../src/testing/seeded-random.ts'
import { VirtualTime } from '../../../../src/testing/virtual-time.ts'

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent }

/** One thing that an operator sent, as text: 'records 1,2', 'side late 3', 'watermark 5', 'idle', 'active'. */
export class RecordingOutput implements Output {
  readonly sent: string[] = []
  readonly vectors: RecordVector[] = []
  /** Called after each send; its promise makes the operator wait, its error fails the send. */
  answer: (what: string) => void | Promise<void> = () => undefined

  emit(vector: RecordVector): void | Promise<void> {
    this.vectors.push(vector)
    return this.note(`records ${vector.values.map(String).join(',')}`)
  }
  emitSide(tagId: string, vector: RecordVector): void | Promise<void> {
    return this.note(`side ${tagId} ${vector.values.map(String).join(',')}`)
  }
  emitWatermark(timestamp: number): void | Promise<void> {
    return this.note(`watermark ${timestamp}`)
  }
  emitStatus({ idle }: WatermarkStatus): void | Promise<void> {
    return this.note(idle ? 'idle' : 'active')
  }
  get values(): unknown[] {
    return this.vectors.flatMap((vector) => vector.values)
  }
  get timestamps(): number[] {
    return this.vectors.flatMap((vector) => vector.timestamps)
  }

  private note(what: string): void | Promise<void> {
    this.sent.push(what)
    return this.answer(what)
  }
}

export interface Surroundings {
  readonly keyed?: boolean
  readonly vectorSize?: number
  readonly restored?: OperatorRestore
}

/** A context with everything in memory. */
export function contextFor(
  output: Output,
  options: Surroundings = {},
  name = 'op',
): OperatorContext & { wishes: number[]; time: VirtualTime } {
  const time = new VirtualTime({ startMs: 0 })
  const wishes: number[] = []
  const range = { start: 0, end: 127 }
  return {
    info: {
      jobName: 'job',
      operatorName: name,
      uid: `${name}-uid`,
      subtaskIndex: 0,
      parallelism: 1,
      attempt: 1,
    },
    world: {
      clock: time,
      timers: time,
      random: new SeededRandom(1),
      logger: silent,
      metrics: new MetricRegistry(),
    },
    output,
    vectorSize: options.vectorSize ?? 500,
    keyedState: options.keyed
      ? new HeapKeyedStateBackend({ range, maxParallelism: 128, operatorName: name, clock: time })
      : undefined,
    keyGroups: options.keyed ? range : undefined,
    maxParallelism: 128,
    requestProcessingTime: (at) => wishes.push(at),
    post: (action) => void action(),
    fail: (error) => {
      throw error
    },
    wishes,
    time,
  }
}

/** An opened operator and its output. */
export async function opened(factory: OperatorFactory, options: Surroundings = {}) {
  const operator: StreamOperator = factory()
  const output = new RecordingOutput()
  const context = contextFor(output, options)
  operator.setup(context)
  await operator.initializeState?.(options.restored)
  await operator.open?.()
  return { operator, output, context }
}

/** A vector of values with timestamps 0, 1, 2, … */
export function vectorOf(...values: unknown[]): RecordVector {
  return recordVector(
    values,
    values.map((_, i) => i),
  )
}

/** A promise and how to settle it. */
export function deferred<T = void>() {
  let resolve!: (value: T) => void
  let reject!: (error: unknown) => void
  const promise = new Promise<T>((ok, fail) => {
    resolve = ok
    reject = fail
  })
  return { promise, resolve, reject }
}

/** Lets everything that can run without outside help run. */
export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
