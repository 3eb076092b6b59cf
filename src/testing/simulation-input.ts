/**
 * Writes the input of a simulated job: plain batches, and transactions of which some are aborted and some stay open for a while.
 */
import type { Timers } from '../core/ports.ts'
import type { ProducerIdentity, TopicPartition } from '../kafka/kafka-cluster.ts'
import { encodePlainBatch, type PlainRecordInput } from './plain-batch.ts'
import type { SeededRandom } from './seeded-random.ts'
import type { SimulatedClient } from './simulated-client.ts'

/** What to write and how fast. */
export interface SimulationInputOptions {
  readonly client: SimulatedClient
  readonly timers: Timers
  readonly random: SeededRandom
  readonly partitions: readonly TopicPartition[]
  readonly recordsPerPartition: number
  /** Over so many ms; 0 = at once. */
  readonly overMs: number
  readonly now: () => number
  readonly record: (random: SeededRandom, sequence: number, now: number) => PlainRecordInput
}

const TRANSACTION_TIMEOUT_MS = 60_000

/** Writes the input of all partitions; what was committed is read back from the logs. */
export class SimulationInput {
  readonly #options: SimulationInputOptions
  #left = 0
  #indices = 0
  #sequence = 0

  constructor(options: SimulationInputOptions) {
    this.#options = options
  }

  /** Records that were written, those of aborted transactions included. */
  get written(): number {
    return this.#sequence
  }

  /** Everything is written and decided, and nothing more was asked for. */
  get done(): boolean {
    return this.#left === 0
  }

  async write(partitions: readonly TopicPartition[] = this.#options.partitions): Promise<void> {
    this.#left += partitions.length
    await Promise.all(
      partitions.map(async (partition) => {
        await this.#partition(partition, this.#indices++)
        this.#left--
      }),
    )
  }

  async #partition(partition: TopicPartition, index: number): Promise<void> {
    const { recordsPerPartition, overMs, timers, client } = this.#options
    const random = this.#options.random.fork(`input ${index}`)
    const transactionalId = `input-${index}`
    let left = recordsPerPartition
    let identity: ProducerIdentity | undefined
    while (left > 0) {
      const count = Math.min(left, random.integer(1, 8))
      left -= count
      if (overMs > 0)
        await timers.sleep(random.integer(0, Math.ceil((2 * overMs * count) / recordsPerPartition)))
      if (!random.chance(0.3)) {
        await this.#produce(partition, random, count, undefined)
        continue
      }
      // A new epoch a transaction, so that a repeated end can't hit the next one.
      identity = await client.initProducerId({
        transactionalId,
        transactionTimeoutMs: TRANSACTION_TIMEOUT_MS,
        ...(identity === undefined ? {} : { expected: identity }),
      })
      await client.addPartitionsToTxn(identity, [partition])
      await this.#produce(partition, random, count, identity)
      if (random.chance(0.3)) await timers.sleep(random.integer(0, 300))
      await client.endTxn(identity, random.chance(0.4) ? 'abort' : 'commit')
    }
  }

  /** One more record for each partition, committed by itself. */
  async append(record: PlainRecordInput): Promise<void> {
    await Promise.all(this.#options.partitions.map((partition) => this.#send(partition, [record], undefined)))
  }

  #produce(
    partition: TopicPartition,
    random: SeededRandom,
    count: number,
    identity: ProducerIdentity | undefined,
  ): Promise<void> {
    const { now, record } = this.#options
    const records = Array.from({ length: count }, () => record(random, this.#sequence++, now()))
    return this.#send(partition, records, identity)
  }

  async #send(
    partition: TopicPartition,
    records: readonly PlainRecordInput[],
    identity: ProducerIdentity | undefined,
  ): Promise<void> {
    const { client, now } = this.#options
    const batch = encodePlainBatch({
      records,
      timestamp: now(),
      ...(identity === undefined
        ? {}
        : {
            producerId: identity.producerId,
            producerEpoch: identity.producerEpoch,
            baseSequence: 0,
            transactional: true,
          }),
    })
    const [answer] = await client.produce({
      acks: -1,
      transactionalId: identity?.transactionalId ?? null,
      partitions: [{ ...partition, batch }],
    })
    if (answer?.errorCode !== 0) throw new Error(`the input could not be written: ${answer?.errorCode}`)
  }
}
