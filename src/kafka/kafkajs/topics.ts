import type {
  CallOptions,
  ClusterDescription,
  ConfigEntry,
  CreateTopicsOptions,
  DescribeTopicsOptions,
  NewTopic,
  TopicDescription,
} from '../kafka-cluster.ts'
import { KafkaCode } from '../kafka-cluster.ts'
import { operationsOf } from './acl-operations.ts'
import type { BrokerAddress } from './broker-connection.ts'
import type { ClusterMetadata } from './cluster-metadata.ts'
import type { Connections } from './connections.ts'
import { brokerError, isTransient } from './error-codes.ts'
import { createPartitionsV1 } from './requests/create-partitions-v1.ts'
import { createTopicsV4 } from './requests/create-topics-v4.ts'
import { deleteTopicsV3 } from './requests/delete-topics-v3.ts'
import { describeConfigsV2 } from './requests/describe-configs-v2.ts'
import { listOffsetsV5, TIMESTAMP_LATEST } from './requests/list-offsets-v5.ts'
import { type MetadataTopic, metadataV12, metadataWithOperationsV12 } from './requests/metadata-v12.ts'
import { isRetriable, type Retry } from './retry.ts'
import type { Router } from './router.ts'

const LEADER_NOT_AVAILABLE = 5
const INVALID_PARTITIONS = 37
/** How long the controller may take before it says so. */
const CONTROLLER_WAIT_MS = 30_000

/** The cluster and its topics: description, creation, deletion, settings. */
export class Topics {
  readonly #retry: Retry
  readonly #metadata: ClusterMetadata
  readonly #connections: Connections
  readonly #router: Router

  constructor(retry: Retry, metadata: ClusterMetadata, connections: Connections, router: Router) {
    this.#retry = retry
    this.#metadata = metadata
    this.#connections = connections
    this.#router = router
  }

  async describeCluster(options?: CallOptions): Promise<ClusterDescription> {
    const { brokers, clusterId, controllerId } = await this.#retry.run('Metadata', options?.timeoutMs, () =>
      this.#metadata.fetch([]),
    )
    return { brokers, clusterId, controllerId }
  }

  describeTopics(
    names: readonly string[] | undefined,
    options?: DescribeTopicsOptions,
  ): Promise<readonly TopicDescription[]> {
    return this.#retry.run('Metadata', options?.timeoutMs, async () => {
      const { topics } =
        options?.operations === true
          ? await this.#metadata.sendToAny(metadataWithOperationsV12, names ?? null)
          : await this.#metadata.fetch(names ?? null)
      return topics
        .filter(({ errorCode }) => errorCode !== KafkaCode.UNKNOWN_TOPIC_OR_PARTITION)
        .map((topic) =>
          options?.operations === true ? { ...describe(topic), ...operationsIn(topic) } : describe(topic),
        )
    })
  }

  async createTopics(topics: readonly NewTopic[], options?: CreateTopicsOptions): Promise<void> {
    if (topics.length === 0) return
    const validateOnly = options?.validateOnly ?? false
    let pending = topics
    await this.#router.toController(
      createTopicsV4,
      (remainingMs) => ({ topics: pending, timeoutMs: controllerWait(remainingMs), validateOnly }),
      (outcomes) => {
        const refused = outcomes.filter(
          ({ errorCode }) => errorCode !== 0 && errorCode !== KafkaCode.TOPIC_ALREADY_EXISTS,
        )
        pending = pending.filter(({ topic }) => refused.some((outcome) => outcome.topic === topic))
        const worst = refused.find(({ errorCode }) => !isTransient(errorCode)) ?? refused[0]
        if (worst !== undefined)
          throw brokerError('CreateTopics', worst.errorCode, `topic '${worst.topic}'`, worst.errorMessage)
      },
      options,
    )
    if (validateOnly) return
    await this.#everywhere(
      topics.map(({ topic }) => topic),
      hasLeaders,
      options,
    )
    await this.#served(
      topics.map(({ topic }) => topic),
      options,
    )
  }

  async deleteTopics(names: readonly string[], options?: CallOptions): Promise<void> {
    if (names.length === 0) return
    let pending = names
    await this.#router.toController(
      deleteTopicsV3,
      (remainingMs) => ({ topics: pending, timeoutMs: controllerWait(remainingMs) }),
      (outcomes, tries) => {
        // A topic that is not there any more when the request is repeated was deleted by the first try.
        const refused = outcomes.filter(
          ({ errorCode }) =>
            errorCode !== 0 && !(tries > 0 && errorCode === KafkaCode.UNKNOWN_TOPIC_OR_PARTITION),
        )
        pending = pending.filter((topic) => refused.some((outcome) => outcome.topic === topic))
        const worst = refused.find(({ errorCode }) => !isTransient(errorCode)) ?? refused[0]
        if (worst !== undefined) throw brokerError('DeleteTopics', worst.errorCode, `topic '${worst.topic}'`)
      },
      options,
    )
    for (const name of names) this.#metadata.forgetLeaders(name)
    await this.#everywhere(
      names,
      ({ errorCode }) => errorCode === KafkaCode.UNKNOWN_TOPIC_OR_PARTITION,
      options,
    )
  }

  async createPartitions(topic: string, totalCount: number, options?: CallOptions): Promise<void> {
    await this.#router.toController(
      createPartitionsV1,
      (remainingMs) => ({ topic, totalCount, timeoutMs: controllerWait(remainingMs) }),
      ([outcome], tries) => {
        const code = outcome?.errorCode ?? -1
        // The topic has that many partitions when the request is repeated: the first try raised them.
        if (code !== 0 && !(tries > 0 && code === INVALID_PARTITIONS))
          throw brokerError('CreatePartitions', code, `topic '${topic}'`, outcome?.errorMessage)
      },
      options,
    )
    await this.#everywhere(
      [topic],
      (described) => hasLeaders(described) && described.partitions.length >= totalCount,
      options,
    )
    await this.#served([topic], options)
  }

  describeConfigs(
    { type, name }: { readonly type: 'topic' | 'broker'; readonly name: string },
    names: readonly string[],
    options?: CallOptions,
  ): Promise<readonly ConfigEntry[]> {
    return this.#retry.run('DescribeConfigs', options?.timeoutMs, async () => {
      const input = { type, name, names }
      const answer =
        type === 'broker'
          ? await this.#connections.send(
              await this.#metadata.address(Number(name)),
              'prompt',
              describeConfigsV2,
              input,
            )
          : await this.#metadata.sendToAny(describeConfigsV2, input)
      if (answer.errorCode !== 0)
        throw brokerError('DescribeConfigs', answer.errorCode, `${type} '${name}'`, answer.errorMessage)
      return answer.entries
    })
  }

  /**
   * Waits until the leaders serve the partitions: a broker hears that it leads one a little before it opens the log, and
   * answers NOT_LEADER_OR_FOLLOWER in between.
   */
  async #served(names: readonly string[], options?: CallOptions): Promise<void> {
    const { topics } = await this.#retry.run('Metadata', options?.timeoutMs, () =>
      this.#metadata.fetch(names),
    )
    await this.#router.toLeaders({
      api: 'ListOffsets',
      partitions: topics.flatMap(({ topic, partitions }) =>
        partitions.map(({ partition }) => ({ topic, partition })),
      ),
      options,
      send: (address, partitions) =>
        this.#connections.send(address, 'prompt', listOffsetsV5, {
          isolation: 'read_uncommitted',
          partitions,
          timestamp: TIMESTAMP_LATEST,
        }),
      refused: ({ topic, partition }, errorCode) => ({ topic, partition, errorCode, offset: -1n }),
    })
  }

  /** Waits until every broker that can be reached sees the topics as they should be: each hears of a change at its own time. */
  async #everywhere(
    names: readonly string[],
    seen: (topic: MetadataTopic) => boolean,
    options?: CallOptions,
  ): Promise<void> {
    await this.#retry.run('Metadata', options?.timeoutMs, async () => {
      const brokers = await this.#metadata.brokers()
      const answers = await Promise.all([...brokers.values()].map((address) => this.#ask(address, names)))
      const late = answers.flat().find((topic) => !seen(topic))
      if (late !== undefined)
        throw brokerError(
          'Metadata',
          LEADER_NOT_AVAILABLE,
          `topic '${late.topic}'`,
          'a broker has not heard of the change yet',
        )
    })
  }

  async #ask(address: BrokerAddress, names: readonly string[]): Promise<readonly MetadataTopic[]> {
    try {
      return (await this.#connections.send(address, 'prompt', metadataV12, names)).topics
    } catch (error) {
      // A broker that is down hears of the change before it serves requests again.
      if (isRetriable(error) && error.code === 'MILLRACE_KAFKA_UNREACHABLE') return []
      throw error
    }
  }
}

function operationsIn({ operations: bits }: MetadataTopic): Pick<TopicDescription, 'operations'> {
  const operations = operationsOf(bits)
  return operations === undefined ? {} : { operations }
}

function hasLeaders({ errorCode, partitions }: MetadataTopic): boolean {
  return errorCode === 0 && partitions.every(({ leader }) => leader >= 0)
}

function controllerWait(remainingMs: number): number {
  return remainingMs === 0 ? CONTROLLER_WAIT_MS : Math.min(CONTROLLER_WAIT_MS, remainingMs)
}

function describe({ errorCode, topic, topicId, internal, partitions }: MetadataTopic): TopicDescription {
  if (errorCode !== 0) throw brokerError('Metadata', errorCode, `topic '${topic}'`)
  return {
    topic,
    topicId,
    internal,
    partitions: partitions
      .map(({ partition, leader, replicas, isr }) => ({ partition, leader, replicas, isr }))
      .sort((a, b) => a.partition - b.partition),
  }
}
