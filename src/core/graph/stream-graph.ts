/**
 * What the user declared: nodes and edges. Pure data besides the factories; `api` only adds to it.
 */
import type { Sink, Source } from '../connector.ts'
import type { OperatorFactory } from '../operators/stream-operator.ts'
import type { Key } from '../state.ts'

/** How records choose the downstream subtask. */
export type Partitioner =
  | {
      readonly kind: 'forward'
      /** The user asked for no partitioner: the edge becomes a rebalance when the two ends have different parallelism. */
      readonly implied?: true
    }
  | { readonly kind: 'hash'; readonly keyOf: (value: any) => Key }
  | { readonly kind: 'rebalance' }
  | { readonly kind: 'rescale' }
  | { readonly kind: 'broadcast' }
  | { readonly kind: 'global' }
  | {
      readonly kind: 'custom'
      readonly choose: (key: any, partitions: number) => number
      readonly keyOf: (value: any) => unknown
    }

/** 'auto' = as many subtasks as slots. */
export type Parallelism = number | 'auto'

export type ChainingStrategy = 'always' | 'head' | 'never'

interface NodeBase {
  readonly id: number
  name: string
  uid: string | undefined
  parallelism: Parallelism | undefined
  maxParallelism: number | undefined
  chaining: ChainingStrategy
  slotSharingGroup: string | undefined
  /** Where in the user's file the node was declared, for messages. */
  readonly declaredAt: string | undefined
}

/** Reads from a Source. Watermarks are made in a node of their own right behind it (chained), unless none are asked for. */
export interface SourceNode extends NodeBase {
  readonly kind: 'source'
  readonly source: Source<any, any>
  /** Event-time settings, see core/time/watermarks.ts; undefined = no watermarks. */
  readonly watermarks: unknown
}

export interface OperatorNode extends NodeBase {
  readonly kind: 'operator'
  /** 'map', 'filter', 'keyed-process', …: shown to people and part of the fingerprint. */
  readonly operatorKind: string
  readonly factory: OperatorFactory
  /** Key selectors by input; present = keyed state. All inputs of a keyed operator are keyed (a broadcast input is undefined). */
  readonly keyOf: readonly (((value: any) => Key) | undefined)[] | undefined
  /** True if the operator keeps state (a missing uid is warned about). */
  readonly stateful: boolean
}

export interface SinkNode extends NodeBase {
  readonly kind: 'sink'
  readonly sink: Sink<any>
}

export type StreamNode = SourceNode | OperatorNode | SinkNode

export interface StreamEdge {
  readonly from: number
  readonly to: number
  /** Input of the target: 0 or 1. */
  readonly input: number
  readonly partitioner: Partitioner
  /** Reads the side output with this id instead of the main one. */
  readonly sideOutput: string | undefined
}

/** The declared graph. */
export interface StreamGraph {
  readonly nodes: readonly StreamNode[]
  readonly edges: readonly StreamEdge[]
}
