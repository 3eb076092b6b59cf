/**
 * How the composition root hands a Kafka cluster to sources and sinks that a user declared without one.
 */
import type { SerdeContext } from '../core/connector.ts'
import { MillraceError } from '../errors.ts'
import type { HealingLog } from './healing-log.ts'
import type { KafkaCluster } from './kafka-cluster.ts'

/** What Kafka sources and sinks of one job share. */
export interface KafkaEnvironment {
  readonly cluster: KafkaCluster
  /** Bytes fetched of one partition at a time. */
  readonly fetchMaxBytes: number
  /** Milliseconds that a fetch waits on the broker for records. */
  readonly fetchMaxWaitMs: number
  /** The brokers' transaction.max.timeout.ms. */
  readonly maxTransactionTimeoutMs: number
  /** Given to serdes when they are opened. */
  readonly serdes: SerdeContext
  /** What a sink does that was not told: exactly once when the job takes exactly-once checkpoints. */
  readonly exactlyOnceByDefault: boolean
  /** Where healing writes; known once the job's own topics are. */
  readonly healing: () => HealingLog
  /** Throws MILLRACE_ATTEMPT_LOST when this worker has been silent so long that another one may lead: asked before records are written. */
  readonly assertAlive: () => void
}

/** Anything that needs the environment before it runs. */
export abstract class KafkaBound {
  #environment: KafkaEnvironment | undefined

  /** Called by the composition root before anything is created. */
  bind(environment: KafkaEnvironment): void {
    this.#environment = environment
  }

  protected get environment(): KafkaEnvironment {
    if (this.#environment === undefined)
      throw new MillraceError(
        'MILLRACE_KAFKA_NOT_CONFIGURED',
        'a Kafka source or sink is used, but no brokers are configured',
      )
    return this.#environment
  }
}
