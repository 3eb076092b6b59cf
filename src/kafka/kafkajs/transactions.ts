import type {
  CallOptions,
  DescribedTransaction,
  GroupOffsetCommit,
  ListedTransaction,
  ProducerIdentity,
  TopicPartition,
} from '../kafka-cluster.ts'
import { KafkaCode } from '../kafka-cluster.ts'
import type { ClusterMetadata } from './cluster-metadata.ts'
import type { Connections } from './connections.ts'
import { brokerError } from './error-codes.ts'
import { addOffsetsToTxnV1 } from './requests/add-offsets-to-txn-v1.ts'
import { addPartitionsToTxnV1 } from './requests/add-partitions-to-txn-v1.ts'
import { describeTransactionsV0 } from './requests/describe-transactions-v0.ts'
import { endTxnV1 } from './requests/end-txn-v1.ts'
import { initProducerIdV4 } from './requests/init-producer-id-v4.ts'
import { listTransactionsV0 } from './requests/list-transactions-v0.ts'
import { txnOffsetCommitV2 } from './requests/txn-offset-commit-v2.ts'
import type { Retry } from './retry.ts'
import type { Refusal, Router } from './router.ts'

const OPERATION_NOT_ATTEMPTED = 55
const NO_PRODUCER = { producerId: -1n, producerEpoch: -1 } as const

/** What transaction coordinators do. Every request names the whole identity, so it means the same when it is repeated. */
export class Transactions {
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

  async initProducerId(
    request: {
      readonly transactionalId: string
      readonly transactionTimeoutMs: number
      readonly expected?: { readonly producerId: bigint; readonly producerEpoch: number }
    },
    options?: CallOptions,
  ): Promise<ProducerIdentity> {
    const { transactionalId, transactionTimeoutMs, expected } = request
    const { producerId, producerEpoch } = await this.#router.toCoordinator({
      type: 'transaction',
      key: transactionalId,
      request: initProducerIdV4,
      input: { transactionalId, transactionTimeoutMs, ...(expected ?? NO_PRODUCER) },
      refusal: ({ errorCode }) => errorCode,
      options,
    })
    return { transactionalId, producerId, producerEpoch }
  }

  async addPartitionsToTxn(
    producer: ProducerIdentity,
    partitions: readonly TopicPartition[],
    options?: CallOptions,
  ): Promise<void> {
    if (partitions.length === 0) return
    await this.#router.toCoordinator({
      type: 'transaction',
      key: producer.transactionalId,
      request: addPartitionsToTxnV1,
      input: { producer, partitions },
      refusal: (results) => firstRefusal(results),
      options,
    })
  }

  async addOffsetsToTxn(producer: ProducerIdentity, groupId: string, options?: CallOptions): Promise<void> {
    await this.#router.toCoordinator({
      type: 'transaction',
      key: producer.transactionalId,
      request: addOffsetsToTxnV1,
      input: { producer, groupId },
      refusal: ({ errorCode }) =>
        errorCode === KafkaCode.GROUP_AUTHORIZATION_FAILED
          ? { code: errorCode, resource: `group '${groupId}'` }
          : errorCode,
      options,
    })
  }

  async txnOffsetCommit(
    producer: ProducerIdentity,
    groupId: string,
    offsets: readonly GroupOffsetCommit[],
    options?: CallOptions,
  ): Promise<void> {
    if (offsets.length === 0) return
    await this.#router.toCoordinator({
      type: 'group',
      key: groupId,
      request: txnOffsetCommitV2,
      input: { producer, groupId, offsets },
      refusal: (results) => firstRefusal(results, `group '${groupId}'`),
      options,
    })
  }

  async endTxn(producer: ProducerIdentity, result: 'commit' | 'abort', options?: CallOptions): Promise<void> {
    await this.#router.toCoordinator({
      type: 'transaction',
      key: producer.transactionalId,
      request: endTxnV1,
      input: { producer, commit: result === 'commit' },
      refusal: ({ errorCode }) => errorCode,
      options,
    })
  }

  listTransactions(options?: CallOptions): Promise<readonly ListedTransaction[]> {
    return this.#retry.run('ListTransactions', options?.timeoutMs, async () => {
      const brokers = await this.#metadata.brokers()
      const answers = await Promise.all(
        [...brokers.values()].map((address) =>
          this.#connections.send(address, 'prompt', listTransactionsV0, undefined),
        ),
      )
      const refused = answers.find(({ errorCode }) => errorCode !== 0)
      if (refused !== undefined) throw brokerError('ListTransactions', refused.errorCode, 'the cluster')
      return answers.flatMap(({ transactions }) => transactions)
    })
  }

  async describeTransactions(
    transactionalIds: readonly string[],
    options?: CallOptions,
  ): Promise<readonly DescribedTransaction[]> {
    const answers = await Promise.all(
      transactionalIds.map((id) =>
        this.#router.toCoordinator({
          type: 'transaction',
          key: id,
          request: describeTransactionsV0,
          input: [id],
          refusal: ([described]) =>
            described?.errorCode === KafkaCode.TRANSACTIONAL_ID_NOT_FOUND ? 0 : (described?.errorCode ?? -1),
          options,
        }),
      ),
    )
    return answers.flat()
  }
}

/** The first code that says why; the other partitions only say that nothing was done about them. */
function firstRefusal(
  results: readonly (TopicPartition & { readonly errorCode: number })[],
  also = '',
): Refusal | number {
  const refused = results.filter(({ errorCode }) => errorCode !== 0)
  const first = refused.find(({ errorCode }) => errorCode !== OPERATION_NOT_ATTEMPTED) ?? refused[0]
  if (first === undefined) return 0
  return {
    code: first.errorCode,
    resource: `topic '${first.topic}', partition ${first.partition}${also === '' ? '' : `, ${also}`}`,
  }
}
