/**
 * The port: all that Millrace asks of Kafka, and nothing else. Two implementations: kafka/kafkajs (real) and
 * testing/simulated-cluster (in memory); one contract suite runs on both (testing/kafka-cluster-contract.ts).
 *
 * What every implementation must hold:
 * - Transient trouble (connection lost, leader or coordinator moved, coordinator loading, CONCURRENT_TRANSACTIONS 51, throttling) is retried
 *   inside, with back-off and jitter, until `timeoutMs` (default 60 s) has passed; then a KafkaError with `retriable` true is thrown.
 *   A retried Produce carries the same bytes, so an idempotent batch is never stored twice; DUPLICATE_SEQUENCE_NUMBER (46) counts as success.
 *   A retried EndTxn is the same EndTxn.
 * - Any other error code of the whole request throws a KafkaError with `brokerCode`. Codes of one partition are returned in its result.
 * - Offsets, producer ids and other 64-bit values are bigint.
 * - After `close()` pending and later calls reject with MILLRACE_KAFKA_UNREACHABLE and the sockets are gone.
 */

/** Kafka error codes that decisions are made on. */
export const KafkaCode = {
  NONE: 0,
  OFFSET_OUT_OF_RANGE: 1,
  UNKNOWN_TOPIC_OR_PARTITION: 3,
  NOT_LEADER: 6,
  MESSAGE_TOO_LARGE: 10,
  ILLEGAL_GENERATION: 22,
  INCONSISTENT_GROUP_PROTOCOL: 23,
  UNKNOWN_MEMBER_ID: 25,
  REBALANCE_IN_PROGRESS: 27,
  TOPIC_AUTHORIZATION_FAILED: 29,
  GROUP_AUTHORIZATION_FAILED: 30,
  CLUSTER_AUTHORIZATION_FAILED: 31,
  TOPIC_ALREADY_EXISTS: 36,
  INVALID_REPLICATION_FACTOR: 38,
  POLICY_VIOLATION: 44,
  OUT_OF_ORDER_SEQUENCE_NUMBER: 45,
  DUPLICATE_SEQUENCE_NUMBER: 46,
  INVALID_PRODUCER_EPOCH: 47,
  INVALID_TXN_STATE: 48,
  INVALID_PRODUCER_ID_MAPPING: 49,
  INVALID_TRANSACTION_TIMEOUT: 50,
  CONCURRENT_TRANSACTIONS: 51,
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED: 53,
  UNKNOWN_PRODUCER_ID: 59,
  MEMBER_ID_REQUIRED: 79,
  PRODUCER_FENCED: 90,
  TRANSACTIONAL_ID_NOT_FOUND: 105,
} as const

export type IsolationLevel = 'read_committed' | 'read_uncommitted'

export interface TopicPartition {
  readonly topic: string
  readonly partition: number
}

export interface PartitionDescription {
  readonly partition: number
  /** Node id; -1 while there is none. */
  readonly leader: number
  readonly replicas: readonly number[]
  readonly isr: readonly number[]
}

export interface TopicDescription {
  readonly topic: string
  /** Uuid in Kafka's base64 form; a topic that was deleted and created again has another one. */
  readonly topicId: string
  readonly internal: boolean
  /** Sorted by partition. */
  readonly partitions: readonly PartitionDescription[]
  /** What this principal may do with it; only if it was asked for, and if the cluster can tell. */
  readonly operations?: ReadonlySet<ResourceOperation>
}

/** A right on a topic or group, as Kafka names it. */
export type ResourceOperation =
  | 'Read'
  | 'Write'
  | 'Create'
  | 'Delete'
  | 'Alter'
  | 'Describe'
  | 'DescribeConfigs'

export interface ClusterDescription {
  readonly clusterId: string
  readonly controllerId: number
  readonly brokers: readonly { readonly nodeId: number; readonly host: string; readonly port: number }[]
}

export interface NewTopic {
  readonly topic: string
  readonly partitions: number
  /** -1 = the broker's default. */
  readonly replicationFactor: number
  readonly configs?: Readonly<Record<string, string>>
}

/** Where to look an offset up: a position, or the first record at or after a time (epoch ms). */
export type OffsetSpec = 'earliest' | 'latest' | { readonly timestamp: number }

export interface ListedOffset extends TopicPartition {
  /** 0, or the partition's error code. */
  readonly errorCode: number
  /** -1n when no record is at or after the timestamp. For 'latest' with read_committed: the last stable offset. */
  readonly offset: bigint
}

export interface FetchPartition extends TopicPartition {
  readonly offset: bigint
  readonly maxBytes: number
}

export interface FetchRequest {
  readonly isolation: IsolationLevel
  /** All must have the same leader; group them with `leaderOf`. */
  readonly partitions: readonly FetchPartition[]
  readonly maxWaitMs: number
  readonly minBytes: number
  readonly maxBytes: number
}

export interface AbortedTransaction {
  readonly producerId: bigint
  readonly firstOffset: bigint
}

export interface FetchedPartition extends TopicPartition {
  readonly errorCode: number
  readonly highWatermark: bigint
  readonly lastStableOffset: bigint
  readonly logStartOffset: bigint
  /** Only for read_committed; in the broker's order. */
  readonly abortedTransactions: readonly AbortedTransaction[]
  /** Whole record batches; the last one may be cut off, the first may start below the asked offset. */
  readonly records: Buffer
}

export interface ProducePartition extends TopicPartition {
  /** One encoded record batch (v2), base offset 0. */
  readonly batch: Buffer
}

export interface ProduceRequest {
  readonly acks: -1 | 1
  readonly transactionalId: string | null
  /** All must have the same leader. */
  readonly partitions: readonly ProducePartition[]
  readonly timeoutMs?: number
}

export interface ProducedPartition extends TopicPartition {
  readonly errorCode: number
  readonly errorMessage: string | null
  /** -1n when errorCode is not 0, or for a batch that had been stored before and whose offset is not known any more. */
  readonly baseOffset: bigint
}

/** A transactional producer: exactly what EndTxn needs. */
export interface ProducerIdentity {
  readonly transactionalId: string
  readonly producerId: bigint
  readonly producerEpoch: number
}

export type TransactionState =
  | 'Empty'
  | 'Ongoing'
  | 'PrepareCommit'
  | 'PrepareAbort'
  | 'CompleteCommit'
  | 'CompleteAbort'
  | 'Dead'
  | 'PrepareEpochFence'
  | 'Unknown'

export interface ListedTransaction {
  readonly transactionalId: string
  readonly producerId: bigint
  readonly state: TransactionState
}

export interface DescribedTransaction {
  readonly transactionalId: string
  /** 0, or 105 when no such id is known. */
  readonly errorCode: number
  readonly producerId: bigint
  readonly producerEpoch: number
  readonly state: TransactionState
  readonly timeoutMs: number
  /** Epoch ms; -1n when none is open. */
  readonly startTimeMs: bigint
  readonly partitions: readonly TopicPartition[]
}

export interface DescribedProducer {
  readonly producerId: bigint
  readonly producerEpoch: number
  readonly lastSequence: number
  readonly lastTimestamp: bigint
  readonly coordinatorEpoch: number
  /** First offset of the open transaction on this partition; -1n = none. */
  readonly currentTxnStartOffset: bigint
}

export interface GroupOffsetCommit extends TopicPartition {
  readonly offset: bigint
  readonly metadata?: string
}

export interface JoinGroupRequest {
  readonly groupId: string
  readonly protocolType: string
  /** The protocol's name and this member's metadata. */
  readonly protocols: readonly { readonly name: string; readonly metadata: Buffer }[]
  readonly sessionTimeoutMs: number
  readonly rebalanceTimeoutMs: number
  /** '' at first. MEMBER_ID_REQUIRED is handled inside. */
  readonly memberId: string
}

export interface JoinedGroup {
  readonly generation: number
  readonly protocol: string
  readonly leaderId: string
  readonly memberId: string
  /** Filled for the leader only. */
  readonly members: readonly { readonly memberId: string; readonly metadata: Buffer }[]
}

export interface DescribedGroup {
  readonly groupId: string
  readonly errorCode: number
  /** 'Empty' | 'Stable' | 'PreparingRebalance' | 'CompletingRebalance' | 'Dead'. */
  readonly state: string
  readonly protocolType: string
  readonly protocol: string
  readonly members: readonly {
    readonly memberId: string
    readonly clientId: string
    readonly clientHost: string
    readonly metadata: Buffer
  }[]
  /** What this principal may do with it, also with one that does not exist; undefined if the cluster cannot tell. */
  readonly operations?: ReadonlySet<ResourceOperation> | undefined
}

export interface ConfigEntry {
  readonly name: string
  readonly value: string | null
}

/** Options of one call. */
export interface CallOptions {
  /** Milliseconds during which transient trouble is retried (default 60,000). 0 = one try. */
  readonly timeoutMs?: number
}

/** Options of `createTopics`. */
export interface CreateTopicsOptions extends CallOptions {
  /** Create nothing: only find out whether it would be refused. */
  readonly validateOnly?: boolean
}

/** Options of `describeTopics`. */
export interface DescribeTopicsOptions extends CallOptions {
  /** Also say what this principal may do with each topic. */
  readonly operations?: boolean
}

export interface KafkaCluster {
  /** Resolves once a broker answered. @throws KafkaError MILLRACE_KAFKA_UNREACHABLE, MILLRACE_KAFKA_UNAUTHORIZED, MILLRACE_KAFKA_TOO_OLD. */
  connect(): Promise<void>
  close(): Promise<void>

  describeCluster(): Promise<ClusterDescription>
  /**
   * Topics as they are now (never from a cache), undefined topics left out. Without names: all topics.
   * @throws KafkaError MILLRACE_KAFKA_UNAUTHORIZED naming the topic.
   */
  describeTopics(
    topics?: readonly string[],
    options?: DescribeTopicsOptions,
  ): Promise<readonly TopicDescription[]>
  /** Leader's node id from the cached metadata; refreshed when unknown or after a leader error. */
  leaderOf(topic: string, partition: number): Promise<number>
  /** Creates topics; those that exist already are left as they are and not an error. Resolves when the leaders are known. */
  createTopics(topics: readonly NewTopic[], options?: CreateTopicsOptions): Promise<void>
  deleteTopics(topics: readonly string[], options?: CallOptions): Promise<void>
  createPartitions(topic: string, totalCount: number, options?: CallOptions): Promise<void>
  describeConfigs(
    resource: { type: 'topic' | 'broker'; name: string },
    names: readonly string[],
    options?: CallOptions,
  ): Promise<readonly ConfigEntry[]>
  /** Removes records below the offsets; resolves with the new log start offsets. */
  deleteRecords(
    partitions: readonly (TopicPartition & { readonly beforeOffset: bigint })[],
    options?: CallOptions,
  ): Promise<void>

  listOffsets(
    partitions: readonly TopicPartition[],
    at: OffsetSpec,
    isolation: IsolationLevel,
    options?: CallOptions,
  ): Promise<readonly ListedOffset[]>
  /**
   * One long poll on one leader. Not retried inside on partition errors: they are in the result. A lost connection or a moved leader is retried
   * by the caller's next fetch (the call throws a retriable KafkaError, metadata is refreshed).
   */
  fetch(request: FetchRequest): Promise<readonly FetchedPartition[]>
  /** Stores batches on one leader; retried inside as said above, a moved leader included. Calls for one producer are sent in the order they are made. */
  produce(request: ProduceRequest): Promise<readonly ProducedPartition[]>

  /**
   * InitProducerId v4. Without `expected` it is bare: it fences whoever holds the id. With `expected` it is a compare-and-set:
   * PRODUCER_FENCED (90) or INVALID_PRODUCER_EPOCH (47) is thrown when somebody else moved the id.
   */
  initProducerId(
    request: {
      readonly transactionalId: string
      readonly transactionTimeoutMs: number
      readonly expected?: { readonly producerId: bigint; readonly producerEpoch: number }
    },
    options?: CallOptions,
  ): Promise<ProducerIdentity>
  addPartitionsToTxn(
    producer: ProducerIdentity,
    partitions: readonly TopicPartition[],
    options?: CallOptions,
  ): Promise<void>
  addOffsetsToTxn(producer: ProducerIdentity, groupId: string, options?: CallOptions): Promise<void>
  /** Throws a KafkaError with the first partition's code if one was refused. */
  txnOffsetCommit(
    producer: ProducerIdentity,
    groupId: string,
    offsets: readonly GroupOffsetCommit[],
    options?: CallOptions,
  ): Promise<void>
  /** EndTxn v1: 0 resolves (repeatable); 47, 48, 49, 90 throw with `brokerCode`; 51 is retried. */
  endTxn(producer: ProducerIdentity, result: 'commit' | 'abort', options?: CallOptions): Promise<void>
  /** All brokers asked. An empty list may also mean that the permission is missing. */
  listTransactions(options?: CallOptions): Promise<readonly ListedTransaction[]>
  describeTransactions(
    transactionalIds: readonly string[],
    options?: CallOptions,
  ): Promise<readonly DescribedTransaction[]>
  describeProducers(partition: TopicPartition, options?: CallOptions): Promise<readonly DescribedProducer[]>

  /** Committed offsets of a group, waiting while a transactional commit is pending; -1n = none. */
  fetchGroupOffsets(
    groupId: string,
    partitions: readonly TopicPartition[],
    options?: CallOptions,
  ): Promise<readonly (TopicPartition & { readonly offset: bigint })[]>
  joinGroup(request: JoinGroupRequest): Promise<JoinedGroup>
  syncGroup(request: {
    readonly groupId: string
    readonly generation: number
    readonly memberId: string
    readonly assignments: readonly { readonly memberId: string; readonly assignment: Buffer }[]
  }): Promise<Buffer>
  /** Throws KafkaError with 22, 25 or 27 when the member must rejoin. */
  heartbeat(
    request: { readonly groupId: string; readonly generation: number; readonly memberId: string },
    options?: CallOptions,
  ): Promise<void>
  leaveGroup(
    request: { readonly groupId: string; readonly memberId: string },
    options?: CallOptions,
  ): Promise<void>
  describeGroup(groupId: string, options?: CallOptions): Promise<DescribedGroup>
  deleteGroup(groupId: string, options?: CallOptions): Promise<void>
}

/** Settings of a connection to real brokers. */
export interface KafkaConnectionConfig {
  readonly brokers: readonly string[]
  readonly clientId: string
  /** true, or options of node:tls. */
  readonly ssl?: boolean | Readonly<Record<string, unknown>>
  readonly sasl?: {
    readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512' | 'oauthbearer' | 'aws'
    readonly username?: string
    readonly password?: string
    readonly [key: string]: unknown
  }
  readonly connectionTimeoutMs?: number
  readonly requestTimeoutMs?: number
}
