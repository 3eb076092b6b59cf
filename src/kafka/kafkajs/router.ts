import { KafkaError } from '../../errors.ts'
import { type CallOptions, KafkaCode, type TopicPartition } from '../kafka-cluster.ts'
import type { BrokerAddress } from './broker-connection.ts'
import { type ClusterMetadata, coordinatorResource } from './cluster-metadata.ts'
import type { Connections, RequestClass } from './connections.ts'
import { brokerError, isCoordinatorMoved, isLeaderMoved, isTransient } from './error-codes.ts'
import type { RequestKind } from './request.ts'
import type { CoordinatorType } from './requests/find-coordinator-v2.ts'
import { isRetriable, type Retry } from './retry.ts'

/** How long a partition that no broker knows is asked for again: a new one is not known everywhere at once. */
const UNKNOWN_PARTITION_MS = 3_000

/** What a broker refused, if it did. */
export interface Refusal {
  readonly code: number
  /** Named in the error; the coordinator's key by default. */
  readonly resource?: string
  readonly message?: string | null
}

/** A request to a coordinator, and how to see in its answer whether it was refused. */
export interface CoordinatorCall<I, O> {
  readonly type: CoordinatorType
  readonly key: string
  readonly request: RequestKind<I, O>
  readonly input: I
  readonly refusal: (output: O, tries: number) => Refusal | number
  readonly options?: CallOptions | undefined
  readonly kind?: RequestClass
  /** How long the broker may keep the request, beyond the usual time-out. */
  readonly waitMs?: number
}

/** A request about partitions, each answered by its leader. */
export interface LeaderCall<
  P extends TopicPartition,
  R extends TopicPartition & { readonly errorCode: number },
> {
  readonly api: string
  readonly partitions: readonly P[]
  readonly options?: CallOptions | undefined
  send(address: BrokerAddress, partitions: readonly P[], remainingMs: number): Promise<readonly R[]>
  /** The result of a partition that does not exist. */
  refused(partition: P, errorCode: number): R
}

/** Brings requests to the broker that can answer them: finds it, and finds it again when it has moved. */
export class Router {
  readonly #retry: Retry
  readonly #metadata: ClusterMetadata
  readonly #connections: Connections

  constructor(retry: Retry, metadata: ClusterMetadata, connections: Connections) {
    this.#retry = retry
    this.#metadata = metadata
    this.#connections = connections
  }

  /** Sends to the coordinator of a group or a transactional id until it answers without a passing error. */
  toCoordinator<I, O>({
    type,
    key,
    request,
    input,
    refusal,
    options,
    kind = 'prompt',
    waitMs = 0,
  }: CoordinatorCall<I, O>): Promise<O> {
    return this.#retry.run(request.api, options?.timeoutMs, async (_remaining, tries) => {
      let output: O
      try {
        const nodeId = await this.#metadata.coordinatorOf(type, key)
        const address = this.#metadata.knownAddress(nodeId) ?? (await this.#metadata.address(nodeId))
        output = await this.#connections.send(address, kind, request, input, waitMs)
      } catch (error) {
        this.#metadata.forgetCoordinator(type, key)
        throw error
      }
      const refused = refusal(output, tries)
      const {
        code,
        resource = coordinatorResource(type, key),
        message,
      } = typeof refused === 'number' ? { code: refused } : refused
      if (code === 0) return output
      if (isCoordinatorMoved(code)) this.#metadata.forgetCoordinator(type, key)
      throw brokerError(request.api, code, resource, message)
    })
  }

  /** Sends to the controller. The answer is judged by `accept`, which throws what is to be retried or reported. */
  toController<I, O>(
    request: RequestKind<I, O>,
    input: (remainingMs: number) => I,
    accept: (output: O, tries: number) => void,
    options?: CallOptions,
  ): Promise<void> {
    return this.#retry.run(request.api, options?.timeoutMs, async (remainingMs, tries) => {
      const { controllerId } = await this.#metadata.fetch([])
      const address = await this.#metadata.address(controllerId)
      accept(await this.#connections.send(address, 'prompt', request, input(remainingMs), remainingMs), tries)
    })
  }

  /**
   * Sends each partition's part to its leader, one request a leader, and again to the new leader where one has moved.
   * Results are in the order of the partitions. Codes that do not pass are in the results.
   */
  async toLeaders<P extends TopicPartition, R extends TopicPartition & { readonly errorCode: number }>(
    call: LeaderCall<P, R>,
  ): Promise<readonly R[]> {
    const results = new Map<string, R>()
    const begun = Date.now()
    await this.#retry.run(call.api, call.options?.timeoutMs, async (remainingMs) => {
      const waitForUnknown = remainingMs > 0 && Date.now() - begun < UNKNOWN_PARTITION_MS
      const failures: unknown[] = []
      const pending = call.partitions.filter((partition) => !results.has(keyOf(partition)))
      const groups = await this.#byLeader(pending, (partition, error) => {
        if (!waitForUnknown) results.set(keyOf(partition), call.refused(partition, error.brokerCode))
        else failures.push(error)
      })
      await Promise.all(
        [...groups].map(async ([nodeId, partitions]) => {
          try {
            const address = this.#metadata.knownAddress(nodeId) ?? (await this.#metadata.address(nodeId))
            for (const result of await call.send(address, partitions, remainingMs)) {
              const { errorCode, topic, partition } = result
              if (isLeaderMoved(errorCode)) this.#metadata.forgetLeaders(topic)
              if (
                isTransient(errorCode) ||
                (errorCode === KafkaCode.UNKNOWN_TOPIC_OR_PARTITION && waitForUnknown)
              ) {
                failures.push(brokerError(call.api, errorCode, `topic '${topic}', partition ${partition}`))
              } else results.set(keyOf(result), result)
            }
          } catch (error) {
            for (const { topic } of partitions) this.#metadata.forgetLeaders(topic)
            failures.push(error)
          }
        }),
      )
      const lasting = failures.find((error) => !isRetriable(error) && !isUnknownPartition(error))
      if (lasting !== undefined) throw lasting
      if (failures.length > 0) throw retriable(failures[0])
    })
    return call.partitions.map((partition) => results.get(keyOf(partition)) ?? call.refused(partition, -1))
  }

  async #byLeader<P extends TopicPartition>(
    partitions: readonly P[],
    unknown: (partition: P, error: KafkaError) => void,
  ): Promise<ReadonlyMap<number, P[]>> {
    const groups = new Map<number, P[]>()
    for (const partition of partitions) {
      let leader = this.#metadata.knownLeader(partition.topic, partition.partition)
      if (leader === undefined) {
        try {
          leader = await this.#metadata.leaderOf(partition.topic, partition.partition)
        } catch (error) {
          if (!isUnknownPartition(error)) throw error
          unknown(partition, error)
          continue
        }
      }
      const group = groups.get(leader)
      if (group === undefined) groups.set(leader, [partition])
      else group.push(partition)
    }
    return groups
  }
}

function keyOf({ topic, partition }: TopicPartition): string {
  return `${partition} ${topic}`
}

function isUnknownPartition(error: unknown): error is KafkaError {
  return error instanceof KafkaError && error.brokerCode === KafkaCode.UNKNOWN_TOPIC_OR_PARTITION
}

/** An unknown partition passes for a while, though Kafka has no code of its own for that. */
function retriable(error: unknown): unknown {
  if (!isUnknownPartition(error)) return error
  return new KafkaError(error.code, error.message, error, {
    cause: error,
    details: error.details,
    retriable: true,
  })
}
