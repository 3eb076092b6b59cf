/**
 * What a refused batch means for the job. Transient trouble never comes here: the cluster retries it.
 */
import { KafkaError, type MillraceError, SerializationError } from '../errors.ts'
import { KafkaCode, type ProducedPartition, type ProducerIdentity } from './kafka-cluster.ts'

/** Codes that only a Produce answer has; the others are in `KafkaCode`. */
const ProduceCode = { RECORD_LIST_TOO_LARGE: 18, INVALID_RECORD: 87 } as const

const NAMES = new Map<number, string>(
  [...Object.entries(KafkaCode), ...Object.entries(ProduceCode)].map(([name, code]) => [code, name]),
)

/** The error for a partition whose batch of `batchBytes` bytes the broker refused. */
export function produceError(
  refused: ProducedPartition,
  batchBytes: number,
  identity: ProducerIdentity | undefined,
): MillraceError {
  const { topic, partition, errorCode, errorMessage } = refused
  const place = `${topic}-${partition}`
  const brokerError = NAMES.get(errorCode) ?? `error ${errorCode}`
  const said = errorMessage === null ? '' : ` (${errorMessage})`
  const details = {
    topic,
    partition,
    brokerCode: errorCode,
    batchBytes,
    transactionalId: identity?.transactionalId,
  }
  const facts = { brokerCode: errorCode, brokerError, api: 'Produce' }
  switch (errorCode) {
    case KafkaCode.MESSAGE_TOO_LARGE:
    case ProduceCode.RECORD_LIST_TOO_LARGE:
      return new SerializationError(
        'MILLRACE_SERIALIZATION',
        `The broker refused a batch of ${batchBytes} bytes for ${place} as too large: ${brokerError}${said}`,
        {
          details: { ...details, size: batchBytes },
          remedy: `Raise max.message.bytes of topic ${topic} above ${batchBytes}, or write smaller records.`,
        },
      )
    case ProduceCode.INVALID_RECORD:
      return new SerializationError(
        'MILLRACE_SERIALIZATION',
        `The broker refused records for ${place}: ${brokerError}${said}`,
        { details, remedy: `Check the topic's rules: a compacted topic takes no record without a key.` },
      )
    case KafkaCode.INVALID_PRODUCER_EPOCH:
    case KafkaCode.PRODUCER_FENCED:
    case KafkaCode.INVALID_PRODUCER_ID_MAPPING:
      return new KafkaError(
        'MILLRACE_TRANSACTION_FENCED',
        `${who(identity)} may not write to ${place} any more: ${brokerError}${said}. Another one took its transactional id, or the transaction timed out`,
        facts,
        { details },
      )
    case KafkaCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
    case KafkaCode.UNKNOWN_PRODUCER_ID:
    case KafkaCode.INVALID_TXN_STATE:
      // A new attempt begins with a new producer epoch, and so with sequence 0.
      return new KafkaError(
        'MILLRACE_KAFKA_PROTOCOL',
        `${who(identity)} cannot go on writing to ${place}: ${brokerError}${said}`,
        facts,
        { details, retriable: true },
      )
    case KafkaCode.UNKNOWN_TOPIC_OR_PARTITION:
      return new KafkaError(
        'MILLRACE_TOPIC_MISSING',
        `${place} does not exist: ${brokerError}${said}`,
        facts,
        { details },
      )
    case KafkaCode.TOPIC_AUTHORIZATION_FAILED:
    case KafkaCode.CLUSTER_AUTHORIZATION_FAILED:
    case KafkaCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
      return new KafkaError(
        'MILLRACE_KAFKA_UNAUTHORIZED',
        `Writing to ${place} was refused: ${brokerError}${said}; the principal needs WRITE on topic ${topic}${identity === undefined ? '' : ` and on transactional id ${identity.transactionalId}`}`,
        facts,
        { details },
      )
    default:
      return new KafkaError(
        'MILLRACE_KAFKA_PROTOCOL',
        `Produce to ${place} was refused: ${brokerError}${said}`,
        facts,
        { details },
      )
  }
}

function who(identity: ProducerIdentity | undefined): string {
  return identity === undefined
    ? 'The producer'
    : `Producer ${identity.transactionalId} (id ${identity.producerId}, epoch ${identity.producerEpoch})`
}
