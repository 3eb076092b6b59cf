/**
 * Windows over two inputs: window join and coGroup. As in Flink both inputs become one, whose records say where they came from; assigner,
 * trigger and evictor see these.
 *
 *   input 1 ─► { input: 1, value } ─┐
 *                                   ├─► windows of the key ─► fires ─► coGroup: both sides, also if one is empty
 *   input 2 ─► { input: 2, value } ─┘                              └─► join: every pair
 *
 * Results have the window's last millisecond as their time. Records that are late are dropped and counted.
 */
import { type RecordVector, recordVector, type WatermarkStatus } from '../element.ts'
import type { Collector, RichFunction } from '../functions.ts'
import type {
  KeyOf,
  OperatorContext,
  OperatorFactory,
  OperatorRestore,
  OperatorSnapshot,
  StreamOperator,
} from '../operators/stream-operator.ts'
import type { WindowOperatorSpec } from './base-window-operator.ts'
import { windowOperator } from './window-operator.ts'

/** A record of one of two inputs, as assigners, triggers and evictors of a join see it. */
export type TaggedElement<T1, T2> =
  | { readonly input: 1; readonly value: T1 }
  | { readonly input: 2; readonly value: T2 }

/** One result for each pair. */
export type JoinFunction<T1, T2, R> =
  | ((first: T1, second: T2) => R)
  | (RichFunction & { join(first: T1, second: T2): R })

/** Any number of results for each pair: given to the collector, or returned as an iterable. It takes three parameters. */
export type FlatJoinFunction<T1, T2, R> =
  | ((first: T1, second: T2, out: Collector<R>) => Iterable<R> | void | Promise<Iterable<R> | void>)
  | (RichFunction & {
      join(first: T1, second: T2, out: Collector<R>): Iterable<R> | void | Promise<Iterable<R> | void>
    })

/** Gets all records of a window from both inputs; one of the lists may be empty. */
export type CoGroupFunction<T1, T2, R> =
  | ((
      first: readonly T1[],
      second: readonly T2[],
      out: Collector<R>,
    ) => Iterable<R> | void | Promise<Iterable<R> | void>)
  | (RichFunction & {
      coGroup(
        first: readonly T1[],
        second: readonly T2[],
        out: Collector<R>,
      ): Iterable<R> | void | Promise<Iterable<R> | void>
    })

/** Windows over two keyed inputs. `spec` is that of windows over tagged elements. */
export function joinedWindowOperator(
  spec: WindowOperatorSpec,
  keyOf: readonly [KeyOf, KeyOf],
): OperatorFactory {
  const windows = windowOperator(spec, ((element: TaggedElement<unknown, unknown>) =>
    keyOf[element.input - 1]!(element.value)) as KeyOf)
  return () => new JoinedWindowOperator(windows())
}

/** Tags the records of its two inputs and gives them to a window operator. */
class JoinedWindowOperator implements StreamOperator {
  private readonly windows: StreamOperator

  constructor(windows: StreamOperator) {
    this.windows = windows
  }

  setup(context: OperatorContext): void {
    this.windows.setup(context)
  }
  initializeState(restored: OperatorRestore | undefined): void | Promise<void> {
    return this.windows.initializeState?.(restored)
  }
  open(): void | Promise<void> {
    return this.windows.open?.()
  }
  processVector(vector: RecordVector): void | Promise<void> {
    return this.windows.processVector(tagged(vector, 1))
  }
  processVector2(vector: RecordVector): void | Promise<void> {
    return this.windows.processVector(tagged(vector, 2))
  }
  processWatermark(timestamp: number): void | Promise<void> {
    return this.windows.processWatermark(timestamp)
  }
  processStatus(status: WatermarkStatus): void | Promise<void> {
    return this.windows.processStatus(status)
  }
  onProcessingTime(time: number): void | Promise<void> {
    return this.windows.onProcessingTime?.(time)
  }
  prepareSnapshot(checkpointId: number, endOfInput: boolean): void | Promise<void> {
    return this.windows.prepareSnapshot?.(checkpointId, endOfInput)
  }
  snapshot(checkpointId: number): OperatorSnapshot {
    return this.windows.snapshot?.(checkpointId) ?? {}
  }
  close(): void | Promise<void> {
    return this.windows.close?.()
  }
}

function tagged({ values, timestamps }: RecordVector, input: 1 | 2): RecordVector {
  return recordVector(
    values.map((value) => ({ input, value })),
    timestamps,
  )
}
