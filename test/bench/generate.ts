/**
 * Makes the input topic `orders-<n>` once: record i lies in partition i mod 4, has a null key and its own `ts` as timestamp.
 * `node test/bench/generate.ts 1000000`, with BOOTSTRAP in the environment.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { BrokerConnection } from './broker-connection.ts'
import { Orders, PARTITIONS } from './data.ts'
import { BatchBuilder, PLAIN } from './record-batch-minimal.ts'

const BATCH_BYTES = 256 << 10
const PARTITION_NUMBERS = Array.from({ length: PARTITIONS }, (_, i) => i)

/** Resolves with the topic's name when it holds exactly the first `records` orders. */
export async function ensureInput(bootstrap: string, records: number): Promise<string> {
  const topic = `orders-${records}`
  const connection = new BrokerConnection(bootstrap, 'millrace-bench-generate')
  try {
    await connection.connect()
    if ((await connection.admin((admin) => admin.listTopics())).includes(topic)) {
      await connection.connect(topic)
      if ((await count(connection, topic)) === records) return topic
      await connection.admin((admin) => admin.deleteTopics({ topics: [topic] }))
      await sleep(2_000)
    }
    await connection.createTopic(topic, PARTITIONS)
    await connection.connect(topic)
    await write(connection, topic, records)
    const written = await count(connection, topic)
    if (written !== records) throw new Error(`${topic} holds ${written} records`)
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

async function write(connection: BrokerConnection, topic: string, records: number): Promise<void> {
  const builders = PARTITION_NUMBERS.map(() => new BatchBuilder(BATCH_BYTES))
  const orders = new Orders()
  let inFlight: Promise<void> = Promise.resolve()
  const flush = async () => {
    const batches = PARTITION_NUMBERS.filter((partition) => builders[partition]!.count > 0).map(
      (partition) => [partition, builders[partition]!.finish(PLAIN)] as const,
    )
    await inFlight
    inFlight = connection.produce(topic, batches)
    inFlight.catch(() => {}) // awaited by the next flush, which throws it
  }
  for (let i = 0; i < records; i++) {
    orders.step()
    const value = Buffer.from(orders.json())
    if (!builders[i % PARTITIONS]!.append(null, value, orders.timestamp)) {
      await flush()
      builders[i % PARTITIONS]!.append(null, value, orders.timestamp)
    }
  }
  await flush()
  await inFlight
}

if (import.meta.main) {
  const bootstrap = process.env['BOOTSTRAP'] ?? process.env['KAFKA_BROKERS'] ?? '127.0.0.1:9092'
  for (const argument of process.argv.slice(2)) {
    const started = Date.now()
    const topic = await ensureInput(bootstrap, Number(argument))
    console.error(`${topic} ready, ${((Date.now() - started) / 1000).toFixed(1)} s`)
  }
}
