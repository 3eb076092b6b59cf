/**
 * `kafkaSink`: the public sink. Exactly once by transactional producers that end with the checkpoint.
 */
import type { CommitterContext, SinkWriterContext, TwoPhaseCommittingSink } from '../core/connector.ts'
import { ConfigError } from '../errors.ts'
import type { ProducerIdentity } from './kafka-cluster.ts'
import type { KafkaCommittable } from './kafka-committable.ts'
import { KafkaCommitter } from './kafka-committer.ts'
import { KafkaBound } from './kafka-environment.ts'
import type { KafkaSinkOptions } from './kafka-sink-options.ts'
import { KafkaWriter } from './kafka-writer.ts'

/** A Kafka sink; make one with `kafkaSink`. */
export class KafkaSink<T> extends KafkaBound implements TwoPhaseCommittingSink<T, KafkaCommittable> {
  readonly kind = 'kafka'
  readonly twoPhase = true
  /** What it needs depends on its guarantee: see preflight.ts. */
  readonly worksWithoutCheckpoints = true
  readonly options: KafkaSinkOptions<T>
  declare readonly __type?: (value: T) => void

  constructor(options: KafkaSinkOptions<T>) {
    super()
    checkOptions(options)
    this.options = options
  }

  /** Known once the sink is bound to a job. */
  get exactlyOnce(): boolean {
    const { deliveryGuarantee } = this.options
    return deliveryGuarantee === undefined
      ? this.environment.exactlyOnceByDefault
      : deliveryGuarantee === 'EXACTLY_ONCE'
  }

  /** True when the job itself says EXACTLY_ONCE here: then it must be able to keep it. */
  get asksExactlyOnce(): boolean {
    return this.options.deliveryGuarantee === 'EXACTLY_ONCE'
  }

  get transactionTimeoutMs(): number {
    return this.options.transactionTimeoutMs ?? this.environment.maxTransactionTimeoutMs
  }

  describe(): Readonly<Record<string, unknown>> {
    const { topic, transactionalIdPrefix, deliveryGuarantee } = this.options
    return {
      topic: typeof topic === 'string' ? topic : 'by record',
      // Without transactions it names nothing that another sink could take away.
      ...(transactionalIdPrefix === undefined || !mayBeExactlyOnce(deliveryGuarantee)
        ? {}
        : { transactionalIdPrefix }),
      ...(deliveryGuarantee === undefined ? {} : { deliveryGuarantee }),
    }
  }

  createWriter(context: SinkWriterContext): KafkaWriter<T> {
    const { environment } = this
    return new KafkaWriter<T>({
      sink: this.options,
      cluster: environment.cluster,
      leases: this.exactlyOnce ? ((context.lease ?? []) as readonly ProducerIdentity[]) : undefined,
      acks: this.options.deliveryGuarantee === 'NONE' ? 1 : -1,
      transactionTimeoutMs: this.transactionTimeoutMs,
      assertAlive: environment.assertAlive,
      serdes: environment.serdes,
      context,
    })
  }

  createCommitter(context: CommitterContext): KafkaCommitter {
    return new KafkaCommitter(this.environment.cluster, context.world, this.environment.healing)
  }
}

function mayBeExactlyOnce(guarantee: KafkaSinkOptions<unknown>['deliveryGuarantee']): boolean {
  return guarantee === undefined || guarantee === 'EXACTLY_ONCE'
}

function checkOptions<T>(options: KafkaSinkOptions<T>): void {
  const { topic, transactionalIdPrefix, transactionTimeoutMs } = options
  if (topic === '' || (typeof topic !== 'string' && typeof topic !== 'function'))
    throw new ConfigError(
      'MILLRACE_INVALID_OPTION',
      'kafkaSink needs a topic: a name, or a function of the value',
    )
  if (options.value === undefined)
    throw new ConfigError('MILLRACE_INVALID_OPTION', 'kafkaSink needs value: a serde such as json()')
  if (transactionalIdPrefix !== undefined && !/^[\w.-]{1,100}$/.test(transactionalIdPrefix))
    throw new ConfigError(
      'MILLRACE_INVALID_OPTION',
      `kafkaSink: transactionalIdPrefix '${transactionalIdPrefix}' must be 1 to 100 letters, digits, '.', '_' or '-'`,
    )
  if (
    transactionTimeoutMs !== undefined &&
    !(Number.isInteger(transactionTimeoutMs) && transactionTimeoutMs > 0)
  )
    throw new ConfigError(
      'MILLRACE_INVALID_OPTION',
      `kafkaSink: transactionTimeoutMs ${transactionTimeoutMs} must be a whole number of ms above 0`,
    )
}

/**
 * Writes to Kafka.
 * @example
 * kafkaSink<Total>({ topic: 'totals', key: (t) => t.user, value: json(), deliveryGuarantee: DeliveryGuarantee.EXACTLY_ONCE })
 */
export function kafkaSink<T>(options: KafkaSinkOptions<T>): KafkaSink<T> {
  return new KafkaSink(options)
}
