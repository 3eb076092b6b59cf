/**
 * Kafka in memory: brokers with logs, transactions, groups and time-outs, for simulations and for tests without a broker.
 *
 *   SimulatedKafka ──client(id)──► SimulatedClient (the KafkaCluster port)
 *        │                              │ calls
 *        │ faults                       ▼
 *        └────────► SimulatedNetwork ──► SimulatedControlPlane: topics + logs │ transactions │ groups
 *
 * Time comes only from the given clock and timers, chance only from the given random: with virtual time a run is a function of its seed.
 * The suite of kafka-cluster-contract.ts holds it to what real brokers do.
 */
import type { Clock, Random, Timers } from '../core/ports.ts'
import type { TopicPartition } from '../kafka/kafka-cluster.ts'
import { RealTime } from './real-time.ts'
import { SeededRandom } from './seeded-random.ts'
import { SimulatedCaller } from './simulated-call.ts'
import { SimulatedClient } from './simulated-client.ts'
import { SimulatedControlPlane } from './simulated-control-plane.ts'
import { type Interception, type MsRange, type SimulatedCall, SimulatedNetwork } from './simulated-network.ts'

/** Settings of a simulated cluster. */
export interface SimulatedKafkaOptions {
  readonly clock: Clock
  readonly timers: Timers
  readonly random: Random
  /** Nodes 1…n (default 1). */
  readonly brokers?: number
  /** Broker settings that differ from BROKER_DEFAULTS. */
  readonly configs?: Readonly<Record<string, string>>
  /** Of a message, one way (default 0–2 ms). */
  readonly latency?: MsRange
  /** Until a client sees that its connection is gone (default 5–50 ms). */
  readonly lossDetection?: MsRange
  /** From EndTxn to each marker (default 1–10 ms). */
  readonly markerDelay?: MsRange
  /** Decides the fate of each try of each call. */
  readonly intercept?: (call: SimulatedCall) => Interception
  /** Hears of each answer without an error that reaches its client. */
  readonly observe?: (call: SimulatedCall, answer: unknown) => void
}

/** An in-memory Kafka cluster. */
export class SimulatedKafka {
  readonly #options: SimulatedKafkaOptions
  readonly #network: SimulatedNetwork
  readonly #plane: SimulatedControlPlane

  constructor(options: SimulatedKafkaOptions) {
    this.#options = options
    const { clock, timers, random } = options
    this.#network = new SimulatedNetwork({
      timers,
      random,
      latency: options.latency ?? { minMs: 0, maxMs: 2 },
      lossDetection: options.lossDetection ?? { minMs: 5, maxMs: 50 },
    })
    this.#network.intercept = options.intercept
    this.#network.observe = options.observe
    this.#plane = new SimulatedControlPlane({
      clock,
      timers,
      random,
      brokers: options.brokers ?? 1,
      configs: options.configs ?? {},
      markerDelay: options.markerDelay ?? { minMs: 1, maxMs: 10 },
    })
  }

  /** A cluster on real time without latency, for unit tests. */
  static realTime(options: Omit<Partial<SimulatedKafkaOptions>, 'clock' | 'timers'> = {}): SimulatedKafka {
    const time = new RealTime()
    const random = new SeededRandom(1)
    return new SimulatedKafka({
      random,
      latency: { minMs: 0, maxMs: 0 },
      ...options,
      clock: time,
      timers: time,
    })
  }

  /** A client of its own connection; `clientId` is what interceptors and `isolate` know it by. */
  client(clientId: string): SimulatedClient {
    const { clock, timers, random } = this.#options
    const caller = new SimulatedCaller(clientId, { clock, timers, random, network: this.#network })
    return new SimulatedClient(caller, this.#plane)
  }

  /** What is inside, for invariants: logs, groups, transactions. */
  get inside(): SimulatedControlPlane {
    return this.#plane
  }

  /** Replaces the interceptor; undefined = everything passes. */
  intercept(interceptor: ((call: SimulatedCall) => Interception) | undefined): void {
    this.#network.intercept = interceptor
  }

  /** Nothing that this client sends or is answered arrives, until `reconnect`. */
  isolate(clientId: string): void {
    this.#network.isolate(clientId)
  }

  reconnect(clientId: string): void {
    this.#network.reconnect(clientId)
  }

  /** The broker is gone: its partitions get other leaders, coordinators load for `loadingMs`. What is stored stays. */
  stopBroker(nodeId: number, loadingMs = 200): void {
    this.#plane.topics.stopNode(nodeId)
    this.#plane.moveCoordinators(loadingMs)
  }

  startBroker(nodeId: number): void {
    this.#plane.topics.startNode(nodeId)
  }

  /** Coordinators move without a broker's death. */
  moveCoordinators(loadingMs = 200): void {
    this.#plane.moveCoordinators(loadingMs)
  }

  /** Makes another live replica the leader; clients find out by a refusal. */
  moveLeader(partition: TopicPartition, to?: number): void {
    this.#plane.topics.moveLeader(partition, to)
  }

  /** Runs the log cleaner over a topic. `withTombstones`: tombstones go too. */
  compact(topic: string, options: { readonly withTombstones?: boolean } = {}): void {
    for (const { log } of this.#plane.topics.get(topic)?.partitions ?? []) log.compact(options)
  }

  /** Drops what is older than the topic's retention.ms. */
  applyRetention(topic: string): void {
    for (const { log } of this.#plane.topics.get(topic)?.partitions ?? []) log.applyRetention()
  }

  /** Forgets empty groups without offsets: their generation starts at 1 again. */
  expireEmptyGroups(): void {
    this.#plane.groups.expireEmptyGroups()
  }

  /** Forgets transactional ids unused for transactional.id.expiration.ms. */
  expireTransactionalIds(): void {
    this.#plane.transactions.expireIds()
  }
}
