/**
 * The simulated cluster's controller and coordinators in one place: what its clients talk to, and what faults act on.
 */
import type { Clock, Random, Timers } from '../core/ports.ts'
import type {
  ClusterDescription,
  ConfigEntry,
  GroupOffsetCommit,
  ProducerIdentity,
} from '../kafka/kafka-cluster.ts'
import { BrokerCode, BrokerRefusal } from './simulated-broker-error.ts'
import { SimulatedBrokers } from './simulated-brokers.ts'
import { SimulatedGroups } from './simulated-groups.ts'
import { drawMs, type MsRange } from './simulated-network.ts'
import { SimulatedTopics } from './simulated-topics.ts'
import { SimulatedTransactions } from './simulated-transactions.ts'

/** Broker settings that the simulation obeys, at Kafka's defaults but for the first two, which suit tests. */
export const BROKER_DEFAULTS: Readonly<Record<string, string>> = {
  'auto.create.topics.enable': 'false',
  'group.initial.rebalance.delay.ms': '0',
  'default.replication.factor': '1',
  'group.max.session.timeout.ms': '1800000',
  'group.min.session.timeout.ms': '6000',
  'message.max.bytes': '1048588',
  'min.insync.replicas': '1',
  'num.partitions': '1',
  'offsets.retention.minutes': '10080',
  'producer.id.expiration.ms': '86400000',
  'transaction.abort.timed.out.transaction.cleanup.interval.ms': '10000',
  'transaction.max.timeout.ms': '900000',
  'transactional.id.expiration.ms': '604800000',
}

/** The parts of the cluster, wired. */
export class SimulatedControlPlane {
  readonly topics: SimulatedTopics
  readonly groups: SimulatedGroups
  readonly transactions: SimulatedTransactions
  readonly brokers: SimulatedBrokers
  readonly configs: Readonly<Record<string, string>>
  readonly #clock: Clock
  readonly #clusterId: string
  #coordinatorsBackAt = Number.NEGATIVE_INFINITY

  constructor(options: {
    readonly clock: Clock
    readonly timers: Timers
    readonly random: Random
    readonly brokers: number
    readonly configs: Readonly<Record<string, string>>
    readonly markerDelay: MsRange
  }) {
    const { clock, timers, random } = options
    const configs = { ...BROKER_DEFAULTS, ...options.configs }
    this.configs = configs
    this.#clock = clock
    this.#clusterId = random.uuid()
    this.topics = new SimulatedTopics({ clock, random, brokers: options.brokers, configs })
    this.groups = new SimulatedGroups({ timers, random, configs })
    this.transactions = new SimulatedTransactions({
      clock,
      timers,
      configs,
      markerDelayMs: () => drawMs(random, options.markerDelay),
      partitionExists: (partition) => this.topics.partition(partition) !== undefined,
      writeMarker: (partition, marker) => this.brokers.writeMarker(partition, marker),
      endGroupTransaction: (groupId, producerId, commit) =>
        this.groups.endTransaction(groupId, producerId, commit),
    })
    this.brokers = new SimulatedBrokers({ timers, topics: this.topics, transactions: this.transactions })
  }

  /** A node that runs; the first one when none does. */
  anyNode(): number {
    return this.topics.nodes.find((node) => this.topics.live.has(node)) ?? this.topics.nodes[0]!
  }

  describeCluster(): ClusterDescription {
    const brokers = this.topics.nodes
      .filter((node) => this.topics.live.has(node))
      .map((nodeId) => ({ nodeId, host: `simulated-${nodeId}`, port: 9092 }))
    return { clusterId: this.#clusterId, controllerId: this.anyNode(), brokers }
  }

  /** Settings by name, sorted as asked for; unknown names are left out. @throws BrokerRefusal 3. */
  describeConfigs(
    resource: { type: 'topic' | 'broker'; name: string },
    names: readonly string[],
  ): ConfigEntry[] {
    const configs = resource.type === 'broker' ? this.configs : this.topics.get(resource.name)?.configs
    if (configs === undefined) throw new BrokerRefusal(BrokerCode.UNKNOWN_TOPIC_OR_PARTITION, resource.name)
    return names.flatMap((name) => (configs[name] === undefined ? [] : [{ name, value: configs[name] }]))
  }

  deleteTopic(name: string): void {
    this.topics.delete(name)
    this.groups.forgetTopic(name)
  }

  txnOffsetCommit(producer: ProducerIdentity, groupId: string, offsets: readonly GroupOffsetCommit[]): void {
    this.transactions.verifyGroup(producer, groupId)
    const missing = offsets.find((commit) => this.topics.partition(commit) === undefined)
    if (missing !== undefined) {
      throw new BrokerRefusal(BrokerCode.UNKNOWN_TOPIC_OR_PARTITION, `${missing.topic}-${missing.partition}`)
    }
    this.groups.addPendingOffsets(groupId, producer.producerId, producer.producerEpoch, offsets)
  }

  /** The coordinators move to other brokers and load for so long; sessions start afresh and markers carry a higher coordinator epoch. */
  moveCoordinators(loadingMs: number): void {
    this.#coordinatorsBackAt = Math.max(this.#coordinatorsBackAt, this.#clock.now() + loadingMs)
    this.transactions.reload()
    this.groups.reloadSessions()
  }

  /** @throws BrokerRefusal 14 while the coordinators load. */
  checkCoordinators(): void {
    if (this.#clock.now() < this.#coordinatorsBackAt)
      throw new BrokerRefusal(BrokerCode.COORDINATOR_LOAD_IN_PROGRESS)
  }
}
