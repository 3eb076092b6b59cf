import { KafkaError } from '../../errors.ts'
import { KafkaCode, type KafkaConnectionConfig } from '../kafka-cluster.ts'
import { addressText, type BrokerAddress } from './broker-connection.ts'
import type { Connections } from './connections.ts'
import { brokerError, unreachable } from './error-codes.ts'
import type { RequestKind } from './request.ts'
import { type CoordinatorType, findCoordinatorV2 } from './requests/find-coordinator-v2.ts'
import { type Metadata, metadataV12 } from './requests/metadata-v12.ts'

/** Two refreshes for the same topic are at least this far apart, however often a caller asks again. */
const REFRESH_PAUSE_MS = 20

/**
 * What is known about the cluster: brokers, partition leaders, coordinators. Read from a cache; whoever finds an entry
 * wrong says so with one of the `forget` calls, and the next reader asks a broker.
 */
export class ClusterMetadata {
  readonly #connections: Connections
  readonly #bootstrap: readonly BrokerAddress[]
  readonly #brokers = new Map<number, BrokerAddress>()
  /** Leaders by partition, by topic. */
  readonly #leaders = new Map<string, ReadonlyMap<number, number>>()
  readonly #coordinators = new Map<string, number>()
  readonly #refreshes = new Map<string, Promise<void>>()
  readonly #refreshedAt = new Map<string, number>()
  #turn = Math.floor(Math.random() * 1024)

  constructor(config: KafkaConnectionConfig, connections: Connections) {
    this.#connections = connections
    this.#bootstrap = config.brokers.map(parseAddress)
  }

  /** Sends a request that any broker can answer to one that does. @throws KafkaError naming all brokers if none does. */
  async sendToAny<I, O>(request: RequestKind<I, O>, input: I): Promise<O> {
    const candidates = this.#candidates()
    let last: unknown
    for (const address of candidates) {
      try {
        return await this.#connections.send(address, 'prompt', request, input)
      } catch (error) {
        if (!(error instanceof KafkaError) || error.code !== 'MILLRACE_KAFKA_UNREACHABLE' || !error.retriable)
          throw error
        last = error.cause ?? error
      }
    }
    throw unreachable(request.api, candidates.map(addressText), last)
  }

  /** Asks a broker (any, or the one named) about topics, null for all, and remembers the leaders. */
  async fetch(topics: readonly string[] | null, from?: BrokerAddress): Promise<Metadata> {
    const metadata =
      from === undefined
        ? await this.sendToAny(metadataV12, topics)
        : await this.#connections.send(from, 'prompt', metadataV12, topics)
    if (metadata.brokers.length > 0) {
      this.#brokers.clear()
      for (const { nodeId, host, port } of metadata.brokers) this.#brokers.set(nodeId, { host, port })
    }
    for (const topic of metadata.topics) {
      if (topic.errorCode === 0)
        this.#leaders.set(
          topic.topic,
          new Map(topic.partitions.map(({ partition, leader }) => [partition, leader])),
        )
      else this.#leaders.delete(topic.topic)
    }
    return metadata
  }

  /**
   * Node id of a partition's leader; one round trip when it is not known. One attempt.
   * @throws KafkaError UNKNOWN_TOPIC_OR_PARTITION, or LEADER_NOT_AVAILABLE (retriable)
   */
  async leaderOf(topic: string, partition: number): Promise<number> {
    const known = this.knownLeader(topic, partition)
    if (known !== undefined) return known
    await this.#refresh(topic)
    const leader = this.#leaders.get(topic)?.get(partition)
    if (leader === undefined)
      throw brokerError(
        'Metadata',
        KafkaCode.UNKNOWN_TOPIC_OR_PARTITION,
        `topic '${topic}', partition ${partition}`,
      )
    if (leader < 0) {
      this.forgetLeaders(topic)
      throw brokerError('Metadata', LEADER_NOT_AVAILABLE, `topic '${topic}', partition ${partition}`)
    }
    return leader
  }

  /** The cached leader; undefined when a broker must be asked. */
  knownLeader(topic: string, partition: number): number | undefined {
    const leader = this.#leaders.get(topic)?.get(partition)
    return leader === undefined || leader < 0 ? undefined : leader
  }

  forgetLeaders(topic: string): void {
    this.#leaders.delete(topic)
  }

  /** The address of a node. @throws KafkaError, retriable, when the node is not known (any more). */
  async address(nodeId: number): Promise<BrokerAddress> {
    if (!this.#brokers.has(nodeId)) await this.fetch([])
    const address = this.#brokers.get(nodeId)
    if (address === undefined)
      throw unreachable('Metadata', [`node ${nodeId}`], new Error('no broker of this node id is alive'))
    return address
  }

  /** The address of a node if it is cached: the path of most requests needs no promise. */
  knownAddress(nodeId: number): BrokerAddress | undefined {
    return this.#brokers.get(nodeId)
  }

  /** All brokers that are alive, asked for now. */
  async brokers(): Promise<ReadonlyMap<number, BrokerAddress>> {
    await this.fetch([])
    return new Map(this.#brokers)
  }

  /** Node id of the coordinator of a group or a transactional id. One attempt. */
  async coordinatorOf(type: CoordinatorType, key: string): Promise<number> {
    const known = this.#coordinators.get(`${type} ${key}`)
    if (known !== undefined) return known
    const found = await this.sendToAny(findCoordinatorV2, { type, key })
    if (found.errorCode !== 0)
      throw brokerError(
        'FindCoordinator',
        found.errorCode,
        coordinatorResource(type, key),
        found.errorMessage,
      )
    this.#brokers.set(found.nodeId, { host: found.host, port: found.port })
    this.#coordinators.set(`${type} ${key}`, found.nodeId)
    return found.nodeId
  }

  forgetCoordinator(type: CoordinatorType, key: string): void {
    this.#coordinators.delete(`${type} ${key}`)
  }

  /** One refresh at a time for each topic; those who come while it runs wait for the same answer. */
  #refresh(topic: string): Promise<void> {
    let refresh = this.#refreshes.get(topic)
    if (refresh === undefined) {
      refresh = this.#fetchTopic(topic).finally(() => this.#refreshes.delete(topic))
      this.#refreshes.set(topic, refresh)
    }
    return refresh
  }

  async #fetchTopic(topic: string): Promise<void> {
    const wait = (this.#refreshedAt.get(topic) ?? 0) + REFRESH_PAUSE_MS - Date.now()
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait))
    const metadata = await this.fetch([topic])
    this.#refreshedAt.set(topic, Date.now())
    const code = metadata.topics[0]?.errorCode ?? KafkaCode.UNKNOWN_TOPIC_OR_PARTITION
    if (code !== 0 && code !== LEADER_NOT_AVAILABLE) throw brokerError('Metadata', code, `topic '${topic}'`)
  }

  /** Known brokers first, beginning with another one each time; then the configured ones, which may know newer ones. */
  #candidates(): readonly BrokerAddress[] {
    const known = [...this.#brokers.values()]
    const turn = this.#turn++
    const ordered = [...rotate(known, turn), ...rotate(this.#bootstrap, turn)]
    const seen = new Set<string>()
    return ordered.filter((address) => {
      const text = addressText(address)
      return !seen.has(text) && seen.add(text)
    })
  }
}

const LEADER_NOT_AVAILABLE = 5

/** How messages name a coordinator's key. */
export function coordinatorResource(type: CoordinatorType, key: string): string {
  return type === 'group' ? `group '${key}'` : `transactional id '${key}'`
}

function rotate<T>(values: readonly T[], by: number): readonly T[] {
  const from = values.length === 0 ? 0 : by % values.length
  return [...values.slice(from), ...values.slice(0, from)]
}

function parseAddress(text: string): BrokerAddress {
  const match = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(text.trim())
  const host = match?.[1] ?? match?.[2]
  if (host === undefined)
    throw unreachable('Connect', [text], new Error('an address is written host:port'), false)
  return { host, port: match?.[3] === undefined ? 9092 : Number(match[3]) }
}
