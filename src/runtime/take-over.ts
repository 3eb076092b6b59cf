/**
 * The take-over sequence of a new leader (protocol §2: the order matters): fence and read the facts → list what earlier attempts may
 * have left → write attempt-started → finish the commits of the latest checkpoint → confirm → abort leftovers and lease ids → restore.
 * After it everything is known that an attempt needs, and no record has been read.
 */
import type {
  AttemptRecord,
  CheckpointStore,
  OutputTransactions,
  RecoveryFacts,
} from '../checkpoint/checkpoint-store.ts'
import {
  CHECKPOINT_FORMAT,
  type CompletedCheckpoint,
  type OperatorShape,
  type OperatorSubtaskState,
} from '../checkpoint/completed-checkpoint.ts'
import { planRecovery, type RecoveryPlan } from '../checkpoint/recovery-plan.ts'
import type { Committer, SourceSplit, SplitEnumerator } from '../core/connector.ts'
import type { JobGraph } from '../core/graph/job-graph.ts'
import type { StartOptions } from '../core/job-settings.ts'
import type { World } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'
import { splitOwner } from './attempt.ts'
import { recoverAll } from './checkpoint-driver.ts'
import type { FaultHook } from './fault-points.ts'
import { loadState, type RestoredState } from './restore.ts'
import type { StateStorage } from './state-storage.ts'

export interface TakeOverOptions {
  readonly jobName: string
  readonly graph: JobGraph
  readonly world: World
  readonly start: StartOptions
  readonly incarnation: string
  readonly store: CheckpointStore
  readonly storage: StateStorage
  readonly transactions: OutputTransactions | undefined
  readonly committers: ReadonlyMap<string, Committer<unknown>>
  readonly fault?: FaultHook | undefined
}

type RunningPlan = Extract<RecoveryPlan, { type: 'start' | 'resume' }>

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
}

export class TakeOver {
  readonly #options: TakeOverOptions
  #first = true

  constructor(options: TakeOverOptions) {
    this.#options = options
  }

  /** `enumerators` gets the source enumerators that were made, in the order of the sources, also when it throws. */
  async run(
    enumerators: SplitEnumerator<SourceSplit>[],
  ): Promise<Taken | Extract<RecoveryPlan, { type: 'ended' }>> {
    const { store, world, graph, start, transactions, storage } = this.#options
    const found = await store.takeOver()
    const accepted = this.#first ? start.acceptLostTransactions : []
    const facts = { ...found, acceptedLost: [...found.acceptedLost, ...accepted] }
    const plan = planRecovery(facts, { fresh: start.fresh && this.#first, newRun: world.random.uuid() })
    if (plan.type === 'ended') {
      world.logger.info(plan.message)
      return plan
    }
    const recorded = facts.attempt?.sinks ?? []
    await transactions?.observe(recorded)
    // Durable before it is obeyed: the next leader must not find the loss again.
    if (accepted.length > 0) await store.acceptLost(accepted)
    await this.#begin(plan, {
      run: plan.run,
      attempt: plan.attempt,
      incarnation: this.#options.incarnation,
      startedAt: world.clock.now(),
      fingerprint: graph.fingerprint,
      sinks: transactions?.records(recorded) ?? recorded,
    })
    const leases = (await transactions?.lease()) ?? new Map<string, readonly unknown[]>()
    // Two leaders whose initialisations interleave can be handed one identity: only the one that still leads goes on with it.
    await store.proveLeadership()
    this.#first = false
    const resumed = plan.type === 'resume' ? plan.checkpoint : undefined
    const restored =
      resumed === undefined
        ? undefined
        : await loadState(resumed, graph, storage, storage.codec, start.allowNonRestoredState)
    const splits = await this.#splits(enumerators, resumed)
    const base = resumed ?? (await this.#checkpointZero(plan, splits))
    if (resumed === undefined) world.logger.info(`attempt ${plan.attempt} starts a new run`)
    else {
      const age = world.clock.now() - resumed.completedAt
      world.logger.info(
        `attempt ${plan.attempt} resumes from checkpoint ${resumed.n}, completed ${Math.round(age / 1000)} s ago`,
      )
    }
    return { type: 'taken', plan, facts, restored, splits, leases, base }
  }

  /** Attempt-started, and the commits that the latest checkpoint promised: in a fresh run too, under the old run's name. */
  async #begin(plan: RunningPlan, record: AttemptRecord): Promise<void> {
    const { store, world, committers, fault } = this.#options
    if (plan.commitAgain === undefined) {
      await store.startAttempt(record)
      return
    }
    const { permit, checkpoint } = plan.commitAgain
    world.logger.info(`finishing the commits of checkpoint ${checkpoint.n}`)
    await store.startAttempt({ ...record, run: checkpoint.run })
    await recoverAll(committers, permit, checkpoint.states, fault)
    fault?.('before-confirm')
    await store.writeConfirmed(checkpoint.run, checkpoint.n)
    if (plan.run !== checkpoint.run) await store.startAttempt(record)
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
    const { store, world, graph } = this.#options
    const states: OperatorSubtaskState[] = []
    for (const vertex of graph.vertices)
      for (const { uid } of vertex.operators) {
        const own = splits.get(uid)
        if (own === undefined) continue
        for (let subtask = 0; subtask < vertex.parallelism; subtask++)
          states.push({
            uid,
            subtask,
            splits: own.filter((_, index) => splitOwner(index, vertex.parallelism) === subtask),
          })
      }
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
    const outcome = await store.commitPoint(zero, [])
    if (outcome.type !== 'written')
      throw new MillraceError('MILLRACE_ATTEMPT_LOST', `could not write checkpoint 0: ${outcome.reason}`)
    return zero
  }
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
