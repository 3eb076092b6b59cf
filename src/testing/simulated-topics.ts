/**
 * Topics, partitions, replicas and leaders of the simulated brokers.
 *
 * A broker that stops gives its partitions to the next live replica under a higher leader epoch; nothing stored is lost. Without a live
 * replica a partition has no leader until one comes back.
 */
import type { Clock, Random } from '../core/ports.ts'
import type { NewTopic, TopicDescription, TopicPartition } from '../kafka/kafka-cluster.ts'
import { BrokerCode, BrokerRefusal } from './simulated-broker-error.ts'
import { type LogSettings, SimulatedLog } from './simulated-log.ts'

const LEGAL_NAME = /^[a-zA-Z0-9._-]{1,249}$/

/** Kafka's defaults of the topic settings that the simulation knows. */
const TOPIC_DEFAULTS: Readonly<Record<string, string>> = {
  'cleanup.policy': 'delete',
  'compression.type': 'producer',
  'delete.retention.ms': '86400000',
  'max.message.bytes': '1048588',
  'message.timestamp.type': 'CreateTime',
  'min.insync.replicas': '1',
  'retention.bytes': '-1',
  'retention.ms': '604800000',
  'segment.bytes': '1073741824',
  'segment.ms': '604800000',
}

/** Topic settings that Kafka knows and the simulation takes but doesn't obey. */
const IGNORED_SETTINGS: readonly string[] = [
  'file.delete.delay.ms',
  'flush.messages',
  'flush.ms',
  'index.interval.bytes',
  'max.compaction.lag.ms',
  'message.timestamp.after.max.ms',
  'message.timestamp.before.max.ms',
  'min.cleanable.dirty.ratio',
  'min.compaction.lag.ms',
  'preallocate',
  'segment.index.bytes',
  'segment.jitter.ms',
  'unclean.leader.election.enable',
]

/** One partition: its log and who leads it. */
export interface SimulatedPartition {
  readonly log: SimulatedLog
  readonly replicas: readonly number[]
  leader: number
  leaderEpoch: number
}

/** One topic. */
export interface SimulatedTopic {
  readonly name: string
  readonly topicId: string
  readonly replicationFactor: number
  readonly configs: Readonly<Record<string, string>>
  readonly partitions: SimulatedPartition[]
}

/** The topics of a cluster of brokers 1…n. */
export class SimulatedTopics {
  readonly #clock: Clock
  readonly #random: Random
  readonly #topics = new Map<string, SimulatedTopic>()
  readonly #brokerConfigs: Readonly<Record<string, string>>
  /** Every node id, and those that run. */
  readonly nodes: readonly number[]
  readonly live: Set<number>

  constructor(options: {
    readonly clock: Clock
    readonly random: Random
    readonly brokers: number
    readonly configs: Readonly<Record<string, string>>
  }) {
    this.#clock = options.clock
    this.#random = options.random
    this.#brokerConfigs = options.configs
    this.nodes = Array.from({ length: options.brokers }, (_, index) => index + 1)
    this.live = new Set(this.nodes)
  }

  names(): string[] {
    return [...this.#topics.keys()]
  }

  get(name: string): SimulatedTopic | undefined {
    return this.#topics.get(name)
  }

  partition({ topic, partition }: TopicPartition): SimulatedPartition | undefined {
    return this.#topics.get(topic)?.partitions[partition]
  }

  /** Creates nothing. @throws BrokerRefusal 36 when it exists, 17, 37, 38 or 40 when it can't be. */
  check(request: NewTopic): { readonly partitions: number; readonly replicationFactor: number } {
    const { topic: name } = request
    if (this.#topics.has(name)) throw new BrokerRefusal(BrokerCode.TOPIC_ALREADY_EXISTS, name)
    if (!LEGAL_NAME.test(name) || name === '.' || name === '..')
      throw new BrokerRefusal(BrokerCode.INVALID_TOPIC, name)
    const partitions =
      request.partitions === -1 ? Number(this.#brokerConfigs['num.partitions']) : request.partitions
    const replicationFactor =
      request.replicationFactor === -1
        ? Number(this.#brokerConfigs['default.replication.factor'])
        : request.replicationFactor
    if (partitions < 1) throw new BrokerRefusal(BrokerCode.INVALID_PARTITIONS, `${partitions} partitions`)
    if (replicationFactor < 1 || replicationFactor > this.live.size) {
      throw new BrokerRefusal(
        BrokerCode.INVALID_REPLICATION_FACTOR,
        `${replicationFactor} of ${this.live.size} brokers`,
      )
    }
    const unknown = Object.keys(request.configs ?? {}).find(
      (key) => TOPIC_DEFAULTS[key] === undefined && !IGNORED_SETTINGS.includes(key),
    )
    if (unknown !== undefined) throw new BrokerRefusal(BrokerCode.INVALID_CONFIG, unknown)
    return { partitions, replicationFactor }
  }

  /** Those that exist stay as they are. @throws BrokerRefusal as `check` does. */
  createMissing(requests: readonly NewTopic[], validateOnly: boolean): void {
    for (const request of requests) {
      if (this.#topics.has(request.topic)) continue
      if (validateOnly) this.check(request)
      else this.create(request)
    }
  }

  /** @throws BrokerRefusal as `check` does. */
  create(request: NewTopic): void {
    const { topic: name } = request
    const { partitions, replicationFactor } = this.check(request)
    const topic: SimulatedTopic = {
      name,
      topicId: Buffer.from(this.#random.uuid().replaceAll('-', ''), 'hex').toString('base64url'),
      replicationFactor,
      configs: { ...TOPIC_DEFAULTS, ...request.configs },
      partitions: [],
    }
    this.#topics.set(name, topic)
    this.#addPartitions(topic, partitions)
  }

  /** @throws BrokerRefusal 3. */
  delete(name: string): void {
    const topic = this.#topics.get(name)
    if (topic === undefined) throw new BrokerRefusal(BrokerCode.UNKNOWN_TOPIC_OR_PARTITION, name)
    this.#topics.delete(name)
    for (const { log } of topic.partitions) log.wake()
  }

  /** @throws BrokerRefusal 3, or 37 when it isn't more than there are. */
  growTo(name: string, total: number): void {
    const topic = this.#topics.get(name)
    if (topic === undefined) throw new BrokerRefusal(BrokerCode.UNKNOWN_TOPIC_OR_PARTITION, name)
    if (total <= topic.partitions.length) {
      throw new BrokerRefusal(
        BrokerCode.INVALID_PARTITIONS,
        `${name} has ${topic.partitions.length} partitions already`,
      )
    }
    this.#addPartitions(topic, total)
  }

  describe(names: readonly string[]): TopicDescription[] {
    return names.flatMap((name) => {
      const topic = this.#topics.get(name)
      if (topic === undefined) return []
      const partitions = topic.partitions.map(({ leader, replicas }, partition) => ({
        partition,
        leader,
        replicas,
        isr: replicas.filter((node) => this.live.has(node)),
      }))
      return [{ topic: name, topicId: topic.topicId, internal: false, partitions }]
    })
  }

  /** Makes another live replica the leader. */
  moveLeader(partition: TopicPartition, to?: number): void {
    const found = this.partition(partition)
    if (found === undefined) throw new BrokerRefusal(BrokerCode.UNKNOWN_TOPIC_OR_PARTITION, partition.topic)
    const next = to ?? found.replicas.find((node) => node !== found.leader && this.live.has(node))
    if (next === undefined || !found.replicas.includes(next)) {
      throw new BrokerRefusal(
        BrokerCode.INVALID_REQUEST,
        `no replica of ${partition.topic}-${partition.partition} can lead`,
      )
    }
    this.#lead(found, next)
  }

  /** The broker's partitions go to other replicas. */
  stopNode(nodeId: number): void {
    this.live.delete(nodeId)
    for (const { partitions } of this.#topics.values()) {
      for (const partition of partitions) {
        if (partition.leader !== nodeId) continue
        this.#lead(partition, partition.replicas.find((node) => this.live.has(node)) ?? -1)
      }
    }
  }

  /** Partitions without a leader get this one if it has a replica. */
  startNode(nodeId: number): void {
    this.live.add(nodeId)
    for (const { partitions } of this.#topics.values()) {
      for (const partition of partitions) {
        if (partition.leader === -1 && partition.replicas.includes(nodeId)) this.#lead(partition, nodeId)
      }
    }
  }

  #lead(partition: SimulatedPartition, node: number): void {
    if (partition.leader === node) return
    partition.leader = node
    partition.leaderEpoch++
    partition.log.wake()
  }

  #addPartitions(topic: SimulatedTopic, total: number): void {
    const settings = (): LogSettings => ({
      maxMessageBytes: Number(topic.configs['max.message.bytes']),
      compacted: topic.configs['cleanup.policy']!.includes('compact'),
      logAppendTime: topic.configs['message.timestamp.type'] === 'LogAppendTime',
      retentionMs: Number(topic.configs['retention.ms']),
    })
    const live = this.nodes.filter((node) => this.live.has(node))
    while (topic.partitions.length < total) {
      const first = topic.partitions.length
      const replicas = Array.from(
        { length: topic.replicationFactor },
        (_, i) => live[(first + i) % live.length]!,
      )
      const log = new SimulatedLog(settings, () => this.#clock.now())
      topic.partitions.push({ log, replicas, leader: replicas[0]!, leaderEpoch: 0 })
    }
  }
}
