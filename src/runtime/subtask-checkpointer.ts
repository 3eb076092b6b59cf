/**
 * Takes snapshot n of one task: flush and prepare → freeze (synchronous, exact) → forward the barrier → resume; the bytes are written
 * off the record path and acknowledged when they are stored.
 */
import type {
  BlobStore,
  ImagesHandle,
  KeyedStateHandle,
  StateHandle,
} from '../checkpoint/checkpoint-storage.ts'
import { ownBlobsOf, packImages } from '../checkpoint/checkpoint-storage.ts'
import type { OperatorSubtaskState } from '../checkpoint/completed-checkpoint.ts'
import { blobName, runsOf, wholeHandle } from '../checkpoint/image-blobs.ts'
import type { InFlightCodec } from '../checkpoint/in-flight.ts'
import { type SelfStoringState, storesItself } from '../checkpoint/keyed-snapshot.ts'
import type { CheckpointKind } from '../core/element.ts'
import type { OperatorChain } from '../core/operators/operator-chain.ts'
import type { OperatorSnapshot, OperatorStateSnapshot } from '../core/operators/stream-operator.ts'
import type { World } from '../core/ports.ts'
import type { FrozenKeyedState, KeyedStateBackend } from '../core/state.ts'
import type { ChainDriver } from './chain-driver.ts'
import type { FaultHook } from './fault-points.ts'

/** Turns operator state into bytes and back. */
export interface StateCodec {
  readonly inFlight: InFlightCodec
  encode(state: OperatorStateSnapshot, operator: string): Uint8Array
  decode(bytes: Uint8Array, operator: string): OperatorStateSnapshot
}

/** How a barrier that may overtake goes on, and what it left behind it. */
export interface UnalignedSnapshot {
  /** Epoch ms; passed on with the barrier. */
  readonly overtakeAt: number | undefined
  /**
   * The barrier has overtaken: called at the freeze, keeps what was in the channels before it. Resolves when all of it is known, which may
   * need other subtasks to go on.
   */
  readonly capture?: () => Promise<Uint8Array | undefined>
}

/** Where snapshots of one checkpoint go. */
export interface SnapshotStorage {
  blobs(n: number): BlobStore
  readonly codec: StateCodec
  /** False: a final checkpoint stores no keyed state, for nothing can resume from it. What somebody asks for is stored whole. */
  readonly keepsState: boolean
  /** False: the record path waits for the bytes to be stored. */
  readonly async: boolean
}

/** One operator of the chain, as the checkpointer sees it. */
export interface CheckpointedOperator {
  readonly uid: string
  readonly keyedState: KeyedStateBackend | undefined
}

export interface Acknowledger {
  acknowledge(n: number, subtask: string, states: readonly OperatorSubtaskState[]): void
  decline(n: number, subtask: string, error: unknown): void
}

export interface SubtaskCheckpointerOptions {
  readonly subtaskId: string
  readonly subtaskIndex: number
  readonly operators: readonly CheckpointedOperator[]
  readonly chain: OperatorChain
  readonly driver: ChainDriver
  readonly storage: SnapshotStorage
  readonly acknowledger: Acknowledger
  readonly world: World
  /** Positions of the source at the head, if there is one. */
  readonly splits: ((n: number) => readonly unknown[]) | undefined
  readonly fail: (error: unknown) => void
  readonly fault?: FaultHook | undefined
}

/** A chain as it was at the barrier. */
interface FrozenChain {
  readonly kind: CheckpointKind
  readonly snapshots: readonly OperatorSnapshot[]
  readonly frozen: readonly (FrozenKeyedState | undefined)[]
  readonly splits: readonly unknown[] | undefined
  readonly ended: boolean
  /** Elements that the barrier overtook; absent for an aligned checkpoint. */
  readonly inFlight: Promise<Uint8Array | undefined> | undefined
}

/** The store, noting what is put into it. */
function recording(blobs: BlobStore, written: StateHandle[]): BlobStore {
  return {
    put: async (name, bytes) => {
      const handle = await blobs.put(name, bytes)
      written.push(handle)
      return handle
    },
    get: (handle) => blobs.get(handle),
    discard: (handle) => blobs.discard(handle),
  }
}

export class SubtaskCheckpointer {
  readonly #options: SubtaskCheckpointerOptions
  readonly #uploading = new Map<number, FrozenKeyedState[]>()
  /** Aborted checkpoints whose snapshot is being written, or whose trigger may still come. */
  readonly #aborted = new Set<number>()
  #closed = false

  constructor(options: SubtaskCheckpointerOptions) {
    this.#options = options
  }

  /** Does nothing for a checkpoint that was aborted already: a late trigger or barrier is swallowed. */
  async checkpoint(n: number, kind: CheckpointKind, unaligned?: UnalignedSnapshot): Promise<void> {
    const { chain, driver, operators, storage, world, fault } = this.#options
    // Checkpoints come in the order of their ids: triggers below n cannot come any more.
    for (const aborted of this.#aborted)
      if (aborted < n && !this.#uploading.has(aborted)) this.#aborted.delete(aborted)
    if (this.#aborted.has(n)) return
    fault?.('before-prepare')
    const started = world.clock.now()
    await chain.prepareSnapshot(n, driver.ended, kind === 'savepoint')
    fault?.('after-prepare')
    // Aborted while output was flushed; what was prepared for it belongs to the next one.
    if (this.#aborted.has(n)) return
    fault?.('before-freeze')
    // ---- synchronous from here: nothing can come between positions, state and barrier
    const frozenAt = world.clock.now()
    const { ended } = driver
    const splits = this.#options.splits?.(n)
    const snapshots = chain.snapshots(n)
    const keepsState = storage.keepsState || kind !== 'final'
    const frozen = operators.map((operator) =>
      keepsState && operator.keyedState !== undefined ? operator.keyedState.freeze(n) : undefined,
    )
    this.#uploading.set(
      n,
      frozen.filter((f) => f !== undefined),
    )
    const inFlight = unaligned?.capture?.()
    fault?.('after-freeze')
    const overtakeAt = unaligned?.overtakeAt
    driver.broadcast({
      kind: 'barrier',
      n,
      checkpointKind: kind,
      ...(overtakeAt === undefined ? {} : { overtakeAt }),
    })
    // ---- resumes
    world.metrics.histogram('checkpoint_freeze_ms').record(world.clock.now() - frozenAt)
    world.metrics.histogram('checkpoint_flush_ms').record(frozenAt - started)
    const upload = this.#upload(n, { kind, snapshots, frozen, splits, ended, inFlight })
    // What is in flight is known when the other subtasks have gone on, and those may wait for this one to read.
    if (!storage.async && inFlight === undefined) await upload
  }

  async #upload(n: number, { kind, snapshots, frozen, splits, ended, inFlight }: FrozenChain): Promise<void> {
    const { subtaskId, subtaskIndex, operators, storage, acknowledger, world } = this.#options
    const written: StateHandle[] = []
    const blobs = recording(storage.blobs(n), written)
    try {
      const states: OperatorSubtaskState[] = []
      for (let i = 0; i < operators.length; i++) {
        const operator = operators[i] as CheckpointedOperator
        const snapshot = snapshots[i] as OperatorSnapshot
        const keyed = await this.#keyed(n, kind, operator, frozen[i], blobs)
        if (keyed?.kind === 'incremental') written.push(...ownBlobsOf(keyed))
        const operatorState = snapshot.operatorState
        const stored =
          operatorState !== undefined && Object.keys(operatorState).length > 0
            ? await blobs.put(
                `${operator.uid}-${subtaskIndex}-operator`,
                storage.codec.encode(operatorState, operator.uid),
              )
            : undefined
        states.push({
          uid: operator.uid,
          subtask: subtaskIndex,
          ...(keyed === undefined ? {} : { keyed }),
          ...(stored === undefined ? {} : { operator: stored }),
          ...(i === 0 && splits !== undefined ? { splits } : {}),
          ...(snapshot.committables === undefined || snapshot.committables.length === 0
            ? {}
            : { committables: snapshot.committables }),
          ...(ended ? { endOfInput: true } : {}),
        })
      }
      const channels = await inFlight
      if (channels !== undefined) world.metrics.counter('in_flight_bytes').inc(channels.length)
      const [head] = states
      if (channels !== undefined && head !== undefined)
        states[0] = { ...head, inFlight: await blobs.put(`${head.uid}-${subtaskIndex}-in-flight`, channels) }
      this.#release(n)
      this.#options.fault?.('before-ack')
      if (!this.#closed) acknowledger.acknowledge(n, subtaskId, states)
      this.#options.fault?.('after-ack')
    } catch (error) {
      const aborted = this.#aborted.has(n)
      this.#release(n)
      if (this.#closed) return
      // Nobody will ever name what is written already.
      await this.#discard(blobs, written)
      if (aborted) return
      world.logger.warn(`${subtaskId} could not store its snapshot for checkpoint ${n}`, { error })
      acknowledger.decline(n, subtaskId, error)
    }
  }

  async #keyed(
    n: number,
    kind: CheckpointKind,
    operator: CheckpointedOperator,
    frozen: FrozenKeyedState | undefined,
    blobs: BlobStore,
  ): Promise<KeyedStateHandle | undefined> {
    if (frozen === undefined) return undefined
    const { world, subtaskIndex, storage } = this.#options
    const pause = (): Promise<void> => {
      if (this.#aborted.has(n) || this.#closed)
        return Promise.reject(new Error(`checkpoint ${n} was aborted`))
      return world.timers.turn()
    }
    const name = `${operator.uid}-${subtaskIndex}-keyed`
    // A savepoint is images of everything, whatever the backend. To the backend it is a checkpoint that was not stored.
    // Otherwise its blobs are not noted as written as they are put: layers of a chain stay the backend's when the checkpoint is aborted.
    if ('store' in frozen && kind !== 'savepoint')
      return (frozen as SelfStoringState).store({ n, blobs: storage.blobs(n), name, pause })
    const images = await frozen.materialize(pause)
    const stored: ImagesHandle[] = []
    for (const run of runsOf(images)) {
      const { bytes, keyGroups } = packImages(run)
      stored.push({ handle: await blobs.put(blobName(name, stored.length), bytes), keyGroups })
    }
    return wholeHandle(stored)
  }

  async #discard(blobs: BlobStore, written: readonly StateHandle[]): Promise<void> {
    for (const handle of written) {
      try {
        await blobs.discard(handle)
      } catch (error) {
        // Orphans cost room, not correctness.
        this.#options.world.logger.debug('could not remove a snapshot that nobody needs', { error })
      }
    }
  }

  /** Checkpoints before `oldest` are forgotten: backends that keep history may let go of theirs. */
  retainedFrom(oldest: number): void {
    for (const { keyedState } of this.#options.operators)
      if (keyedState !== undefined && storesItself(keyedState)) keyedState.retainedFrom(oldest)
  }

  /** Checkpoint n was aborted: stop writing it, or do not begin. Prepared output stays with the sink. */
  abort(n: number): void {
    this.#aborted.add(n)
  }

  #release(n: number): void {
    for (const frozen of this.#uploading.get(n) ?? []) frozen.release()
    this.#uploading.delete(n)
    this.#aborted.delete(n)
  }

  close(): void {
    this.#closed = true
    for (const n of [...this.#uploading.keys()]) this.#aborted.add(n)
  }
}
