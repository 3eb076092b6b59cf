/** The end of a stream. */
import type { Parallelism, StreamNode } from '../core/graph/stream-graph.ts'
import * as settings from './node-settings.ts'

/** A sink's settings. */
export class DataStreamSink<T> {
  /** @internal */
  private readonly node: StreamNode
  declare readonly __type?: (value: T) => void

  /** @internal */
  constructor(node: StreamNode) {
    this.node = node
  }

  /** The name under which prepared transactions are stored; see `SingleOutputStreamOperator.uid`. */
  uid(uid: string): this {
    settings.setUid(this.node, uid)
    return this
  }
  /** Shown to people, in metrics and logs. */
  name(name: string): this {
    settings.setName(this.node, name)
    return this
  }
  /** Number of subtasks; 'auto' = as many as there are slots. */
  setParallelism(parallelism: Parallelism): this {
    settings.setParallelism(this.node, parallelism)
    return this
  }
  setMaxParallelism(maxParallelism: number): this {
    settings.setMaxParallelism(this.node, maxParallelism)
    return this
  }
  /** Is never called directly: records come through a channel. */
  disableChaining(): this {
    this.node.chaining = 'never'
    return this
  }
  /** Is not called directly by the operator before it. */
  startNewChain(): this {
    this.node.chaining = 'head'
    return this
  }
  slotSharingGroup(group: string): this {
    settings.setSlotSharingGroup(this.node, group)
    return this
  }
}
