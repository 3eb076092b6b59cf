/** A stream for broadcast state. */
import type { MapStateDescriptor } from '../core/state.ts'
import type { StreamInput } from './graph-builder.ts'

/** A stream that every subtask gets whole, with the states that keep it. Give it to `connect` of another stream. */
export class BroadcastStream<T> {
  /** @internal */
  readonly inputs: readonly StreamInput[]
  /** @internal */
  readonly descriptors: readonly MapStateDescriptor<any, any>[]
  declare readonly __type?: T

  /** @internal */
  constructor(inputs: readonly StreamInput[], descriptors: readonly MapStateDescriptor<any, any>[]) {
    this.inputs = inputs
    this.descriptors = descriptors
  }
}
