import { KafkaError } from '../../errors.ts'
import type {
  CallOptions,
  DescribedProducer,
  FetchedPartition,
  FetchRequest,
  IsolationLevel,
  ListedOffset,
  OffsetSpec,
  ProducedPartition,
  ProduceRequest,
  TopicPartition,
} from '../kafka-cluster.ts'
import { KafkaCode } from '../kafka-cluster.ts'
import type { ClusterMetadata } from './cluster-metadata.ts'
import type { Connections } from './connections.ts'
import { brokerError, isLeaderMoved } from './error-codes.ts'
import { ProduceOrder } from './produce-order.ts'
import { deleteRecordsV1 } from './requests/delete-records-v1.ts'
import { describeProducersV0 } from './requests/describe-producers-v0.ts'
import { fetchV11 } from './requests/fetch-v11.ts'
import { listOffsetsV5, TIMESTAMP_EARLIEST, TIMESTAMP_LATEST } from './requests/list-offsets-v5.ts'
import { produceV8 } from './requests/produce-v8.ts'
import type { Retry } from './retry.ts'
import type { Router } from './router.ts'

/** How long the broker may wait for replicas before it says so; the request is then repeated. */
const REPLICA_WAIT_MS = 30_000
const NO_RECORDS = Buffer.alloc(0)

/** What partition leaders do: fetch, produce, offsets, deletion of records, producer states. */
export class PartitionLogs {
  readonly #retry: Retry
  readonly #metadata: ClusterMetadata
  readonly #connections: Connections
  readonly #router: Router
  readonly #order = new ProduceOrder()

  constructor(retry: Retry, metadata: ClusterMetadata, connections: Connections, router: Router) {
    this.#retry = retry
    this.#metadata = metadata
    this.#connections = connections
    this.#router = router
  }

  async fetch(request: FetchRequest): Promise<readonly FetchedPartition[]> {
    if (this.#retry.closed) throw this.#retry.closedError('Fetch')
    const [first] = request.partitions
    if (first === undefined) return []
    try {
      const leader =
        this.#metadata.knownLeader(first.topic, first.partition) ??
        (await this.#metadata.leaderOf(first.topic, first.partition))
      const address = this.#metadata.knownAddress(leader) ?? (await this.#metadata.address(leader))
      for (const { topic, partition } of request.partitions) {
        if (this.#metadata.knownLeader(topic, partition) === leader) continue
        throw brokerError(
          'Fetch',
          KafkaCode.NOT_LEADER,
          `topic '${topic}', partition ${partition}`,
          `node ${leader} does not lead it as it does partition ${first.partition} of '${first.topic}'`,
        )
      }
      const { errorCode, throttleMs, partitions } = await this.#connections.send(
        address,
        'waiting',
        fetchV11,
        request,
        request.maxWaitMs + REPLICA_WAIT_MS,
      )
      this.#connections.throttle(address, 'Fetch', throttleMs)
      if (errorCode !== 0) throw brokerError('Fetch', errorCode, `topic '${first.topic}'`)
      for (const part of partitions) {
        if (part.errorCode !== 0 && isLeaderMoved(part.errorCode)) this.#metadata.forgetLeaders(part.topic)
      }
      return partitions
    } catch (error) {
      if (this.#retry.closed) throw this.#retry.closedError('Fetch')
      for (const { topic } of request.partitions) this.#metadata.forgetLeaders(topic)
      if (error instanceof KafkaError && error.brokerCode === KafkaCode.UNKNOWN_TOPIC_OR_PARTITION)
        return request.partitions.map(notFetched)
      throw error
    }
  }

  produce(request: ProduceRequest): Promise<readonly ProducedPartition[]> {
    const { acks, transactionalId, partitions, timeoutMs } = request
    return this.#order.run(request, () =>
      this.#router.toLeaders({
        api: 'Produce',
        partitions,
        options: timeoutMs === undefined ? undefined : { timeoutMs },
        send: async (address, part) => {
          const answer = await this.#connections.send(
            address,
            'prompt',
            produceV8,
            { acks, transactionalId, timeoutMs: REPLICA_WAIT_MS, partitions: part },
            REPLICA_WAIT_MS,
          )
          this.#connections.throttle(address, 'Produce', answer.throttleMs)
          return answer.partitions.map((result) =>
            result.errorCode === KafkaCode.DUPLICATE_SEQUENCE_NUMBER ? { ...result, errorCode: 0 } : result,
          )
        },
        refused: ({ topic, partition }, errorCode) => ({
          topic,
          partition,
          errorCode,
          errorMessage: null,
          baseOffset: -1n,
        }),
      }),
    )
  }

  listOffsets(
    partitions: readonly TopicPartition[],
    at: OffsetSpec,
    isolation: IsolationLevel,
    options?: CallOptions,
  ): Promise<readonly ListedOffset[]> {
    const timestamp =
      at === 'latest' ? TIMESTAMP_LATEST : at === 'earliest' ? TIMESTAMP_EARLIEST : BigInt(at.timestamp)
    return this.#router.toLeaders({
      api: 'ListOffsets',
      partitions,
      options,
      send: (address, part) =>
        this.#connections.send(address, 'prompt', listOffsetsV5, { isolation, partitions: part, timestamp }),
      refused: ({ topic, partition }, errorCode) => ({ topic, partition, errorCode, offset: -1n }),
    })
  }

  async deleteRecords(
    partitions: readonly (TopicPartition & { readonly beforeOffset: bigint })[],
    options?: CallOptions,
  ): Promise<void> {
    const results = await this.#router.toLeaders({
      api: 'DeleteRecords',
      partitions,
      options,
      send: (address, part) =>
        this.#connections.send(
          address,
          'prompt',
          deleteRecordsV1,
          { partitions: part, timeoutMs: REPLICA_WAIT_MS },
          REPLICA_WAIT_MS,
        ),
      refused: ({ topic, partition }, errorCode) => ({ topic, partition, errorCode, lowWatermark: -1n }),
    })
    const refused = results.find(({ errorCode }) => errorCode !== 0)
    if (refused !== undefined)
      throw brokerError(
        'DeleteRecords',
        refused.errorCode,
        `topic '${refused.topic}', partition ${refused.partition}`,
      )
  }

  async describeProducers(
    partition: TopicPartition,
    options?: CallOptions,
  ): Promise<readonly DescribedProducer[]> {
    const [result] = await this.#router.toLeaders({
      api: 'DescribeProducers',
      partitions: [partition],
      options,
      send: async (address) => [
        {
          ...partition,
          ...(await this.#connections.send(address, 'prompt', describeProducersV0, partition)),
        },
      ],
      refused: ({ topic, partition: number }, errorCode) => ({
        topic,
        partition: number,
        errorCode,
        errorMessage: null,
        producers: [],
      }),
    })
    const code = result?.errorCode ?? -1
    if (code !== 0)
      throw brokerError(
        'DescribeProducers',
        code,
        `topic '${partition.topic}', partition ${partition.partition}`,
        result?.errorMessage,
      )
    return result?.producers ?? []
  }
}

function notFetched({ topic, partition }: TopicPartition): FetchedPartition {
  return {
    topic,
    partition,
    errorCode: KafkaCode.UNKNOWN_TOPIC_OR_PARTITION,
    highWatermark: -1n,
    lastStableOffset: -1n,
    logStartOffset: -1n,
    abortedTransactions: [],
    records: NO_RECORDS,
  }
}
