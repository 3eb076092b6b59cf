/**
 * What Kafka's error codes are called, which of them pass by themselves, and which mean a missing permission.
 */
import { KafkaError } from '../../errors.ts'

/** Names of all error codes up to Kafka 4.4, as the protocol guide spells them. */
const NAMES: ReadonlyMap<number, string> = new Map([
  [-1, 'UNKNOWN_SERVER_ERROR'],
  [0, 'NONE'],
  [1, 'OFFSET_OUT_OF_RANGE'],
  [2, 'CORRUPT_MESSAGE'],
  [3, 'UNKNOWN_TOPIC_OR_PARTITION'],
  [4, 'INVALID_FETCH_SIZE'],
  [5, 'LEADER_NOT_AVAILABLE'],
  [6, 'NOT_LEADER_OR_FOLLOWER'],
  [7, 'REQUEST_TIMED_OUT'],
  [8, 'BROKER_NOT_AVAILABLE'],
  [9, 'REPLICA_NOT_AVAILABLE'],
  [10, 'MESSAGE_TOO_LARGE'],
  [11, 'STALE_CONTROLLER_EPOCH'],
  [12, 'OFFSET_METADATA_TOO_LARGE'],
  [13, 'NETWORK_EXCEPTION'],
  [14, 'COORDINATOR_LOAD_IN_PROGRESS'],
  [15, 'COORDINATOR_NOT_AVAILABLE'],
  [16, 'NOT_COORDINATOR'],
  [17, 'INVALID_TOPIC_EXCEPTION'],
  [18, 'RECORD_LIST_TOO_LARGE'],
  [19, 'NOT_ENOUGH_REPLICAS'],
  [20, 'NOT_ENOUGH_REPLICAS_AFTER_APPEND'],
  [21, 'INVALID_REQUIRED_ACKS'],
  [22, 'ILLEGAL_GENERATION'],
  [23, 'INCONSISTENT_GROUP_PROTOCOL'],
  [24, 'INVALID_GROUP_ID'],
  [25, 'UNKNOWN_MEMBER_ID'],
  [26, 'INVALID_SESSION_TIMEOUT'],
  [27, 'REBALANCE_IN_PROGRESS'],
  [28, 'INVALID_COMMIT_OFFSET_SIZE'],
  [29, 'TOPIC_AUTHORIZATION_FAILED'],
  [30, 'GROUP_AUTHORIZATION_FAILED'],
  [31, 'CLUSTER_AUTHORIZATION_FAILED'],
  [32, 'INVALID_TIMESTAMP'],
  [33, 'UNSUPPORTED_SASL_MECHANISM'],
  [34, 'ILLEGAL_SASL_STATE'],
  [35, 'UNSUPPORTED_VERSION'],
  [36, 'TOPIC_ALREADY_EXISTS'],
  [37, 'INVALID_PARTITIONS'],
  [38, 'INVALID_REPLICATION_FACTOR'],
  [39, 'INVALID_REPLICA_ASSIGNMENT'],
  [40, 'INVALID_CONFIG'],
  [41, 'NOT_CONTROLLER'],
  [42, 'INVALID_REQUEST'],
  [43, 'UNSUPPORTED_FOR_MESSAGE_FORMAT'],
  [44, 'POLICY_VIOLATION'],
  [45, 'OUT_OF_ORDER_SEQUENCE_NUMBER'],
  [46, 'DUPLICATE_SEQUENCE_NUMBER'],
  [47, 'INVALID_PRODUCER_EPOCH'],
  [48, 'INVALID_TXN_STATE'],
  [49, 'INVALID_PRODUCER_ID_MAPPING'],
  [50, 'INVALID_TRANSACTION_TIMEOUT'],
  [51, 'CONCURRENT_TRANSACTIONS'],
  [52, 'TRANSACTION_COORDINATOR_FENCED'],
  [53, 'TRANSACTIONAL_ID_AUTHORIZATION_FAILED'],
  [54, 'SECURITY_DISABLED'],
  [55, 'OPERATION_NOT_ATTEMPTED'],
  [56, 'KAFKA_STORAGE_ERROR'],
  [57, 'LOG_DIR_NOT_FOUND'],
  [58, 'SASL_AUTHENTICATION_FAILED'],
  [59, 'UNKNOWN_PRODUCER_ID'],
  [60, 'REASSIGNMENT_IN_PROGRESS'],
  [61, 'DELEGATION_TOKEN_AUTH_DISABLED'],
  [62, 'DELEGATION_TOKEN_NOT_FOUND'],
  [63, 'DELEGATION_TOKEN_OWNER_MISMATCH'],
  [64, 'DELEGATION_TOKEN_REQUEST_NOT_ALLOWED'],
  [65, 'DELEGATION_TOKEN_AUTHORIZATION_FAILED'],
  [66, 'DELEGATION_TOKEN_EXPIRED'],
  [67, 'INVALID_PRINCIPAL_TYPE'],
  [68, 'NON_EMPTY_GROUP'],
  [69, 'GROUP_ID_NOT_FOUND'],
  [70, 'FETCH_SESSION_ID_NOT_FOUND'],
  [71, 'INVALID_FETCH_SESSION_EPOCH'],
  [72, 'LISTENER_NOT_FOUND'],
  [73, 'TOPIC_DELETION_DISABLED'],
  [74, 'FENCED_LEADER_EPOCH'],
  [75, 'UNKNOWN_LEADER_EPOCH'],
  [76, 'UNSUPPORTED_COMPRESSION_TYPE'],
  [77, 'STALE_BROKER_EPOCH'],
  [78, 'OFFSET_NOT_AVAILABLE'],
  [79, 'MEMBER_ID_REQUIRED'],
  [80, 'PREFERRED_LEADER_NOT_AVAILABLE'],
  [81, 'GROUP_MAX_SIZE_REACHED'],
  [82, 'FENCED_INSTANCE_ID'],
  [83, 'ELIGIBLE_LEADERS_NOT_AVAILABLE'],
  [84, 'ELECTION_NOT_NEEDED'],
  [85, 'NO_REASSIGNMENT_IN_PROGRESS'],
  [86, 'GROUP_SUBSCRIBED_TO_TOPIC'],
  [87, 'INVALID_RECORD'],
  [88, 'UNSTABLE_OFFSET_COMMIT'],
  [89, 'THROTTLING_QUOTA_EXCEEDED'],
  [90, 'PRODUCER_FENCED'],
  [91, 'RESOURCE_NOT_FOUND'],
  [92, 'DUPLICATE_RESOURCE'],
  [93, 'UNACCEPTABLE_CREDENTIAL'],
  [94, 'INCONSISTENT_VOTER_SET'],
  [95, 'INVALID_UPDATE_VERSION'],
  [96, 'FEATURE_UPDATE_FAILED'],
  [97, 'PRINCIPAL_DESERIALIZATION_FAILURE'],
  [98, 'SNAPSHOT_NOT_FOUND'],
  [99, 'POSITION_OUT_OF_RANGE'],
  [100, 'UNKNOWN_TOPIC_ID'],
  [101, 'DUPLICATE_BROKER_REGISTRATION'],
  [102, 'BROKER_ID_NOT_REGISTERED'],
  [103, 'INCONSISTENT_TOPIC_ID'],
  [104, 'INCONSISTENT_CLUSTER_ID'],
  [105, 'TRANSACTIONAL_ID_NOT_FOUND'],
  [106, 'FETCH_SESSION_TOPIC_ID_ERROR'],
  [107, 'INELIGIBLE_REPLICA'],
  [108, 'NEW_LEADER_ELECTED'],
  [109, 'OFFSET_MOVED_TO_TIERED_STORAGE'],
  [110, 'FENCED_MEMBER_EPOCH'],
  [111, 'UNRELEASED_INSTANCE_ID'],
  [112, 'UNSUPPORTED_ASSIGNOR'],
  [113, 'STALE_MEMBER_EPOCH'],
  [114, 'MISMATCHED_ENDPOINT_TYPE'],
  [115, 'UNSUPPORTED_ENDPOINT_TYPE'],
  [116, 'UNKNOWN_CONTROLLER_ID'],
  [117, 'UNKNOWN_SUBSCRIPTION_ID'],
  [118, 'TELEMETRY_TOO_LARGE'],
  [119, 'INVALID_REGISTRATION'],
  [120, 'TRANSACTION_ABORTABLE'],
  [121, 'INVALID_RECORD_STATE'],
  [122, 'SHARE_SESSION_NOT_FOUND'],
  [123, 'INVALID_SHARE_SESSION_EPOCH'],
  [124, 'FENCED_STATE_EPOCH'],
  [125, 'INVALID_VOTER_KEY'],
  [126, 'DUPLICATE_VOTER'],
  [127, 'VOTER_NOT_FOUND'],
  [128, 'INVALID_REGULAR_EXPRESSION'],
  [129, 'REBOOTSTRAP_REQUIRED'],
  [130, 'STREAMS_INVALID_TOPOLOGY'],
  [131, 'STREAMS_INVALID_TOPOLOGY_EPOCH'],
  [132, 'STREAMS_TOPOLOGY_FENCED'],
  [133, 'SHARE_SESSION_LIMIT_REACHED'],
  [134, 'GROUP_DELETION_FAILED'],
  [135, 'STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED'],
  [136, 'CONTROLLER_ID_NOT_REGISTERED'],
])

/**
 * Codes after which the same request may succeed a moment later: a leader or coordinator moved or is loading, replicas
 * are short, a transaction's markers are being written, the broker throttles or has not heard of a change yet.
 */
const TRANSIENT: ReadonlySet<number> = new Set([
  5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 72, 74, 75, 78, 88, 89,
])

/** Codes that say that cached metadata about leaders is out of date. */
const LEADER_MOVED: ReadonlySet<number> = new Set([3, 5, 6, 9, 56, 72, 74, 75])

/** Codes that say that the cached coordinator is out of date. */
const COORDINATOR_MOVED: ReadonlySet<number> = new Set([15, 16])

/** What is missing, by the code that says so. */
const UNAUTHORIZED: ReadonlyMap<number, string> = new Map([
  [29, 'an ACL on the topic'],
  [30, 'an ACL on the group'],
  [31, 'an ACL on the cluster'],
  [33, 'a SASL mechanism that the broker has'],
  [34, 'a SASL mechanism that the broker has'],
  [53, 'an ACL on the transactional id'],
  [58, 'the right credentials'],
  [65, 'an ACL on the delegation token'],
])

/** Kafka's name of a code, or `UNKNOWN_ERROR_<code>` for one that a newer broker brings. */
export function errorName(code: number): string {
  return NAMES.get(code) ?? `UNKNOWN_ERROR_${code}`
}

/** True if the same request may succeed a moment later. */
export function isTransient(code: number): boolean {
  return TRANSIENT.has(code)
}

/** True if the leader must be looked up again. */
export function isLeaderMoved(code: number): boolean {
  return LEADER_MOVED.has(code)
}

/** True if the coordinator must be looked up again. */
export function isCoordinatorMoved(code: number): boolean {
  return COORDINATOR_MOVED.has(code)
}

/**
 * The error for a code that a broker answered.
 * @param resource what was asked for, e.g. `topic 'orders'`
 */
export function brokerError(
  api: string,
  code: number,
  resource: string,
  message?: string | null,
): KafkaError {
  const name = errorName(code)
  const missing = UNAUTHORIZED.get(code)
  const said =
    message === null || message === undefined || message === '' ? '' : `: ${message.replace(/\.+$/, '')}`
  const facts = { brokerCode: code, brokerError: name, api }
  const details = { api, brokerCode: code, brokerError: name, resource }
  if (missing !== undefined) {
    return new KafkaError(
      'MILLRACE_KAFKA_UNAUTHORIZED',
      `${api} was refused with ${name} (${code}) for ${resource}${said}. Missing: ${missing}.`,
      facts,
      { details },
    )
  }
  return new KafkaError(
    'MILLRACE_KAFKA_PROTOCOL',
    `${api} failed with ${name} (${code}) for ${resource}${said}`,
    facts,
    { details, retriable: isTransient(code) },
  )
}

/** The error for brokers that gave no answer. Trying again may help unless told otherwise. */
export function unreachable(
  api: string,
  brokers: readonly string[],
  cause?: unknown,
  retriable = true,
): KafkaError {
  const reason =
    cause instanceof Error || (typeof cause === 'object' && cause !== null && 'message' in cause)
      ? `: ${String(cause.message)}`
      : ''
  return new KafkaError(
    'MILLRACE_KAFKA_UNREACHABLE',
    `${api}: no answer from Kafka (tried ${brokers.length === 0 ? 'no broker' : brokers.join(', ')})${reason}`,
    { brokerCode: -1, brokerError: 'NO_ANSWER', api },
    { cause, retriable, details: { api, brokers } },
  )
}
