/**
 * Commits prepared transactions by (transactional id, producer id, epoch). Idempotent: EndTxn(commit) of a committed transaction succeeds
 * as long as its id was not initialised again, and that happens only after the commit was confirmed.
 *
 * | EndTxn answers | checkpoint confirmed | meaning                                    |
 * | 0              | –                    | committed, now or before                   |
 * | 51, lost       | –                    | repeated by the cluster port, for minutes  |
 * | 47, 48, 49, 90 | yes                  | committed before; the id went on           |
 * | 47, 48, 49, 90 | no                   | the broker gave the transaction up: FAILED |
 */
import type { CommitPermit, Committer } from '../core/connector.ts'
import type { World } from '../core/ports.ts'
import { KafkaError, MillraceError } from '../errors.ts'
import { type KafkaCluster, KafkaCode } from './kafka-cluster.ts'
import { describeCommittable, identityOf, type KafkaCommittable } from './kafka-committable.ts'

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

  constructor(cluster: KafkaCluster, world: World) {
    this.#cluster = cluster
    this.#world = world
  }

  async commit(permit: CommitPermit, committables: readonly KafkaCommittable[]): Promise<void> {
    for (const committable of committables) {
      if (committable.n > permit.checkpointId)
        throw new MillraceError('MILLRACE_INTERNAL', `no permit for checkpoint ${committable.n}: the latest complete one is ${permit.checkpointId}`)
      if (committable.n <= permit.confirmed) continue
      await this.#commit(committable)
    }
  }

  async #commit(committable: KafkaCommittable): Promise<void> {
    try {
      await this.#cluster.endTxn(identityOf(committable), 'commit', { timeoutMs: COMMIT_TIMEOUT_MS })
    } catch (error) {
      if (!(error instanceof KafkaError) || !REFUSALS.includes(error.brokerCode)) throw error
      this.#world.metrics.counter('lost_transactions').inc()
      throw new MillraceError(
        'MILLRACE_TRANSACTION_LOST',
        `the broker refused to commit (${error.brokerError}): ${describeCommittable(committable)}`,
        { cause: error, details: { committable } },
      )
    }
  }

  async close(): Promise<void> {}
}
