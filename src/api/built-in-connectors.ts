/**
 * The connectors that builders make by themselves (`fromCollection`, `fromSequence`, `print`, `executeAndCollect`).
 * Builders know connectors by contract only, like any user's; the package's entry point hands in the real ones.
 */

import type { Sink, Source, TwoPhaseCommittingSink } from '../core/connector.ts'
import { MillraceError } from '../errors.ts'

/** A sink whose values come back to the process that reads them. */
export interface CollectingSink<T> extends TwoPhaseCommittingSink<T> {
  /** Removes and returns the values that became visible. @throws MillraceError if values already taken were produced again. */
  take(): T[]
  /** Resolves when `take` may return more. */
  changed(): Promise<void>
  /** No more values will be taken: writers stop waiting for room. */
  release(): void
}

export interface BuiltInConnectors {
  collectionSource<T>(values: Iterable<T>): Source<T, any>
  sequenceSource(from: number, to: number): Source<number, any>
  printSink<T>(options: { readonly prefix?: string }): Sink<T>
  /** `room`: values that may wait to be taken before writers wait too. */
  collectingSink<T>(options: { readonly room: number }): CollectingSink<T>
}

let registered: BuiltInConnectors | undefined

/** Hands in the connectors; done once by the entry point. */
export function registerBuiltInConnectors(connectors: BuiltInConnectors): void {
  registered = connectors
}

/** The connectors that were handed in. */
export function builtInConnectors(): BuiltInConnectors {
  if (registered === undefined)
    throw new MillraceError(
      'MILLRACE_INTERNAL',
      'no built-in connectors are registered: import the package by its name',
    )
  return registered
}
