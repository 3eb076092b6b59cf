/**
 * A client of the simulated brokers: the `KafkaCluster` port, each call carried by the simulated network.
 * It knows leaders only from the metadata it last asked for, as a real client does, so a moved leader is found out by a refusal.
 */
import { MillraceError } from '../errors.ts'
import type {
  CallOptions,
  ClusterDescription,
  ConfigEntry,
  CreateTopicsOptions,
  DescribedGroup,
  DescribedProducer,
  DescribedTransaction,
  FetchedPartition,
  FetchRequest,
  GroupOffsetCommit,
  IsolationLevel,
  JoinedGroup,
  JoinGroupRequest,
  KafkaCluster,
  ListedOffset,
  ListedTransaction,
  NewTopic,
  OffsetSpec,
  ProducedPartition,
  ProducePartition,
  ProduceRequest,
  ProducerIdentity,
  TopicDescription,
  TopicPartition,
} from '../kafka/kafka-cluster.ts'
import { brokerError, isTransient } from '../kafka/kafkajs/error-codes.ts'
import { readBatchHeader } from './plain-batch.ts'
import { BrokerCode, BrokerRefusal } from './simulated-broker-error.ts'
import { type CallSpec, namesOf, type Resource, type SimulatedCaller } from './simulated-call.ts'
import type { SimulatedControlPlane } from './simulated-control-plane.ts'

/** @throws MillraceError when a batch changed while it was being sent: a retry of the real client would send other bytes. */
function checkUnchanged(partitions: readonly ProducePartition[], sent: readonly ProducePartition[]): void {
  const changed = partitions.find(({ batch }, index) => !sent[index]!.batch.equals(batch))
  if (changed === undefined) return
  const place = `partition ${changed.partition} of topic '${changed.topic}'`
  throw new MillraceError(
    'MILLRACE_INTERNAL',
    `The batch for ${place} was changed while it was being produced.`,
  )
}

/** Milliseconds during which a Produce is tried unless told otherwise. */
const DEFAULT_PRODUCE_MS = 60_000

/** One client; get one from `SimulatedKafka.client`. */
export class SimulatedClient implements KafkaCluster {
  readonly #caller: SimulatedCaller
  readonly #kafka: SimulatedControlPlane
  readonly #leaders = new Map<string, readonly number[]>()
  /** The last produce call of each producer: the next one starts when it is over. */
  readonly #produceTails = new Map<string, Promise<unknown>>()

  constructor(caller: SimulatedCaller, kafka: SimulatedControlPlane) {
    this.#caller = caller
    this.#kafka = kafka
  }

  get clientId(): string {
    return this.#caller.clientId
  }

  /** See SimulatedCaller. */
  kill(): void {
    this.#caller.kill()
  }

  pause(): void {
    this.#caller.pause()
  }

  resume(): void {
    this.#caller.resume()
  }

  async connect(): Promise<void> {
    await this.describeCluster()
  }

  async close(): Promise<void> {
    this.#caller.close()
  }

  describeCluster(): Promise<ClusterDescription> {
    return this.#ask('Metadata', [], 'the cluster', undefined, () => this.#kafka.describeCluster())
  }

  async describeTopics(
    topics?: readonly string[],
    options?: CallOptions,
  ): Promise<readonly TopicDescription[]> {
    const resource = (): string =>
      topics === undefined ? 'all topics' : namesOf(topics.map((topic) => ({ topic })))
    const described = await this.#ask('Metadata', [topics], resource, options, () =>
      this.#kafka.topics.describe(topics ?? this.#kafka.topics.names()),
    )
    for (const topic of topics ?? []) this.#leaders.delete(topic)
    for (const { topic, partitions } of described)
      this.#leaders.set(
        topic,
        partitions.map(({ leader }) => leader),
      )
    return described
  }

  leaderOf(topic: string, partition: number): Promise<number> {
    return this.#leaderNow(topic, partition, undefined)
  }

  async createTopics(topics: readonly NewTopic[], options?: CreateTopicsOptions): Promise<void> {
    await this.#ask(
      'CreateTopics',
      [topics],
      () => namesOf(topics),
      options,
      () => this.#kafka.topics.createMissing(topics, options?.validateOnly ?? false),
    )
    for (const { topic } of topics) this.#leaders.delete(topic)
  }

  async deleteTopics(topics: readonly string[], options?: CallOptions): Promise<void> {
    const names = topics.map((topic) => ({ topic }))
    await this.#ask(
      'DeleteTopics',
      [topics],
      () => namesOf(names),
      options,
      () => {
        for (const topic of topics) this.#kafka.deleteTopic(topic)
      },
    )
    for (const topic of topics) this.#leaders.delete(topic)
  }

  async createPartitions(topic: string, totalCount: number, options?: CallOptions): Promise<void> {
    await this.#ask('CreatePartitions', [topic, totalCount], namesOf([{ topic }]), options, () =>
      this.#kafka.topics.growTo(topic, totalCount),
    )
    this.#leaders.delete(topic)
  }

  describeConfigs(
    resource: { type: 'topic' | 'broker'; name: string },
    names: readonly string[],
    options?: CallOptions,
  ): Promise<readonly ConfigEntry[]> {
    return this.#ask(
      'DescribeConfigs',
      [resource, names],
      `${resource.type} '${resource.name}'`,
      options,
      () => this.#kafka.describeConfigs(resource, names),
    )
  }

  deleteRecords(
    partitions: readonly (TopicPartition & { readonly beforeOffset: bigint })[],
    options?: CallOptions,
  ): Promise<void> {
    return this.#ask(
      'DeleteRecords',
      [partitions],
      () => namesOf(partitions),
      options,
      () => this.#kafka.brokers.deleteRecords(partitions),
    )
  }

  listOffsets(
    partitions: readonly TopicPartition[],
    at: OffsetSpec,
    isolation: IsolationLevel,
    options?: CallOptions,
  ): Promise<readonly ListedOffset[]> {
    return this.#ask(
      'ListOffsets',
      [partitions, at, isolation],
      () => namesOf(partitions),
      options,
      () => this.#kafka.brokers.listOffsets(partitions, at, isolation),
    )
  }

  async fetch(request: FetchRequest): Promise<readonly FetchedPartition[]> {
    const first = request.partitions[0]
    if (first === undefined) return []
    const known = this.#leaders.get(first.topic)?.[first.partition] ?? -1
    const leader = known === -1 ? await this.#lookUpLeader(first.topic, first.partition, undefined) : known
    // A partition that nobody knows is asked for at any broker: its answer says so.
    const node = leader ?? this.#kafka.anyNode()
    const forget = (): void => {
      for (const { topic } of request.partitions) this.#leaders.delete(topic)
    }
    const answer = await this.#caller.call({
      api: 'Fetch',
      args: [request],
      resource: () => namesOf(request.partitions),
      timeoutMs: 0,
      address: () => ({
        isUp: () => this.#kafka.topics.live.has(node),
        execute: () => this.#kafka.brokers.fetch(node, request),
      }),
      onRetry: forget,
    })
    const moved = answer.find(({ errorCode }) => errorCode === BrokerCode.NOT_LEADER)
    if (moved === undefined) return answer
    forget()
    throw brokerError('Fetch', moved.errorCode, `partition ${moved.partition} of topic '${moved.topic}'`)
  }

  produce(request: ProduceRequest): Promise<readonly ProducedPartition[]> {
    const producer = this.#producerOf(request)
    if (producer === undefined) return this.#produce(request)
    const tail = this.#produceTails.get(producer) ?? Promise.resolve()
    const mine = tail.then(
      () => this.#produce(request),
      () => this.#produce(request),
    )
    this.#produceTails.set(producer, mine)
    return mine
  }

  initProducerId(
    request: Parameters<KafkaCluster['initProducerId']>[0],
    options?: CallOptions,
  ): Promise<ProducerIdentity> {
    return this.#coordinate(
      'InitProducerId',
      [request],
      `transactional id '${request.transactionalId}'`,
      options,
      () => this.#kafka.transactions.init(request),
    )
  }

  addPartitionsToTxn(
    producer: ProducerIdentity,
    partitions: readonly TopicPartition[],
    options?: CallOptions,
  ): Promise<void> {
    return this.#withProducer('AddPartitionsToTxn', producer, [partitions], options, () =>
      this.#kafka.transactions.addPartitions(producer, partitions),
    )
  }

  addOffsetsToTxn(producer: ProducerIdentity, groupId: string, options?: CallOptions): Promise<void> {
    return this.#withProducer('AddOffsetsToTxn', producer, [groupId], options, () =>
      this.#kafka.transactions.addGroup(producer, groupId),
    )
  }

  txnOffsetCommit(
    producer: ProducerIdentity,
    groupId: string,
    offsets: readonly GroupOffsetCommit[],
    options?: CallOptions,
  ): Promise<void> {
    return this.#withProducer('TxnOffsetCommit', producer, [groupId, offsets], options, () =>
      this.#kafka.txnOffsetCommit(producer, groupId, offsets),
    )
  }

  endTxn(producer: ProducerIdentity, result: 'commit' | 'abort', options?: CallOptions): Promise<void> {
    return this.#withProducer('EndTxn', producer, [result], options, () =>
      this.#kafka.transactions.end(producer, result),
    )
  }

  listTransactions(options?: CallOptions): Promise<readonly ListedTransaction[]> {
    return this.#coordinate('ListTransactions', [], 'all transactions', options, () =>
      this.#kafka.transactions.list(),
    )
  }

  describeTransactions(
    ids: readonly string[],
    options?: CallOptions,
  ): Promise<readonly DescribedTransaction[]> {
    const resource = (): string => ids.map((id) => `transactional id '${id}'`).join(', ')
    return this.#coordinate('DescribeTransactions', [ids], resource, options, () =>
      ids.map((id) => this.#kafka.transactions.describe(id)),
    )
  }

  describeProducers(partition: TopicPartition, options?: CallOptions): Promise<readonly DescribedProducer[]> {
    return this.#ask(
      'DescribeProducers',
      [partition],
      () => namesOf([partition]),
      options,
      () => this.#kafka.brokers.describeProducers(partition),
    )
  }

  fetchGroupOffsets(
    groupId: string,
    partitions: readonly TopicPartition[],
    options?: CallOptions,
  ): Promise<readonly (TopicPartition & { readonly offset: bigint })[]> {
    return this.#withGroup('OffsetFetch', groupId, [groupId, partitions], options, () => {
      const offsets = this.#kafka.groups.offsets(groupId, partitions)
      return partitions.map(({ topic, partition }, index) => ({ topic, partition, offset: offsets[index]! }))
    })
  }

  async joinGroup(request: JoinGroupRequest): Promise<JoinedGroup> {
    const memberId =
      request.memberId !== ''
        ? request.memberId
        : await this.#withGroup('JoinGroup', request.groupId, [request], undefined, () =>
            this.#kafka.groups.promiseMemberId(this.clientId, request),
          )
    const joining = { ...request, memberId }
    return this.#withGroup('JoinGroup', request.groupId, [joining], undefined, () =>
      this.#kafka.groups.join(this.clientId, joining),
    )
  }

  syncGroup(request: Parameters<KafkaCluster['syncGroup']>[0]): Promise<Buffer> {
    return this.#withGroup('SyncGroup', request.groupId, [request], undefined, () =>
      this.#kafka.groups.sync(request),
    )
  }

  heartbeat(request: Parameters<KafkaCluster['heartbeat']>[0], options?: CallOptions): Promise<void> {
    return this.#withGroup('Heartbeat', request.groupId, [request], options, () =>
      this.#kafka.groups.heartbeat(request),
    )
  }

  leaveGroup(request: Parameters<KafkaCluster['leaveGroup']>[0], options?: CallOptions): Promise<void> {
    return this.#withGroup('LeaveGroup', request.groupId, [request], options, () =>
      this.#kafka.groups.leave(request.groupId, request.memberId),
    )
  }

  describeGroup(groupId: string, options?: CallOptions): Promise<DescribedGroup> {
    return this.#withGroup('DescribeGroups', groupId, [groupId], options, () =>
      this.#kafka.groups.describe(groupId),
    )
  }

  deleteGroup(groupId: string, options?: CallOptions): Promise<void> {
    return this.#withGroup('DeleteGroups', groupId, [groupId], options, () =>
      this.#kafka.groups.delete(groupId),
    )
  }

  /** A call that any broker answers. */
  #ask<T>(
    api: string,
    args: readonly unknown[],
    resource: Resource,
    options: CallOptions | undefined,
    execute: () => T | Promise<T>,
  ): Promise<T> {
    const spec: CallSpec<T> = {
      api,
      args,
      resource,
      timeoutMs: options?.timeoutMs,
      address: () => ({ isUp: () => this.#kafka.topics.live.size > 0, execute }),
    }
    return this.#caller.call(spec)
  }

  /** A call that a coordinator answers: refused for a moment after it moved. */
  #coordinate<T>(
    api: string,
    args: readonly unknown[],
    resource: Resource,
    options: CallOptions | undefined,
    execute: () => T | Promise<T>,
  ): Promise<T> {
    return this.#ask(api, args, resource, options, () => {
      this.#kafka.checkCoordinators()
      return execute()
    })
  }

  #withProducer(
    api: string,
    producer: ProducerIdentity,
    args: readonly unknown[],
    options: CallOptions | undefined,
    execute: () => void,
  ): Promise<void> {
    return this.#coordinate(
      api,
      [producer, ...args],
      () => `transactional id '${producer.transactionalId}'`,
      options,
      execute,
    )
  }

  #withGroup<T>(
    api: string,
    groupId: string,
    args: readonly unknown[],
    options: CallOptions | undefined,
    execute: () => T | Promise<T>,
  ): Promise<T> {
    return this.#coordinate(api, args, `group '${groupId}'`, options, execute)
  }

  /** The cached leader, else the one that metadata tells. @throws KafkaError 3 when the partition doesn't exist. */
  async #leaderNow(topic: string, partition: number, options: CallOptions | undefined): Promise<number> {
    const known = this.#leaders.get(topic)?.[partition] ?? -1
    if (known !== -1) return known
    const leader = await this.#lookUpLeader(topic, partition, options)
    if (leader !== undefined) return leader
    throw brokerError(
      'Metadata',
      BrokerCode.UNKNOWN_TOPIC_OR_PARTITION,
      `partition ${partition} of topic '${topic}'`,
    )
  }

  /** Asks for metadata; undefined when the partition doesn't exist. @throws KafkaError while it has no leader. */
  async #lookUpLeader(
    topic: string,
    partition: number,
    options: CallOptions | undefined,
  ): Promise<number | undefined> {
    const leaders = await this.#ask('Metadata', [[topic]], `topic '${topic}'`, options, () => {
      const [described] = this.#kafka.topics.describe([topic])
      if (described?.partitions[partition]?.leader === -1)
        throw new BrokerRefusal(BrokerCode.LEADER_NOT_AVAILABLE)
      return described?.partitions.map(({ leader }) => leader)
    })
    if (leaders === undefined) this.#leaders.delete(topic)
    else this.#leaders.set(topic, leaders)
    return leaders?.[partition]
  }

  /** Who must see its batches stored in order; undefined = nobody. */
  #producerOf({ transactionalId, partitions }: ProduceRequest): string | undefined {
    if (transactionalId !== null) return transactionalId
    const producerId =
      partitions[0] === undefined ? -1n : (readBatchHeader(partitions[0].batch)?.producerId ?? -1n)
    return producerId < 0n ? undefined : `producer ${producerId}`
  }

  /** Sends to the leader of the first partition that is still owed; what other leaders hold is refused there and sent again. */
  async #produce(request: ProduceRequest): Promise<readonly ProducedPartition[]> {
    // What is sent is a copy: a duplicate may arrive when the caller uses its buffers for something else.
    const sent = request.partitions.map((partition) => ({
      ...partition,
      batch: Buffer.from(partition.batch),
    }))
    const stored = new Map<ProducePartition, ProducedPartition>()
    const owed = (): ProducePartition[] => sent.filter((partition) => !stored.has(partition))
    const forget = (): void => {
      for (const { topic } of sent) this.#leaders.delete(topic)
    }
    await this.#caller.call({
      api: 'Produce',
      args: [request],
      resource: () => namesOf(sent),
      timeoutMs: request.timeoutMs,
      address: async () => {
        checkUnchanged(request.partitions, sent)
        const partitions = owed()
        const [{ topic, partition }] = partitions as [ProducePartition]
        const node = await this.#leaderNow(topic, partition, {
          timeoutMs: request.timeoutMs ?? DEFAULT_PRODUCE_MS,
        })
        return {
          isUp: () => this.#kafka.topics.live.has(node),
          execute: () => {
            const produced = this.#kafka.brokers.produce(node, { ...request, partitions })
            return partitions.map((owedPartition, index) => ({
              partition: owedPartition,
              produced: produced[index]!,
            }))
          },
        }
      },
      transientCode: (answers) => {
        for (const { partition, produced } of answers) {
          if (!isTransient(produced.errorCode)) stored.set(partition, produced)
        }
        return answers.find(({ produced }) => isTransient(produced.errorCode))?.produced.errorCode
      },
      onRetry: forget,
    })
    return sent.map((partition) => stored.get(partition)!)
  }
}
