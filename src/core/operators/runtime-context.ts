/**
 * What `open` of a user function gets: who the subtask is, and its state.
 */
import { MillraceError } from '../../errors.ts'
import type { RuntimeContext } from '../functions.ts'
import type { Logger, MetricGroup } from '../ports.ts'
import type {
  AggregatingState,
  AggregatingStateDescriptor,
  AsyncMapState,
  AsyncMapStateDescriptor,
  KeyedStateBackend,
  ListState,
  ListStateDescriptor,
  MapState,
  MapStateDescriptor,
  ReducingState,
  ReducingStateDescriptor,
  StateDescriptor,
  ValueState,
  ValueStateDescriptor,
} from '../state.ts'
import { GuardedStateStore } from './guarded-state.ts'
import type { InvocationGuard } from './invocation-guard.ts'
import type { OperatorContext } from './stream-operator.ts'

/** The RuntimeContext of one operator's subtask. State is there only behind keyBy. */
export class SubtaskRuntimeContext implements RuntimeContext {
  private readonly context: OperatorContext
  private readonly guard: InvocationGuard
  private readonly keyedState: KeyedStateBackend | undefined
  private readonly states: GuardedStateStore | undefined

  constructor(context: OperatorContext, guard: InvocationGuard) {
    this.context = context
    this.guard = guard
    this.keyedState = context.keyedState
    this.states =
      context.keyedState === undefined ? undefined : new GuardedStateStore(context.keyedState, guard)
  }

  getJobName(): string {
    return this.context.info.jobName
  }
  getTaskName(): string {
    return this.context.info.operatorName
  }
  getIndexOfThisSubtask(): number {
    return this.context.info.subtaskIndex
  }
  getNumberOfParallelSubtasks(): number {
    return this.context.info.parallelism
  }
  getAttemptNumber(): number {
    return this.context.info.attempt
  }
  getMetricGroup(): MetricGroup {
    return this.context.world.metrics
  }
  getLogger(): Logger {
    return this.context.world.logger
  }

  getCurrentKey(): any {
    this.guard.requireKey('The current key')
    return this.keyedState!.getCurrentKey()
  }
  getState<T>(descriptor: ValueStateDescriptor<T>): ValueState<T> {
    return this.keyed(descriptor).getState(descriptor)
  }
  getListState<T>(descriptor: ListStateDescriptor<T>): ListState<T> {
    return this.keyed(descriptor).getListState(descriptor)
  }
  getMapState<K, V>(descriptor: MapStateDescriptor<K, V>): MapState<K, V> {
    return this.keyed(descriptor).getMapState(descriptor)
  }
  getAsyncMapState<K, V>(descriptor: AsyncMapStateDescriptor<K, V>): AsyncMapState<K, V> {
    return this.keyed(descriptor).getAsyncMapState(descriptor)
  }
  getReducingState<T>(descriptor: ReducingStateDescriptor<T>): ReducingState<T> {
    return this.keyed(descriptor).getReducingState(descriptor)
  }
  getAggregatingState<IN, ACC, OUT>(
    descriptor: AggregatingStateDescriptor<IN, ACC, OUT>,
  ): AggregatingState<IN, OUT> {
    return this.keyed(descriptor).getAggregatingState(descriptor)
  }

  private keyed(descriptor: StateDescriptor): GuardedStateStore {
    if (this.states !== undefined) return this.states
    throw new MillraceError(
      'MILLRACE_STATE_ACCESS',
      `State '${descriptor.name}' of operator '${this.context.info.operatorName}' needs a key, but the stream is not keyed`,
      {
        details: { state: descriptor.name, operator: this.context.info.operatorName },
        remedy: 'Call keyBy before this operator, or keep operator state through initializeState.',
      },
    )
  }
}
