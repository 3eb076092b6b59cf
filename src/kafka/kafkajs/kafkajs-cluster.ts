import type { Logger } from '../../core/ports.ts'
import type * as Port from '../kafka-cluster.ts'
import { ClusterMetadata } from './cluster-metadata.ts'
import { Connections } from './connections.ts'
import { Groups } from './groups.ts'
import { PartitionLogs } from './partition-logs.ts'
import { Retry } from './retry.ts'
import { Router } from './router.ts'
import { Topics } from './topics.ts'
import { Transactions } from './transactions.ts'

/** How long `connect` waits for a first answer: long enough for a broker that is starting, short enough for a wrong address. */
const CONNECT_TIMEOUT_MS = 10_000

/**
 * Kafka itself. kafkajs gives the sockets, TLS, SASL and request time-outs; all requests are written by hand in `requests/`,
 * at the versions that Kafka 3.6 to 4.x share and that recovery relies on (64-bit values as bigint, EndTxn v1).
 *
 * Work that belongs together is in one class each: `Topics`, `PartitionLogs`, `Transactions`, `Groups`. They share the
 * connections, the metadata cache and the retry loop, which `close` ends.
 */
export class KafkajsCluster implements Port.KafkaCluster {
  readonly #connections: Connections
  readonly #retry: Retry
  readonly #metadata: ClusterMetadata
  readonly #topics: Topics
  readonly #logs: PartitionLogs
  readonly #transactions: Transactions
  readonly #groups: Groups

  /** Opens nothing yet. What kafkajs logs goes to `logger` at level debug. */
  constructor(config: Port.KafkaConnectionConfig, logger: Logger) {
    this.#connections = new Connections(config, logger)
    this.#retry = new Retry(logger)
    this.#metadata = new ClusterMetadata(config, this.#connections)
    const router = new Router(this.#retry, this.#metadata, this.#connections)
    this.#topics = new Topics(this.#retry, this.#metadata, this.#connections, router)
    this.#logs = new PartitionLogs(this.#retry, this.#metadata, this.#connections, router)
    this.#transactions = new Transactions(this.#retry, this.#metadata, this.#connections, router)
    this.#groups = new Groups(router)
  }

  async connect(): Promise<void> {
    await this.#topics.describeCluster({ timeoutMs: CONNECT_TIMEOUT_MS })
  }

  async close(): Promise<void> {
    this.#retry.close()
    this.#connections.close()
  }

  describeCluster(): Promise<Port.ClusterDescription> {
    return this.#topics.describeCluster()
  }

  describeTopics(
    topics?: readonly string[],
    options?: Port.DescribeTopicsOptions,
  ): Promise<readonly Port.TopicDescription[]> {
    return this.#topics.describeTopics(topics, options)
  }

  leaderOf(topic: string, partition: number): Promise<number> {
    return this.#retry.run('Metadata', undefined, () => this.#metadata.leaderOf(topic, partition))
  }

  createTopics(topics: readonly Port.NewTopic[], options?: Port.CreateTopicsOptions): Promise<void> {
    return this.#topics.createTopics(topics, options)
  }

  deleteTopics(topics: readonly string[], options?: Port.CallOptions): Promise<void> {
    return this.#topics.deleteTopics(topics, options)
  }

  createPartitions(topic: string, totalCount: number, options?: Port.CallOptions): Promise<void> {
    return this.#topics.createPartitions(topic, totalCount, options)
  }

  describeConfigs(
    resource: { type: 'topic' | 'broker'; name: string },
    names: readonly string[],
    options?: Port.CallOptions,
  ): Promise<readonly Port.ConfigEntry[]> {
    return this.#topics.describeConfigs(resource, names, options)
  }

  deleteRecords(
    partitions: readonly (Port.TopicPartition & { readonly beforeOffset: bigint })[],
    options?: Port.CallOptions,
  ): Promise<void> {
    return this.#logs.deleteRecords(partitions, options)
  }

  listOffsets(
    partitions: readonly Port.TopicPartition[],
    at: Port.OffsetSpec,
    isolation: Port.IsolationLevel,
    options?: Port.CallOptions,
  ): Promise<readonly Port.ListedOffset[]> {
    return this.#logs.listOffsets(partitions, at, isolation, options)
  }

  fetch(request: Port.FetchRequest): Promise<readonly Port.FetchedPartition[]> {
    return this.#logs.fetch(request)
  }

  produce(request: Port.ProduceRequest): Promise<readonly Port.ProducedPartition[]> {
    return this.#logs.produce(request)
  }

  initProducerId(
    request: Parameters<Port.KafkaCluster['initProducerId']>[0],
    options?: Port.CallOptions,
  ): Promise<Port.ProducerIdentity> {
    return this.#transactions.initProducerId(request, options)
  }

  addPartitionsToTxn(
    producer: Port.ProducerIdentity,
    partitions: readonly Port.TopicPartition[],
    options?: Port.CallOptions,
  ): Promise<void> {
    return this.#transactions.addPartitionsToTxn(producer, partitions, options)
  }

  addOffsetsToTxn(
    producer: Port.ProducerIdentity,
    groupId: string,
    options?: Port.CallOptions,
  ): Promise<void> {
    return this.#transactions.addOffsetsToTxn(producer, groupId, options)
  }

  txnOffsetCommit(
    producer: Port.ProducerIdentity,
    groupId: string,
    offsets: readonly Port.GroupOffsetCommit[],
    options?: Port.CallOptions,
  ): Promise<void> {
    return this.#transactions.txnOffsetCommit(producer, groupId, offsets, options)
  }

  endTxn(
    producer: Port.ProducerIdentity,
    result: 'commit' | 'abort',
    options?: Port.CallOptions,
  ): Promise<void> {
    return this.#transactions.endTxn(producer, result, options)
  }

  listTransactions(options?: Port.CallOptions): Promise<readonly Port.ListedTransaction[]> {
    return this.#transactions.listTransactions(options)
  }

  describeTransactions(
    transactionalIds: readonly string[],
    options?: Port.CallOptions,
  ): Promise<readonly Port.DescribedTransaction[]> {
    return this.#transactions.describeTransactions(transactionalIds, options)
  }

  describeProducers(
    partition: Port.TopicPartition,
    options?: Port.CallOptions,
  ): Promise<readonly Port.DescribedProducer[]> {
    return this.#logs.describeProducers(partition, options)
  }

  fetchGroupOffsets(
    groupId: string,
    partitions: readonly Port.TopicPartition[],
    options?: Port.CallOptions,
  ): Promise<readonly (Port.TopicPartition & { readonly offset: bigint })[]> {
    return this.#groups.fetchGroupOffsets(groupId, partitions, options)
  }

  joinGroup(request: Port.JoinGroupRequest): Promise<Port.JoinedGroup> {
    return this.#groups.joinGroup(request)
  }

  syncGroup(request: Parameters<Port.KafkaCluster['syncGroup']>[0]): Promise<Buffer> {
    return this.#groups.syncGroup(request)
  }

  heartbeat(
    request: Parameters<Port.KafkaCluster['heartbeat']>[0],
    options?: Port.CallOptions,
  ): Promise<void> {
    return this.#groups.heartbeat(request, options)
  }

  leaveGroup(
    request: { readonly groupId: string; readonly memberId: string },
    options?: Port.CallOptions,
  ): Promise<void> {
    return this.#groups.leaveGroup(request, options)
  }

  describeGroup(groupId: string, options?: Port.CallOptions): Promise<Port.DescribedGroup> {
    return this.#groups.describeGroup(groupId, options)
  }

  deleteGroup(groupId: string, options?: Port.CallOptions): Promise<void> {
    return this.#groups.deleteGroup(groupId, options)
  }
}
