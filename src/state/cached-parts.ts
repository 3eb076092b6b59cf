/** What the parts of a cached backend are made of, and what they share. */
import type { ExternalHandle, KeyedStateHandle } from '../checkpoint/checkpoint-storage.ts'
import type { Logger, MetricGroup } from '../core/ports.ts'
import type { Key, KeyGroupRange } from '../core/state.ts'
import { MillraceError } from '../errors.ts'
import type { CacheCodec } from './cached-codec.ts'
import type { CacheFreezes } from './cached-freeze.ts'
import type { LayerChain } from './cached-layers.ts'
import type { CachedRecord, CapturedRow } from './cached-record.ts'
import type { ColdRecord, ColdStore, ColdTimers, OpenColdStore } from './cold-store.ts'
import type { HeapTables } from './heap-tables.ts'
import type { ImageState } from './key-group-image.ts'
import type { TableBackendOptions } from './table-backend.ts'

/** What a checkpoint says about a store; wraps what `seal` gave. */
export interface SealedState {
  /** Forms of the states that its rows hold. */
  readonly states: readonly ImageState[]
  readonly range: readonly [number, number]
  readonly sealed: unknown
}

/** How checkpoints are kept. */
export interface SnapshotMode {
  /** Name of the backend whose store is durable and is the chain; undefined: layers. */
  readonly durableAs: string | undefined
  /** The store gets all changes at each snapshot, and can be recovered from on this machine. */
  readonly localCopy: boolean
  /** False: each checkpoint holds everything. */
  readonly incremental: boolean
}

/** Rows on their way to the store. */
export interface Batch {
  readonly rows: CapturedRow[]
  bytes: number
}

/** What the writer needs of its backend. */
export interface SnapshotParts extends SnapshotMode {
  readonly operatorName: string
  readonly range: KeyGroupRange
  readonly entriesPerSlice: number
  readonly logger: Logger
  readonly tables: HeapTables<CachedRecord>
  readonly codec: CacheCodec
  readonly freezes: CacheFreezes
  readonly chain: LayerChain
  readonly store: ColdStore | undefined
  /** Writes to the store after what was written before. */
  write(segment: number, rows: readonly ColdRecord[]): Promise<void>
  /** Resolves when records that are being evicted are in the store, or have failed the freezes that need them there. */
  evicted(): Promise<void>
  /** The segment that takes writes now; closing it begins the next one. */
  closeSegment(): number
  /** A record is as the next snapshot has it, and holds nothing. */
  emptied(record: CachedRecord): void
}

/** What a cached backend is made for. */
export interface CachedBackendOptions extends TableBackendOptions, SnapshotMode {
  /** Bytes of records on the heap, about, before some have to leave. Infinite without a store. */
  readonly cacheMaxBytes: number
  /** Undefined: all state stays on the heap. */
  readonly openStore: OpenColdStore | undefined
  readonly logger: Logger
  readonly metrics?: MetricGroup | undefined
}

/** Writes to a store one after the other: an evicted record and its next change may go to one segment within a moment. */
export class OrderedWrites {
  readonly #store: ColdStore
  #last: Promise<unknown> = Promise.resolve()

  constructor(store: ColdStore) {
    this.#store = store
  }

  write(segment: number, rows: readonly ColdRecord[]): Promise<void> {
    const write = this.#last.then(() => this.#store.write(segment, rows))
    this.#last = write.catch(() => undefined)
    return write
  }
}

/** @throws MILLRACE_STATE_INCOMPATIBLE for state that another backend keeps */
export function checkReadable(
  external: readonly ExternalHandle[],
  { durableAs, operatorName }: Pick<CachedBackendOptions, 'durableAs' | 'operatorName'>,
): void {
  const other = external.find(({ backend }) => backend !== durableAs)
  if (other === undefined) return
  throw new MillraceError(
    'MILLRACE_STATE_INCOMPATIBLE',
    `The checkpoint's state of operator '${operatorName}' is kept by state backend '${other.backend}'`,
    {
      remedy: `Set state.backend to ${other.backend}, or take a savepoint there: it restores on every backend.`,
    },
  )
}

/** What a checkpoint left on this machine. */
interface LocalCopy {
  readonly store: ColdStore
  readonly states: readonly ImageState[]
  /** Those of all its keys, by pages. */
  readonly timers: readonly (readonly ColdTimers[])[]
}

/**
 * Opens the store with what a checkpoint left on this machine; undefined if there is none that fits, or if its timers cannot be read: the
 * checkpoint is read then. Values are read when they are needed.
 */
export async function openLocalCopy(
  { openStore, localCopy, range, operatorName, logger }: CachedBackendOptions,
  handles: readonly KeyedStateHandle[],
): Promise<LocalCopy | undefined> {
  const [handle] = handles
  if (openStore === undefined || !localCopy || handles.length !== 1 || handle?.kind !== 'incremental')
    return undefined
  const local = handle.local as SealedState | undefined
  // After a rescale a handle is cut down to a part of what its copy holds.
  if (local === undefined || local.range[0] !== range.start || local.range[1] !== range.end) return undefined
  const store = await openStore([{ range: local.range, sealed: local.sealed }])
  if (store === undefined) return undefined
  const timers: (readonly ColdTimers[])[] = []
  try {
    for await (const page of store.timers()) timers.push(page)
  } catch (error) {
    logger.warn(
      `Operator '${operatorName}': its state on this machine cannot be read; the checkpoint is read instead`,
      { error },
    )
    await store.close()
    return undefined
  }
  return { store, states: local.states, timers }
}

/** Opens the store with what the handles name; empty if they name nothing. */
export async function openAt(
  { openStore, operatorName }: CachedBackendOptions,
  external: readonly ExternalHandle[],
): Promise<ColdStore> {
  const store = await openStore?.(
    external.map(({ range, state }) => ({ range, sealed: (state as SealedState).sealed })),
  )
  if (store !== undefined) return store
  throw new MillraceError(
    'MILLRACE_INTERNAL',
    `The state backend could not open a store for operator '${operatorName}'`,
  )
}

/** The error of whoever uses a key's state without having loaded it. */
export function notLoaded(operatorName: string, key: Key): MillraceError {
  return new MillraceError(
    'MILLRACE_STATE_ACCESS',
    `Operator '${operatorName}': the state of key ${String(key)} was used, but it was not loaded before`,
    {
      details: { operator: operatorName },
      remedy:
        'Use the state of the current key only; an operator of your own must call prefetch with the keys of each vector.',
    },
  )
}

/** The error of a checkpoint whose frozen state is not there any more. */
export function frozenUnusable(operatorName: string, checkpointId: number, why: string): MillraceError {
  return new MillraceError(
    'MILLRACE_CHECKPOINT_FAILED',
    `Operator '${operatorName}': the frozen state of checkpoint ${checkpointId} cannot be used: ${why}`,
  )
}

/** All that an iteration gives. */
export async function listOf<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const item of items) list.push(item)
  return list
}
