/**
 * The take-over sequence of a new leader (protocol §2: the order matters): fence and read the facts → list what earlier attempts may
 * have left → write attempt-started → finish the commits of the latest checkpoint → confirm → abort leftovers and lease ids → restore.
 * After it everything is known that an attempt needs, and no record has been read.
 *
 * A run that begins with a snapshot gets it as its checkpoint 0 *before* attempt-started names the run: a crash in between leaves the earlier
 * run as it was, a crash afterwards finds the state (protocol §4.7).
 */
import {
  type AttemptRecord,
  type CheckpointStore,
  finalRefusal,
  type JobRecord,
  type OutputTransactions,
  type RecoveryFacts,
} from '../checkpoint/checkpoint-store.ts'
import {
  CHECKPOINT_FORMAT,
  type CompletedCheckpoint,
  type OperatorShape,
  type OperatorSubtaskState,
} from '../checkpoint/completed-checkpoint.ts'
import { planRecovery, type RecoveryPlan, type RestoreRequest } from '../checkpoint/recovery-plan.ts'
import { baseOf } from '../checkpoint/savepoint.ts'
import type { Committer, SourceSplit, SplitEnumerator } from '../core/connector.ts'
import type { JobGraph } from '../core/graph/job-graph.ts'
import type { JobSettings, StartOptions } from '../core/job-settings.ts'
import type { World } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'
import { splitOwner } from './attempt.ts'
import type { FaultHook } from './fault-points.ts'
import { checkOutputIsCommitted } from './output-check.ts'
import { recoverAll } from './output-commits.ts'
import { loadState, type RestoredState, verifyKeyedState } from './restore.ts'
import type { StateStorage } from './state-storage.ts'

export interface TakeOverOptions {
  readonly jobName: string
  readonly graph: JobGraph
  readonly settings: JobSettings
  readonly world: World
  readonly start: StartOptions
  readonly incarnation: string
  readonly store: CheckpointStore
  readonly storage: StateStorage
  readonly transactions: OutputTransactions | undefined
  readonly committers: ReadonlyMap<string, Committer<unknown>>
  readonly fault?: FaultHook | undefined
  /** Told what is recorded of the job before anything is made of it. */
  readonly onFound?: (facts: RecoveryFacts) => void
}

type RunningPlan = Extract<RecoveryPlan, { type: 'start' | 'resume' }>

/** There is nothing to run. */
export type Ended = Extract<RecoveryPlan, { type: 'ended' }> & { readonly facts: RecoveryFacts }

/** What an attempt starts from. */
export interface Taken {
  readonly type: 'taken'
  readonly plan: RunningPlan
  readonly facts: RecoveryFacts
  readonly restored: RestoredState | undefined
  /** Splits of each source by uid, with their positions. */
  readonly splits: ReadonlyMap<string, readonly SourceSplit[]>
  readonly leases: ReadonlyMap<string, readonly unknown[]>
  /** The checkpoint that the attempt starts from: a restored one, or checkpoint 0. */
  readonly base: CompletedCheckpoint
  /** The checkpoint that a new run was told to begin with. */
  readonly from: CompletedCheckpoint | undefined
}

export class TakeOver {
  readonly #options: TakeOverOptions
  readonly #bornAt: number
  #first = true

  constructor(options: TakeOverOptions) {
    this.#options = options
    this.#bornAt = options.world.clock.now()
  }

  /** `enumerators` gets the source enumerators that were made, in the order of the sources, also when it throws. */
  async run(enumerators: SplitEnumerator<SourceSplit>[]): Promise<Taken | Ended> {
    const { store, world, graph, start, transactions, storage, settings } = this.#options
    checkOutputIsCommitted(graph, settings)
    const found = await store.takeOver()
    this.#options.onFound?.(found)
    const accepted = this.#first ? start.acceptLostTransactions : []
    const facts = { ...found, acceptedLost: [...found.acceptedLost, ...accepted] }
    // A wish of the start is served once: a standby does not begin again what the leader before it began.
    const wish = this.#first && (found.attempt?.begunAt ?? -1) < this.#bornAt
    const plan = planRecovery(facts, {
      fresh: start.fresh && wish,
      newRun: world.random.uuid(),
      restore: wish ? await this.#restoreRequest() : undefined,
    })
    if (plan.type === 'ended') {
      world.logger.info(plan.message)
      return { ...plan, facts }
    }
    const recorded = facts.attempt?.sinks ?? []
    await transactions?.observe(recorded)
    // Durable before it is obeyed: the next leader must not find the loss again.
    if (accepted.length > 0) await store.acceptLost(accepted)
    const now = world.clock.now()
    const record: AttemptRecord = {
      run: plan.run,
      attempt: plan.attempt,
      incarnation: this.#options.incarnation,
      startedAt: now,
      fingerprint: graph.fingerprint,
      sinks: transactions?.records(recorded) ?? recorded,
      begunAt: plan.run === facts.attempt?.run ? (facts.attempt.begunAt ?? 0) : now,
    }
    if (plan.type === 'finish') return { ...(await this.#finishStop(plan, record)), facts }
    const from = plan.type === 'start' ? plan.from : undefined
    // Under the old run it is the old run that begins nothing: a leader that dies before it names the new one leaves the wish to the next.
    const own = await this.#finishCommits(plan, { ...record, begunAt: facts.attempt?.begunAt ?? 0 })
    // What a savepoint is restored over is gone then: the savepoint must be whole before.
    const replaces = facts.completed.some(isOutside)
    const begun = from === undefined ? undefined : await this.#beginWith(from, plan, enumerators, replaces)
    if (begun !== undefined || own !== plan.run) await store.startAttempt(record)
    const leases = (await transactions?.lease()) ?? new Map<string, readonly unknown[]>()
    // Two leaders whose initialisations interleave can be handed one identity: only the one that still leads goes on with it.
    await store.proveLeadership()
    this.#first = false
    if (begun !== undefined) return { type: 'taken', plan, facts, leases, from, ...begun }
    const resumed = plan.type === 'resume' ? plan.checkpoint : undefined
    if (resumed?.savepoint !== undefined) {
      await this.#finishSavepoint(resumed)
      if (replaces) await this.#asLeader(verifyKeyedState(resumed, storage))
    }
    const restored =
      resumed === undefined
        ? undefined
        : await this.#asLeader(loadState(resumed, graph, storage, storage.codec, start.allowNonRestoredState))
    const splits = await this.#splits(enumerators, resumed)
    const base = resumed ?? (await this.#checkpointZero(plan, splits))
    if (resumed === undefined) world.logger.info(`attempt ${plan.attempt} starts a new run`)
    else {
      const age = world.clock.now() - resumed.completedAt
      world.logger.info(
        `attempt ${plan.attempt} resumes from checkpoint ${resumed.n}, completed ${Math.round(age / 1000)} s ago`,
      )
    }
    return { type: 'taken', plan, facts, restored, splits, leases, base, from }
  }

  async #restoreRequest(): Promise<RestoreRequest | undefined> {
    const choice = this.#options.start.restoreFrom
    if (choice?.type !== 'path') return choice
    const { folders } = this.#options.storage
    if (folders === undefined)
      throw new MillraceError('MILLRACE_INTERNAL', `nothing here can open the snapshot '${choice.path}'`)
    return { type: 'snapshot', checkpoint: await folders.open(choice.path) }
  }

  /**
   * Finishes the commits that the latest checkpoint promised: in a new run too, under the old run's name. Resolves with the run that
   * attempt-started names by then.
   */
  async #finishCommits(
    { commitAgain }: Pick<RunningPlan, 'commitAgain'>,
    record: AttemptRecord,
  ): Promise<string | undefined> {
    const { store, world, committers, fault } = this.#options
    if (commitAgain === undefined) return undefined
    const { permit, checkpoint } = commitAgain
    world.logger.info(`finishing the commits of checkpoint ${checkpoint.n}`)
    await store.startAttempt({ ...record, run: checkpoint.run })
    await recoverAll(committers, permit, checkpoint.states, fault)
    fault?.('before-confirm')
    await store.writeConfirmed(checkpoint.run, checkpoint.n)
    return checkpoint.run
  }

  /** The last run was stopped with a savepoint, and all but the end of it was done. A run must not go on behind its savepoint by itself. */
  async #finishStop(
    plan: Extract<RecoveryPlan, { type: 'finish' }>,
    record: AttemptRecord,
  ): Promise<Extract<RecoveryPlan, { type: 'ended' }>> {
    const { store, world, transactions } = this.#options
    const path = plan.checkpoint.savepoint?.path as string
    const end: JobRecord = { run: plan.run, status: 'FINISHED', at: world.clock.now(), savepoint: path }
    if (plan.commitAgain === undefined) await store.startAttempt(record)
    else await this.#finishCommits(plan, record)
    // Nobody will write with the ids: this fences whoever still does, and aborts what it left. Before the end is durable, because no start does
    // it after that.
    await transactions?.lease()
    await store.proveLeadership()
    await this.#options.storage.folders?.finish(plan.checkpoint)
    await store.writeConfirmed(plan.run, plan.checkpoint.n, end)
    const message = `the job had been stopped with savepoint ${path}; it is finished now`
    world.logger.info(message)
    return { type: 'ended', status: 'FINISHED', message }
  }

  /** The latest checkpoint is a savepoint whose leader may have died before its metadata. The job itself needs none. */
  async #finishSavepoint(checkpoint: CompletedCheckpoint): Promise<void> {
    try {
      await this.#options.storage.folders?.finish(checkpoint)
    } catch (error) {
      this.#options.world.logger.warn(
        `savepoint ${checkpoint.savepoint?.path} could not be finished: nothing but this job can be restored from it`,
        { error },
      )
    }
  }

  /** Checkpoint 0 of a new run, with the state of `from`. Everything about it is checked before anything is written. */
  async #beginWith(
    from: CompletedCheckpoint,
    plan: RunningPlan,
    enumerators: SplitEnumerator<SourceSplit>[],
    replaces: boolean,
  ): Promise<Pick<Taken, 'restored' | 'splits' | 'base'>> {
    const { storage, graph, start, world } = this.#options
    const name = nameOf(from, start)
    const kept = storage.folders?.keep(from) ?? from
    const copy = baseOf(kept, { run: plan.run, attempt: plan.attempt, now: world.clock.now() })
    const restored = await loadState(copy, graph, storage, storage.codec, start.allowNonRestoredState, name)
    if (replaces) await verifyKeyedState(copy, storage)
    const splits = await this.#splits(enumerators, copy)
    const claimed = new Set(shapesOf(graph).map(({ uid }) => uid))
    const isClaimed = ({ uid }: { readonly uid: string }): boolean => claimed.has(uid)
    const old = { operators: copy.operators.filter(isClaimed), states: copy.states.filter(isClaimed) }
    const known = new Set(old.states.map(({ uid }) => uid))
    // Sources that the snapshot does not know begin where they were told to; that is resolved now and never again.
    const added = sourceStates(graph, splits).filter(({ uid }) => !known.has(uid))
    const shaped = new Set(old.operators.map(({ uid }) => uid))
    const base: CompletedCheckpoint = {
      ...copy,
      operators: [...old.operators, ...shapesOf(graph).filter(({ uid }) => !shaped.has(uid))],
      states: [...old.states, ...added],
    }
    await this.#writeZero(base)
    world.logger.warn(
      `attempt ${plan.attempt} begins a new run with the state of ${name}: whatever was written after it may be written again`,
    )
    return { restored, splits, base }
  }

  /**
   * What is not found may have been discarded by a successor while this worker stood still: only whoever leads can tell that state is lost.
   * @throws MILLRACE_ATTEMPT_LOST instead of the failure when another worker leads
   */
  async #asLeader<T>(work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      await this.#options.store.proveLeadership()
      throw error
    }
  }

  async #splits(
    enumerators: SplitEnumerator<SourceSplit>[],
    resumed: CompletedCheckpoint | undefined,
  ): Promise<Map<string, readonly SourceSplit[]>> {
    const { graph, jobName, world } = this.#options
    const splits = new Map<string, readonly SourceSplit[]>()
    for (const vertex of graph.vertices)
      for (const { node, uid } of vertex.operators) {
        if (node.kind !== 'source') continue
        const enumerator = node.source.createEnumerator({
          jobName,
          uid,
          world,
          parallelism: vertex.parallelism,
        })
        enumerators.push(enumerator)
        const stored = resumed?.states.filter((state) => state.uid === uid)
        const known =
          stored === undefined || stored.length === 0
            ? undefined
            : stored.flatMap((state) => (state.splits ?? []) as SourceSplit[])
        const found = await enumerator.start(known)
        splits.set(
          uid,
          [...found].sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)),
        )
      }
    return splits
  }

  /** Resolved start and stop positions are durable before the first record is read: a crash must not resolve them again. */
  async #checkpointZero(
    plan: RunningPlan,
    splits: ReadonlyMap<string, readonly SourceSplit[]>,
  ): Promise<CompletedCheckpoint> {
    const { world, graph } = this.#options
    const states = sourceStates(graph, splits)
    const now = world.clock.now()
    const zero: CompletedCheckpoint = {
      format: CHECKPOINT_FORMAT,
      run: plan.run,
      attempt: plan.attempt,
      n: 0,
      kind: 'checkpoint',
      triggeredAt: now,
      completedAt: now,
      operators: shapesOf(graph),
      states,
      confirmed: 0,
      stateBytes: 0,
    }
    await this.#writeZero(zero)
    return zero
  }

  async #writeZero(zero: CompletedCheckpoint): Promise<void> {
    const outcome = await this.#options.store.commitPoint(zero, [])
    const final = finalRefusal(outcome)
    if (final !== undefined) throw final
    if (outcome.type !== 'written')
      throw new MillraceError('MILLRACE_ATTEMPT_LOST', `could not write checkpoint 0: ${outcome.reason}`)
  }
}

/** True if it names keyed state that no file and no topic holds. */
function isOutside({ states }: CompletedCheckpoint): boolean {
  return states.some(({ keyed }) => keyed?.kind === 'external')
}

/** A snapshot, for people. */
function nameOf(from: CompletedCheckpoint, { restoreFrom }: StartOptions): string {
  const what = `${from.kind === 'savepoint' ? 'savepoint' : 'checkpoint'}`
  if (restoreFrom?.type === 'path') return `${what} ${restoreFrom.path}`
  return `${what} ${from.n} of run ${from.run}`
}

/** Who reads which splits, from where, as a checkpoint says it. */
function sourceStates(
  graph: JobGraph,
  splits: ReadonlyMap<string, readonly SourceSplit[]>,
): OperatorSubtaskState[] {
  return graph.vertices.flatMap((vertex) =>
    vertex.operators.flatMap(({ uid }) => {
      const own = splits.get(uid)
      if (own === undefined) return []
      return Array.from({ length: vertex.parallelism }, (_, subtask) => ({
        uid,
        subtask,
        splits: own.filter((_split, index) => splitOwner(index, vertex.parallelism) === subtask),
      }))
    }),
  )
}

/** Parallelism of every operator of the graph, as checkpoints store it. */
export function shapesOf(graph: JobGraph): OperatorShape[] {
  return graph.vertices.flatMap((vertex) =>
    vertex.operators.map(({ uid, name }) => ({
      uid,
      name,
      parallelism: vertex.parallelism,
      maxParallelism: vertex.maxParallelism,
    })),
  )
}
