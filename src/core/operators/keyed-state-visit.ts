/**
 * applyToKeyedState: a function of the broadcast side goes over the keys that hold a state.
 *
 *   keys of the state (awaited if some are cold) ─► page of keys ─► prefetch (awaited if cold) ─► key by key: set key, call f ─► settle ─► next page
 */
import { MillraceError } from '../../errors.ts'
import type {
  AggregatingState,
  Key,
  KeyedStateBackend,
  ListState,
  MapState,
  State,
  StateDescriptor,
  ValueState,
} from '../state.ts'
import { andThen, inOrder, isThenable } from './continuation.ts'
import { GuardedStateStore } from './guarded-state.ts'
import { type InvocationGuard, KEYED, OPEN } from './invocation-guard.ts'

type Visit = (key: any, state: any) => void | Promise<void>

/** Goes over the keys of one operator subtask; one visit at a time. */
export class KeyedStateVisits {
  private readonly operatorName: string
  private readonly state: KeyedStateBackend
  private readonly guard: InvocationGuard
  private readonly handles: GuardedStateStore
  /** Keys that are loaded together. */
  private readonly pageSize: number
  private visiting = false
  /** The visit that is under way; undefined when there is none. */
  running: Promise<void> | undefined

  constructor(operatorName: string, state: KeyedStateBackend, guard: InvocationGuard, pageSize: number) {
    this.operatorName = operatorName
    this.state = state
    this.guard = guard
    this.handles = new GuardedStateStore(state, guard)
    this.pageSize = pageSize
  }

  apply(descriptor: StateDescriptor, f: Visit): void | Promise<void> {
    this.guard.requireOpen('The context')
    if (this.visiting)
      throw this.refused('was called while another call was under way', 'Await each call before the next.')
    const { state, isHeld } = this.handleOf(descriptor)
    this.visiting = true
    let wait: void | Promise<void>
    try {
      const keys = this.state.keysWith(descriptor.name)
      const visit = (all: Iterable<Key>) =>
        this.visitAll([...all], (key) => (isHeld() ? f(key, state) : undefined))
      wait = isThenable(keys) ? (keys as Promise<readonly Key[]>).then(visit) : visit(keys as Iterable<Key>)
    } catch (error) {
      this.visiting = false
      throw error
    }
    if (wait === undefined) {
      this.visiting = false
      return
    }
    const over = (): void => {
      this.visiting = false
      this.running = undefined
    }
    this.running = wait
    wait.then(over, over)
    return wait
  }

  private visitAll(keys: readonly Key[], visit: (key: Key) => void | Promise<void>): void | Promise<void> {
    const { state, pageSize } = this
    return inOrder(Math.ceil(keys.length / pageSize), (page) => {
      const own = keys.slice(page * pageSize, (page + 1) * pageSize)
      const loaded = state.prefetch(own)
      const visited = andThen(loaded, () => inOrder(own.length, (i) => this.visitOne(own[i]!, visit)))
      return andThen(visited, () => state.settle())
    })
  }

  private visitOne(key: Key, visit: (key: Key) => void | Promise<void>): void | Promise<void> {
    const { guard } = this
    this.state.setCurrentKey(key)
    guard.phase = KEYED
    let wait: void | Promise<void>
    try {
      wait = visit(key)
    } catch (error) {
      guard.phase = OPEN
      throw error
    }
    if (!isThenable(wait)) {
      guard.phase = OPEN
      return
    }
    return wait.finally(() => {
      guard.phase = OPEN
    })
  }

  /** The state as `f` sees it, and whether the current key holds it: loading finds keys that hold other states. */
  private handleOf(descriptor: StateDescriptor): { readonly state: State; readonly isHeld: () => boolean } {
    const { handles } = this
    switch (descriptor.kind) {
      case 'value': {
        const state: ValueState<unknown> = handles.getState(descriptor as any)
        return { state, isHeld: () => state.value() !== null }
      }
      case 'list': {
        const state: ListState<unknown> = handles.getListState(descriptor as any)
        return { state, isHeld: () => state.get().length > 0 }
      }
      case 'map': {
        const state: MapState<unknown, unknown> = handles.getMapState(descriptor as any)
        return { state, isHeld: () => !state.isEmpty() }
      }
      case 'reducing':
      case 'aggregating': {
        const state: AggregatingState<unknown, unknown> =
          descriptor.kind === 'reducing'
            ? handles.getReducingState(descriptor as any)
            : handles.getAggregatingState(descriptor as any)
        return { state, isHeld: () => state.get() !== null }
      }
      case 'async-map':
        throw this.refused('was given an async map state', 'Keep what it needs in a state of another kind.')
    }
  }

  private refused(what: string, remedy: string): MillraceError {
    return new MillraceError(
      'MILLRACE_STATE_ACCESS',
      `applyToKeyedState of operator '${this.operatorName}' ${what}`,
      { details: { operator: this.operatorName }, remedy },
    )
  }
}
