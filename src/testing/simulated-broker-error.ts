/**
 * Error codes of the simulated brokers, and the error that carries one from the broker side to the client.
 */
import { KafkaCode } from '../kafka/kafka-cluster.ts'
import { errorName } from '../kafka/kafkajs/error-codes.ts'

/** Codes beyond `KafkaCode` that the simulated brokers answer with. */
export const BrokerCode = {
  ...KafkaCode,
  CORRUPT_MESSAGE: 2,
  LEADER_NOT_AVAILABLE: 5,
  REQUEST_TIMED_OUT: 7,
  COORDINATOR_LOAD_IN_PROGRESS: 14,
  COORDINATOR_NOT_AVAILABLE: 15,
  NOT_COORDINATOR: 16,
  INVALID_TOPIC: 17,
  NOT_ENOUGH_REPLICAS: 19,
  INVALID_SESSION_TIMEOUT: 26,
  INVALID_TIMESTAMP: 32,
  INVALID_PARTITIONS: 37,
  INVALID_REPLICATION_FACTOR: 38,
  INVALID_CONFIG: 40,
  INVALID_REQUEST: 42,
  NON_EMPTY_GROUP: 68,
  GROUP_ID_NOT_FOUND: 69,
  INVALID_RECORD: 87,
  UNSTABLE_OFFSET_COMMIT: 88,
} as const

/** A simulated broker answered a whole request with an error code. It stays inside the simulation: the client turns it into a KafkaError. */
export class BrokerRefusal extends Error {
  readonly brokerCode: number
  /** What the broker adds to the code; '' = nothing. */
  readonly detail: string

  constructor(brokerCode: number, detail = '') {
    super(`${errorName(brokerCode)} (${brokerCode}) ${detail}`.trimEnd())
    this.name = 'BrokerRefusal'
    this.brokerCode = brokerCode
    this.detail = detail
  }
}

/** The connection broke before an answer came. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost'
}
