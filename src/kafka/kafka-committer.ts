/**
 * Commits prepared transactions by (transactional id, producer id, epoch). Idempotent: EndTxn(commit) of a committed transaction succeeds
 * as long as its id was not initialised again, and that happens only after the commit was confirmed.
 *
 * | EndTxn answers | checkpoint confirmed | meaning                                                                  |
 * | 0              | –                    | committed, now or before                                                 |
 * | 51, lost       | –                    | repeated by the cluster port, for minutes                                |
 * | 47, 48, 49, 90 | yes                  | committed before; the id went on                                         |
 * | 47, 48, 49, 90 | no                   | while running: the attempt fails; at take-over: the log decides          |
 *
 * At take-over the first marker in the log after the transaction's records says COMMIT (done) or ABORT (its records are healed);
 * none left = MILLRACE_TRANSACTION_LOST, and a person decides (protocol §5.1, §5.2, §5.3 and §5.4).
 */
import { isLostOutput, lostCommittable, lostOutput } from '../checkpoint/lost-output.ts'
import type { CommitPermit, Committer } from '../core/connector.ts'
import { dueCommittables } from '../core/due-committables.ts'
import type { World } from '../core/ports.ts'
import { KafkaError, MillraceError } from '../errors.ts'
import { heal } from './healer.ts'
import type { HealingLog } from './healing-log.ts'
import { type KafkaCluster, KafkaCode } from './kafka-cluster.ts'
import { describeCommittable, identityOf, type KafkaCommittable } from './kafka-committable.ts'
import { transactionFate } from './transaction-fate.ts'

/** How long a commit is repeated before the attempt fails. */
const COMMIT_TIMEOUT_MS = 180_000

const REFUSALS: readonly number[] = [
  KafkaCode.INVALID_PRODUCER_EPOCH,
  KafkaCode.INVALID_TXN_STATE,
  KafkaCode.INVALID_PRODUCER_ID_MAPPING,
  KafkaCode.PRODUCER_FENCED,
]

export class KafkaCommitter implements Committer<KafkaCommittable> {
  readonly #cluster: KafkaCluster
  readonly #world: World
  readonly #healing: () => HealingLog

  constructor(cluster: KafkaCluster, world: World, healing: () => HealingLog) {
    this.#cluster = cluster
    this.#world = world
    this.#healing = healing
  }

  async commit(permit: CommitPermit, committables: readonly KafkaCommittable[]): Promise<void> {
    for (const committable of dueCommittables(permit, committables)) {
      const refusal = await this.#end(committable)
      if (refusal !== undefined)
        throw new MillraceError(
          'MILLRACE_TRANSACTION_FENCED',
          `the broker refused to commit (${refusal.brokerError}) ${describeCommittable(committable)}; the next attempt reads in the log what became of it`,
          { cause: refusal, details: { committable } },
        )
    }
  }

  async recover(permit: CommitPermit, committables: readonly KafkaCommittable[]): Promise<void> {
    const losses: MillraceError[] = []
    for (const committable of dueCommittables(permit, committables)) {
      const refusal = await this.#end(committable)
      const loss = refusal === undefined ? undefined : await this.#makeGood(committable, refusal)
      if (loss !== undefined) losses.push(loss)
    }
    if (losses.length > 0) throw lostOutput(losses)
  }

  /** The refusal, if the broker refused. */
  async #end(committable: KafkaCommittable): Promise<KafkaError | undefined> {
    try {
      await this.#cluster.endTxn(identityOf(committable), 'commit', { timeoutMs: COMMIT_TIMEOUT_MS })
      return undefined
    } catch (error) {
      if (!(error instanceof KafkaError) || !REFUSALS.includes(error.brokerCode)) throw error
      return error
    }
  }

  /** The loss, if the output cannot be had any more. */
  async #makeGood(committable: KafkaCommittable, refusal: KafkaError): Promise<MillraceError | undefined> {
    const fate = await transactionFate(this.#cluster, this.#world, committable)
    if (fate === 'committed') return undefined
    try {
      if (fate === 'unknown')
        throw lostCommittable(
          committable,
          `the broker refused to commit (${refusal.brokerError}), and no marker is left in the log that tells what became of ${describeCommittable(committable)}`,
          { cause: refusal, details: { committable } },
        )
      await heal(this.#cluster, this.#healing(), this.#world, committable)
      return undefined
    } catch (error) {
      if (!isLostOutput(error)) throw error
      this.#world.metrics.counter('lost_transactions').inc()
      return error
    }
  }

  async close(): Promise<void> {}
}
