/**
 * What partition leaders do with Produce, Fetch, ListOffsets, DeleteRecords and DescribeProducers. A request names the node it was sent to:
 * a node that doesn't lead a partition says so (6), as after a moved leader.
 */
import type { Timers } from '../core/ports.ts'
import type {
  DescribedProducer,
  FetchedPartition,
  FetchRequest,
  IsolationLevel,
  ListedOffset,
  OffsetSpec,
  ProducedPartition,
  ProducePartition,
  ProduceRequest,
  TopicPartition,
} from '../kafka/kafka-cluster.ts'
import { readBatchHeader } from './plain-batch.ts'
import { BrokerCode, BrokerRefusal } from './simulated-broker-error.ts'
import type { MarkerFacts } from './simulated-log.ts'
import type { SimulatedPartition, SimulatedTopics } from './simulated-topics.ts'
import type { SimulatedTransactions } from './simulated-transactions.ts'

/** The data side of the simulated brokers. */
export class SimulatedBrokers {
  readonly #timers: Timers
  readonly #topics: SimulatedTopics
  readonly #transactions: SimulatedTransactions

  constructor(options: {
    readonly timers: Timers
    readonly topics: SimulatedTopics
    readonly transactions: SimulatedTransactions
  }) {
    this.#timers = options.timers
    this.#topics = options.topics
    this.#transactions = options.transactions
  }

  produce(node: number, request: ProduceRequest): ProducedPartition[] {
    return request.partitions.map((partition) => this.#append(node, request, partition))
  }

  /** Answers at once if there are bytes enough or an error, else after the next change that brings them, or after `maxWaitMs`. */
  fetch(node: number, request: FetchRequest): FetchedPartition[] | Promise<FetchedPartition[]> {
    const first = this.#read(node, request)
    const isEnough = (answer: FetchedPartition[]): boolean =>
      answer.some((partition) => partition.errorCode !== 0) ||
      answer.reduce((sum, partition) => sum + partition.records.length, 0) >= request.minBytes
    if (request.maxWaitMs <= 0 || isEnough(first)) return first
    return new Promise((resolve) => {
      const finish = (answer: FetchedPartition[]): void => {
        timer.cancel()
        for (const unwatch of unwatchers) unwatch()
        resolve(answer)
      }
      const timer = this.#timers.schedule(request.maxWaitMs, () => finish(this.#read(node, request)))
      const look = (): void => {
        const answer = this.#read(node, request)
        if (isEnough(answer)) finish(answer)
      }
      const logs = request.partitions.flatMap((partition) => this.#topics.partition(partition)?.log ?? [])
      const unwatchers = logs.map((log) => log.watch(look))
    })
  }

  listOffsets(
    partitions: readonly TopicPartition[],
    at: OffsetSpec,
    isolation: IsolationLevel,
  ): ListedOffset[] {
    return partitions.map(({ topic, partition }) => {
      const found = this.#topics.partition({ topic, partition })
      if (found === undefined) {
        return { topic, partition, errorCode: BrokerCode.UNKNOWN_TOPIC_OR_PARTITION, offset: -1n }
      }
      if (found.leader === -1)
        throw new BrokerRefusal(BrokerCode.LEADER_NOT_AVAILABLE, `${topic}-${partition}`)
      return { topic, partition, errorCode: 0, offset: found.log.offsetAt(at, isolation) }
    })
  }

  /** @throws BrokerRefusal with the first partition's code. */
  deleteRecords(partitions: readonly (TopicPartition & { readonly beforeOffset: bigint })[]): void {
    for (const partition of partitions) {
      const code = this.#ledPartition(partition).log.deleteRecords(partition.beforeOffset)
      if (code !== 0)
        throw new BrokerRefusal(
          code,
          `${partition.topic}-${partition.partition} before ${partition.beforeOffset}`,
        )
    }
  }

  describeProducers(partition: TopicPartition): DescribedProducer[] {
    return this.#ledPartition(partition).log.describeProducers()
  }

  /** For the transaction coordinator: false while the partition has no leader; a deleted topic needs no marker. */
  writeMarker(partition: TopicPartition, marker: MarkerFacts): boolean {
    const found = this.#topics.partition(partition)
    if (found === undefined) return true
    if (found.leader === -1) return false
    found.log.appendMarker(marker, found.leaderEpoch)
    return true
  }

  #ledPartition(partition: TopicPartition): SimulatedPartition {
    const found = this.#topics.partition(partition)
    const name = `${partition.topic}-${partition.partition}`
    if (found === undefined) throw new BrokerRefusal(BrokerCode.UNKNOWN_TOPIC_OR_PARTITION, name)
    if (found.leader === -1) throw new BrokerRefusal(BrokerCode.LEADER_NOT_AVAILABLE, name)
    return found
  }

  #append(
    node: number,
    request: ProduceRequest,
    { topic, partition, batch }: ProducePartition,
  ): ProducedPartition {
    const answer = (errorCode: number, errorMessage: string | null): ProducedPartition => ({
      topic,
      partition,
      errorCode,
      errorMessage,
      baseOffset: -1n,
    })
    const found = this.#topics.partition({ topic, partition })
    if (found === undefined) return answer(BrokerCode.UNKNOWN_TOPIC_OR_PARTITION, null)
    if (found.leader !== node) return answer(BrokerCode.NOT_LEADER, null)
    const replicas = found.replicas.filter((replica) => this.#topics.live.has(replica)).length
    if (request.acks === -1 && replicas < Number(this.#topics.get(topic)!.configs['min.insync.replicas'])) {
      return answer(BrokerCode.NOT_ENOUGH_REPLICAS, null)
    }
    const header = readBatchHeader(batch)
    if (header?.transactional && request.transactionalId === null) {
      return answer(
        BrokerCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        'A transactional batch came without a transactional id.',
      )
    }
    if (header?.transactional && !found.log.hasOpenTransaction(header.producerId, header.producerEpoch)) {
      const producer = {
        transactionalId: request.transactionalId ?? '',
        producerId: header.producerId,
        producerEpoch: header.producerEpoch,
      }
      const code = this.#transactions.verifyPartition(producer, { topic, partition })
      if (code !== 0)
        return answer(code, 'The partition is not part of an open transaction of this producer.')
    }
    return { topic, partition, ...found.log.append(batch, found.leaderEpoch) }
  }

  #read(node: number, request: FetchRequest): FetchedPartition[] {
    let left = request.maxBytes
    let any = false
    return request.partitions.map(({ topic, partition, offset, maxBytes }) => {
      const found = this.#topics.partition({ topic, partition })
      const code =
        found === undefined
          ? BrokerCode.UNKNOWN_TOPIC_OR_PARTITION
          : found.leader === node
            ? 0
            : BrokerCode.NOT_LEADER
      if (found === undefined || code !== 0) {
        return {
          topic,
          partition,
          errorCode: code,
          highWatermark: -1n,
          lastStableOffset: -1n,
          logStartOffset: -1n,
          abortedTransactions: [],
          records: Buffer.alloc(0),
        }
      }
      const { log } = found
      const slice = log.read(offset, Math.min(maxBytes, left), request.isolation, !any)
      left = Math.max(0, left - slice.records.length)
      any ||= slice.records.length > 0
      return {
        topic,
        partition,
        ...slice,
        highWatermark: log.highWatermark,
        lastStableOffset: log.lastStableOffset,
        logStartOffset: log.logStartOffset,
      }
    })
  }
}
