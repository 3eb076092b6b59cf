/**
 * The stream that a method returns, named without importing it. Builders of joins end in a stream, and streams begin joins: data-stream.ts
 * imports the builders and says which class the stream is; the builders only leave its element open.
 */
import type { KeySelector } from '../core/functions.ts'
import type { Key } from '../core/state.ts'
import type { OperatorSpec } from './graph-builder.ts'

/** A kind of stream with its element left open: `stream` refers to `this['element']`. */
export interface OpenStream {
  readonly element: unknown
  readonly stream: unknown
}

/** The stream of kind `S` whose elements are `R`. */
export type StreamOf<S extends OpenStream, R> = (S & { readonly element: R })['stream']

/** Two streams that become the inputs of one operator. */
export interface StreamPair<S extends OpenStream> {
  /** Adds the operator; records with one key meet in one subtask. */
  add<R>(spec: OperatorSpec, keyOf: readonly [KeySelector<any, Key>, KeySelector<any, Key>]): StreamOf<S, R>
}
