/**
 * Orders that keep coming while a job is killed, written in transactions of which some are aborted: what the job reads has markers and
 * aborted records in it. Knows what the job's whole output must be.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { KafkaCluster } from '../../src/kafka/kafka-cluster.ts'
import { encodePlainBatch } from '../../src/testing/plain-batch.ts'
import type { SeededRandom } from './seeded-random.ts'

const USERS = 40
/** Milliseconds between two transactions. */
const TICK_MS = 150
/** Brokers that were killed may take so long to come back; a transaction whose end is not known would spoil the comparison. */
const PATIENCE = { timeoutMs: 240_000 }
/** One transaction in so many is aborted. */
const ABORTED = 6

interface Order {
  readonly id: number
  readonly user: string
  readonly amount: number
}

export class OrderFeed {
  readonly #cluster: KafkaCluster
  readonly #topic: string
  readonly #partitions: number
  readonly #perSecond: number
  readonly #random: SeededRandom
  readonly #users: number
  readonly #committed: Order[] = []
  #nextId = 0
  #stopping = false
  #running: Promise<void> | undefined

  constructor(
    cluster: KafkaCluster,
    topic: string,
    partitions: number,
    perSecond: number,
    random: SeededRandom,
    users = USERS,
  ) {
    this.#cluster = cluster
    this.#topic = topic
    this.#partitions = partitions
    this.#perSecond = perSecond
    this.#random = random
    this.#users = users
  }

  start(): void {
    this.#running = this.#feed()
  }

  /** Resolves when the last transaction is committed. */
  async stop(): Promise<void> {
    this.#stopping = true
    await this.#running
  }

  /** Orders that a read_committed reader sees. */
  get committed(): number {
    return this.#committed.length
  }

  /** Compares an ETL output, in any order. Returns what is wrong; empty = exact. */
  checkEtl(values: readonly (string | null)[]): string[] {
    const missing = new Map(
      this.#committed.filter(({ amount }) => amount >= 20).map((order) => [order.id, order]),
    )
    const complaints: string[] = []
    const seen = new Set<number>()
    for (const text of values) {
      const value = JSON.parse(String(text)) as { id: number; user: string; cents: number }
      const order = missing.get(value.id)
      if (seen.has(value.id)) complaints.push(`duplicate ${text}`)
      else if (order === undefined) complaints.push(`unexpected ${text}`)
      else if (value.user !== order.user || value.cents !== order.amount * 100)
        complaints.push(`wrong ${text}`)
      seen.add(value.id)
      missing.delete(value.id)
    }
    for (const { id } of missing.values()) complaints.push(`missing order ${id}`)
    return complaints
  }

  /** Compares the running totals: each user's must count 1, 2, 3 … in its partition's order, and end at the right sum. */
  checkTotals(values: readonly (string | null)[]): string[] {
    const expected = new Map<string, { count: number; sum: number }>()
    for (const { user, amount } of this.#committed) {
      const total = expected.get(user) ?? { count: 0, sum: 0 }
      expected.set(user, { count: total.count + 1, sum: total.sum + amount })
    }
    const complaints: string[] = []
    const last = new Map<string, { count: number; sum: number }>()
    for (const text of values) {
      const value = JSON.parse(String(text)) as { user: string; count: number; sum: number }
      const before = last.get(value.user)?.count ?? 0
      if (value.count !== before + 1) complaints.push(`${value.user}: count ${value.count} after ${before}`)
      last.set(value.user, value)
    }
    for (const [user, { count, sum }] of expected) {
      const ended = last.get(user)
      if (ended?.count !== count || ended.sum !== sum)
        complaints.push(`${user} ends at ${ended?.count} / ${ended?.sum}, expected ${count} / ${sum}`)
    }
    return complaints
  }

  /** Number of records that the ETL output must have in the end. */
  get etlRecords(): number {
    return this.#committed.filter(({ amount }) => amount >= 20).length
  }

  async #feed(): Promise<void> {
    let number = 0
    let due = Date.now()
    while (!this.#stopping) {
      due += TICK_MS
      await this.#transaction(number++ % ABORTED === ABORTED - 1)
      await sleep(Math.max(0, due - Date.now()))
    }
    await this.#transaction(false)
  }

  async #transaction(isAborted: boolean): Promise<void> {
    const orders: Order[][] = Array.from({ length: this.#partitions }, () => [])
    const count = Math.round((this.#perSecond * TICK_MS) / 1_000)
    for (let i = 0; i < count; i++) {
      const order = {
        id: this.#nextId++,
        user: `u${this.#random.below(this.#users)}`,
        amount: this.#random.below(400) / 4,
      }
      ;(orders[this.#random.below(this.#partitions)] as Order[]).push(order)
    }
    const producer = await this.#cluster.initProducerId(
      { transactionalId: `${this.#topic}.feed`, transactionTimeoutMs: 300_000 },
      PATIENCE,
    )
    const used = orders.flatMap((own, partition) =>
      own.length === 0 ? [] : [{ topic: this.#topic, partition, own }],
    )
    await this.#cluster.addPartitionsToTxn(producer, used, PATIENCE)
    const { producerId, producerEpoch, transactionalId } = producer
    await Promise.all(
      used.map(async ({ topic, partition, own }) => {
        const records = own.map((order) => ({ value: JSON.stringify(order), timestamp: Date.now() }))
        const batch = encodePlainBatch({
          records,
          producerId,
          producerEpoch,
          baseSequence: 0,
          transactional: true,
        })
        const [answer] = await this.#cluster.produce({
          acks: -1,
          transactionalId,
          partitions: [{ topic, partition, batch }],
          ...PATIENCE,
        })
        if (answer?.errorCode !== 0) throw new Error(`produce answered ${answer?.errorCode}`)
      }),
    )
    await this.#cluster.endTxn(producer, isAborted ? 'abort' : 'commit', PATIENCE)
    if (!isAborted) this.#committed.push(...orders.flat())
  }
}
