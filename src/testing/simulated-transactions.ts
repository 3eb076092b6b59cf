/**
 * The transaction coordinator, under the rules for clients that send EndTxn v0–v4 (an end doesn't move the epoch).
 *
 *   Empty ──AddPartitions──► Ongoing ──EndTxn──► PrepareCommit ──all markers──► CompleteCommit ──AddPartitions──► Ongoing …
 *                               │    └─EndTxn──► PrepareAbort ───all markers──► CompleteAbort ──┘
 *                               └─ bare InitProducerId, or time-out: epoch + 1, then PrepareAbort
 *
 * While markers are on their way everything but a repeated question is answered CONCURRENT_TRANSACTIONS (51).
 * Markers reach each partition at a time of its own: a reader may see half of a commit.
 */
import type { Clock, Timers } from '../core/ports.ts'
import type {
  DescribedTransaction,
  ListedTransaction,
  ProducerIdentity,
  TopicPartition,
  TransactionState,
} from '../kafka/kafka-cluster.ts'
import { BrokerCode, BrokerRefusal } from './simulated-broker-error.ts'
import type { MarkerFacts } from './simulated-log.ts'

const NO_EPOCH = -1
/** An epoch from which on the next InitProducerId gives a new producer id. */
const LAST_EPOCH = 32766
const OFFSETS_PARTITIONS = 50

interface Transaction {
  readonly transactionalId: string
  producerId: bigint
  epoch: number
  lastProducerId: bigint
  /** The epoch before the last compare-and-set or fence: a compare-and-set with it gets the present one. -1 after a bare InitProducerId. */
  lastEpoch: number
  timeoutMs: number
  state: TransactionState
  readonly partitions: Map<string, TopicPartition>
  readonly groups: Set<string>
  startMs: number
  updatedMs: number
}

/** Partition of the offsets topic that holds a group, by Java's String.hashCode. */
function offsetsPartition(groupId: string): TopicPartition {
  let hash = 0
  for (let i = 0; i < groupId.length; i++) hash = (Math.imul(hash, 31) + groupId.charCodeAt(i)) | 0
  return { topic: '__consumer_offsets', partition: (hash & 0x7fffffff) % OFFSETS_PARTITIONS }
}

/** What the coordinator needs of the rest of the cluster. */
export interface TransactionSurroundings {
  readonly clock: Clock
  readonly timers: Timers
  readonly configs: Readonly<Record<string, string>>
  /** Milliseconds until a marker is written. */
  markerDelayMs(): number
  partitionExists(partition: TopicPartition): boolean
  /** False when the partition has no leader now: it is tried again. */
  writeMarker(partition: TopicPartition, marker: MarkerFacts): boolean
  endGroupTransaction(groupId: string, producerId: bigint, commit: boolean): void
}

/** All transactional ids of the cluster. */
export class SimulatedTransactions {
  readonly #around: TransactionSurroundings
  readonly #transactions = new Map<string, Transaction>()
  #nextProducerId = 1000n
  #coordinatorEpoch = 0
  #scanning = false

  constructor(surroundings: TransactionSurroundings) {
    this.#around = surroundings
  }

  /** InitProducerId v4. @throws BrokerRefusal 50, 51 while a transaction ends, 90 when `expected` isn't the holder. */
  init(request: {
    readonly transactionalId: string
    readonly transactionTimeoutMs: number
    readonly expected?: { readonly producerId: bigint; readonly producerEpoch: number }
  }): ProducerIdentity {
    const { transactionalId, transactionTimeoutMs, expected } = request
    if (
      transactionTimeoutMs <= 0 ||
      transactionTimeoutMs > Number(this.#around.configs['transaction.max.timeout.ms'])
    ) {
      throw new BrokerRefusal(BrokerCode.INVALID_TRANSACTION_TIMEOUT, `${transactionTimeoutMs} ms`)
    }
    const transaction = this.#transactions.get(transactionalId) ?? this.#create(transactionalId)
    if (expected !== undefined && !this.#isHolder(transaction, expected))
      throw new BrokerRefusal(BrokerCode.PRODUCER_FENCED)
    switch (transaction.state) {
      case 'PrepareCommit':
      case 'PrepareAbort':
        throw new BrokerRefusal(BrokerCode.CONCURRENT_TRANSACTIONS)
      case 'Ongoing':
        // The caller comes again when the abort is through, and gets the epoch after the fencing one.
        this.#fence(transaction)
        throw new BrokerRefusal(BrokerCode.CONCURRENT_TRANSACTIONS)
      default:
        this.#bump(transaction, expected?.producerEpoch)
    }
    transaction.timeoutMs = transactionTimeoutMs
    this.#move(transaction, 'Empty')
    return { transactionalId, producerId: transaction.producerId, producerEpoch: transaction.epoch }
  }

  /** @throws BrokerRefusal 49, 47, 51; 3 when a partition doesn't exist. */
  addPartitions(producer: ProducerIdentity, partitions: readonly TopicPartition[]): void {
    const transaction = this.#held(producer)
    const missing = partitions.find((partition) => !this.#around.partitionExists(partition))
    if (missing !== undefined) {
      throw new BrokerRefusal(BrokerCode.UNKNOWN_TOPIC_OR_PARTITION, `${missing.topic}-${missing.partition}`)
    }
    if (partitions.length > 0) this.#begin(transaction)
    for (const { topic, partition } of partitions)
      transaction.partitions.set(`${topic}/${partition}`, { topic, partition })
  }

  addGroup(producer: ProducerIdentity, groupId: string): void {
    const transaction = this.#held(producer)
    this.#begin(transaction)
    transaction.groups.add(groupId)
  }

  /** EndTxn v1; see the picture. @throws BrokerRefusal 49, 47, 48, 51. */
  end(producer: ProducerIdentity, result: 'commit' | 'abort'): void {
    const transaction = this.#known(producer)
    const commit = result === 'commit'
    switch (transaction.state) {
      case 'Ongoing':
        this.#complete(transaction, commit)
        return
      case 'CompleteCommit':
      case 'CompleteAbort':
        if ((transaction.state === 'CompleteCommit') === commit) return
        throw new BrokerRefusal(BrokerCode.INVALID_TXN_STATE, `${result} in state ${transaction.state}`)
      case 'PrepareCommit':
      case 'PrepareAbort':
        throw new BrokerRefusal(
          (transaction.state === 'PrepareCommit') === commit
            ? BrokerCode.CONCURRENT_TRANSACTIONS
            : BrokerCode.INVALID_TXN_STATE,
        )
      default:
        throw new BrokerRefusal(BrokerCode.INVALID_TXN_STATE, `${result} in state ${transaction.state}`)
    }
  }

  /** Partition leaders ask this before the first batch of a transaction (verification, Kafka 3.6+). Gives the error code. */
  verifyPartition(producer: ProducerIdentity, partition: TopicPartition): number {
    const transaction = this.#transactions.get(producer.transactionalId)
    if (transaction === undefined || transaction.producerId !== producer.producerId)
      return BrokerCode.INVALID_PRODUCER_ID_MAPPING
    if (transaction.epoch !== producer.producerEpoch) return BrokerCode.INVALID_PRODUCER_EPOCH
    const added =
      transaction.state === 'Ongoing' &&
      transaction.partitions.has(`${partition.topic}/${partition.partition}`)
    return added ? BrokerCode.NONE : BrokerCode.INVALID_TXN_STATE
  }

  /** The same for the group coordinator. @throws BrokerRefusal. */
  verifyGroup(producer: ProducerIdentity, groupId: string): void {
    const transaction = this.#known(producer)
    if (transaction.state !== 'Ongoing' || !transaction.groups.has(groupId))
      throw new BrokerRefusal(BrokerCode.INVALID_TXN_STATE)
  }

  list(): ListedTransaction[] {
    return [...this.#transactions.values()].map(({ transactionalId, producerId, state }) => ({
      transactionalId,
      producerId,
      state,
    }))
  }

  describe(transactionalId: string): DescribedTransaction {
    const transaction = this.#transactions.get(transactionalId)
    if (transaction === undefined) {
      return {
        transactionalId,
        errorCode: BrokerCode.TRANSACTIONAL_ID_NOT_FOUND,
        producerId: 0n,
        producerEpoch: 0,
        state: 'Unknown',
        timeoutMs: 0,
        startTimeMs: -1n,
        partitions: [],
      }
    }
    return {
      transactionalId,
      errorCode: 0,
      producerId: transaction.producerId,
      producerEpoch: transaction.epoch,
      state: transaction.state,
      timeoutMs: transaction.timeoutMs,
      startTimeMs: transaction.startMs < 0 ? -1n : BigInt(transaction.startMs),
      partitions: [...transaction.partitions.values(), ...[...transaction.groups].map(offsetsPartition)],
    }
  }

  /** Moves an id to an epoch, so that a test can reach the end of the epochs quickly. */
  setEpoch(transactionalId: string, epoch: number): void {
    const transaction = this.#transactions.get(transactionalId)
    if (transaction === undefined) throw new BrokerRefusal(BrokerCode.TRANSACTIONAL_ID_NOT_FOUND)
    transaction.epoch = epoch
  }

  /** The coordinators moved: their markers carry a higher coordinator epoch from now on. */
  reload(): void {
    this.#coordinatorEpoch++
  }

  /** Forgets ids that were not used for transactional.id.expiration.ms, as the broker does every hour. */
  expireIds(): void {
    const oldest = this.#around.clock.now() - Number(this.#around.configs['transactional.id.expiration.ms'])
    for (const [id, { state, updatedMs }] of this.#transactions) {
      const idle = state === 'Empty' || state === 'CompleteCommit' || state === 'CompleteAbort'
      if (idle && updatedMs <= oldest) this.#transactions.delete(id)
    }
  }

  #create(transactionalId: string): Transaction {
    const transaction: Transaction = {
      transactionalId,
      producerId: this.#nextProducerId++,
      epoch: NO_EPOCH,
      lastProducerId: -1n,
      lastEpoch: NO_EPOCH,
      timeoutMs: 0,
      state: 'Empty',
      partitions: new Map(),
      groups: new Set(),
      startMs: -1,
      updatedMs: this.#around.clock.now(),
    }
    this.#transactions.set(transactionalId, transaction)
    return transaction
  }

  /** Whether a compare-and-set may go on; the epoch is compared when it is bumped. */
  #isHolder(transaction: Transaction, expected: { producerId: bigint; producerEpoch: number }): boolean {
    if (transaction.epoch === NO_EPOCH || transaction.producerId === expected.producerId) return true
    return transaction.lastProducerId === expected.producerId && expected.producerEpoch >= LAST_EPOCH
  }

  #bump(transaction: Transaction, expected: number | undefined): void {
    if (transaction.epoch >= LAST_EPOCH && (expected === undefined || expected === transaction.epoch)) {
      transaction.lastProducerId = transaction.producerId
      transaction.lastEpoch = expected === undefined ? NO_EPOCH : transaction.epoch
      transaction.producerId = this.#nextProducerId++
      transaction.epoch = 0
    } else if (expected === undefined || transaction.epoch === NO_EPOCH || expected === transaction.epoch) {
      transaction.lastEpoch = expected === undefined ? NO_EPOCH : transaction.epoch
      transaction.epoch++
    } else if (expected !== transaction.lastEpoch) {
      throw new BrokerRefusal(BrokerCode.PRODUCER_FENCED, `epoch is ${transaction.epoch}, not ${expected}`)
    }
  }

  /** The id's transaction if the producer still holds it. */
  #known(producer: ProducerIdentity): Transaction {
    const transaction = this.#transactions.get(producer.transactionalId)
    if (transaction === undefined || transaction.producerId !== producer.producerId) {
      throw new BrokerRefusal(BrokerCode.INVALID_PRODUCER_ID_MAPPING)
    }
    // PRODUCER_FENCED for clients that know it; EndTxn v1 and its siblings get 47.
    if (transaction.epoch !== producer.producerEpoch)
      throw new BrokerRefusal(BrokerCode.INVALID_PRODUCER_EPOCH)
    return transaction
  }

  #held(producer: ProducerIdentity): Transaction {
    const transaction = this.#known(producer)
    if (transaction.state === 'PrepareCommit' || transaction.state === 'PrepareAbort') {
      throw new BrokerRefusal(BrokerCode.CONCURRENT_TRANSACTIONS)
    }
    return transaction
  }

  #begin(transaction: Transaction): void {
    if (transaction.state === 'Ongoing') return
    transaction.startMs = this.#around.clock.now()
    this.#move(transaction, 'Ongoing')
    this.#scanLater()
  }

  /** The fenced epoch stays the last one: its holder may still go on by a compare-and-set, unless a bare InitProducerId came between. */
  #fence(transaction: Transaction): void {
    transaction.lastEpoch = transaction.epoch
    transaction.epoch++
    this.#complete(transaction, false)
  }

  #complete(transaction: Transaction, commit: boolean): void {
    this.#move(transaction, commit ? 'PrepareCommit' : 'PrepareAbort')
    const { producerId, epoch } = transaction
    const marker: MarkerFacts = {
      commit,
      producerId,
      producerEpoch: epoch,
      coordinatorEpoch: this.#coordinatorEpoch,
    }
    let owed = transaction.partitions.size + transaction.groups.size
    const written = (): void => {
      if (--owed > 0) return
      transaction.partitions.clear()
      transaction.groups.clear()
      transaction.startMs = -1
      this.#move(transaction, commit ? 'CompleteCommit' : 'CompleteAbort')
    }
    for (const partition of transaction.partitions.values()) {
      this.#writeLater(() => this.#around.writeMarker(partition, marker), written)
    }
    for (const groupId of transaction.groups) {
      this.#writeLater(() => {
        this.#around.endGroupTransaction(groupId, producerId, commit)
        return true
      }, written)
    }
  }

  #writeLater(write: () => boolean, written: () => void): void {
    this.#around.timers.schedule(this.#around.markerDelayMs(), () => {
      if (write()) written()
      else this.#writeLater(write, written)
    })
  }

  #move(transaction: Transaction, state: TransactionState): void {
    transaction.state = state
    transaction.updatedMs = this.#around.clock.now()
  }

  /** Time-outs are looked for at multiples of the scan interval, and only while a transaction is open. */
  #scanLater(): void {
    if (this.#scanning) return
    this.#scanning = true
    const interval = Number(
      this.#around.configs['transaction.abort.timed.out.transaction.cleanup.interval.ms'],
    )
    const wait = interval - (this.#around.clock.now() % interval)
    this.#around.timers.schedule(
      wait,
      () => {
        this.#scanning = false
        const now = this.#around.clock.now()
        const open = [...this.#transactions.values()].filter(({ state }) => state === 'Ongoing')
        const late = open.filter(({ startMs, timeoutMs }) => startMs + timeoutMs < now)
        for (const transaction of late) this.#fence(transaction)
        if (open.length > late.length) this.#scanLater()
      },
      true,
    )
  }
}
