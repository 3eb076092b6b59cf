/**
 * Input of the state benchmark: orders of many users, a pure function of the record's number. `uniform`: every user as often as any other;
 * `zipf`: user k with a probability of about 1 / k, as in most real data. Amounts are multiples of 0.25: sums are exact in any order.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { BrokerConnection } from './broker-connection.ts'
import { BASE_TIMESTAMP, PARTITIONS } from './data.ts'
import { BatchBuilder, PLAIN } from './record-batch-minimal.ts'
import type { RunCheck } from './verify.ts'

const BATCH_BYTES = 256 << 10
const PARTITION_NUMBERS = Array.from({ length: PARTITIONS }, (_, i) => i)
const MAX_COMPLAINTS = 5

export type Distribution = 'uniform' | 'zipf'

/** How large the input is, and how its keys lie. */
export interface KeyedInput {
  readonly records: number
  readonly keys: number
  readonly distribution: Distribution
}

/** Walks over the orders in sequence. */
export class KeyedOrders {
  index = -1
  user = 0
  amount = 0
  readonly #input: KeyedInput
  #state = 42

  constructor(input: KeyedInput) {
    this.#input = input
  }

  step(): void {
    const { keys, distribution } = this.#input
    this.index++
    const chance = this.#next()
    // The density of exp(u ln n) is 1 / x: rank k comes with ln((k + 1) / k), about 1 / k.
    this.user =
      distribution === 'uniform'
        ? Math.floor(chance * keys)
        : Math.floor(Math.exp(chance * Math.log(keys + 1))) - 1
    this.amount = Math.floor(this.#next() * 400) / 4
  }

  json(): string {
    return `{"orderId":${this.index},"user":"u${this.user}","amount":${this.amount}}`
  }

  /** mulberry32. */
  #next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let t = this.#state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000
  }
}

/** Makes the topic once; record i lies in partition i mod 4. */
export async function ensureKeyedInput(bootstrap: string, input: KeyedInput): Promise<string> {
  const topic = `keyed-${input.distribution}-${input.keys}-${input.records}`
  const connection = new BrokerConnection(bootstrap, 'millrace-bench-keyed')
  try {
    await connection.connect()
    if ((await connection.admin((admin) => admin.listTopics())).includes(topic)) {
      await connection.connect(topic)
      if ((await count(connection, topic)) === input.records) return topic
      await connection.admin((admin) => admin.deleteTopics({ topics: [topic] }))
      await sleep(2_000)
    }
    await connection.createTopic(topic, PARTITIONS)
    await connection.connect(topic)
    await write(connection, topic, input)
    return topic
  } finally {
    await connection.close()
  }
}

async function count(connection: BrokerConnection, topic: string): Promise<number> {
  const ends = await connection.offsets(topic, 'end', PARTITION_NUMBERS)
  const starts = await connection.offsets(topic, 'start', PARTITION_NUMBERS)
  return ends.reduce((sum, end, i) => sum + end - starts[i]!, 0)
}

async function write(connection: BrokerConnection, topic: string, input: KeyedInput): Promise<void> {
  const builders = PARTITION_NUMBERS.map(() => new BatchBuilder(BATCH_BYTES))
  const orders = new KeyedOrders(input)
  const flush = async () => {
    const full = PARTITION_NUMBERS.filter((partition) => builders[partition]!.count > 0)
    await connection.produce(
      topic,
      full.map((partition) => [partition, builders[partition]!.finish(PLAIN)] as const),
    )
  }
  for (let i = 0; i < input.records; i++) {
    orders.step()
    const value = Buffer.from(orders.json())
    if (builders[i % PARTITIONS]!.append(null, value, BASE_TIMESTAMP + i)) continue
    await flush()
    builders[i % PARTITIONS]!.append(null, value, BASE_TIMESTAMP + i)
  }
  await flush()
}

/** Running totals: each user's must count 1, 2, 3 … in its partition's order, and end at the right sum. */
export class KeyedCheck implements RunCheck {
  readonly expected: number
  seen = 0
  readonly complaints: string[] = []
  readonly #finalCount: Int32Array
  readonly #finalSum: Float64Array
  readonly #count: Int32Array
  readonly #sum: Float64Array

  constructor(input: KeyedInput) {
    this.expected = input.records
    this.#finalCount = new Int32Array(input.keys)
    this.#finalSum = new Float64Array(input.keys)
    this.#count = new Int32Array(input.keys)
    this.#sum = new Float64Array(input.keys)
    const orders = new KeyedOrders(input)
    for (let i = 0; i < input.records; i++) {
      orders.step()
      this.#finalCount[orders.user]! += 1
      this.#finalSum[orders.user]! += orders.amount
    }
  }

  record(text: string): void {
    const { user: name, count, sum } = JSON.parse(text) as { user: string; count: number; sum: number }
    const user = Number(name.slice(1))
    this.seen++
    if (count !== this.#count[user]! + 1) this.#complain(`${name}: count ${count} after ${this.#count[user]}`)
    this.#count[user] = count
    this.#sum[user] = sum
  }

  finish(): boolean {
    for (let user = 0; user < this.#count.length; user++)
      if (this.#count[user] !== this.#finalCount[user] || this.#sum[user] !== this.#finalSum[user])
        this.#complain(
          `u${user} ends at ${this.#count[user]} / ${this.#sum[user]}, expected ${this.#finalCount[user]} / ${this.#finalSum[user]}`,
        )
    if (this.seen !== this.expected) this.#complain(`${this.seen} of ${this.expected} records`)
    return this.complaints.length === 0
  }

  #complain(complaint: string): void {
    if (this.complaints.length < MAX_COMPLAINTS) this.complaints.push(complaint)
  }
}
