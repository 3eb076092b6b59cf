/**
 * `node test/bench/latency.ts [--peer millrace] [--rate 2000] [--warm 10] [--measure 30] [--commit 100]`
 *
 * Latency of job etl under a steady load: from just before a record is sent to the moment when a read_committed reader has its output, by the
 * clock of this one process. The warm-up is left out. Prints one JSON line.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { BrokerConnection } from './broker-connection.ts'
import { MIN_AMOUNT, Orders, PARTITIONS } from './data.ts'
import { PeerProcesses } from './peer-process.ts'
import { BatchBuilder, decodeFetch, PLAIN } from './record-batch-minimal.ts'

const SCRIPTS: Readonly<Record<string, string>> = {
  millrace: 'millrace-job.ts',
  loop: 'loop.ts',
  kafkajs: 'kafkajs-loop.ts',
}
const STEP_MS = 5
const START_TIMEOUT_MS = 60_000

const { values: options } = parseArgs({
  options: {
    peer: { type: 'string', default: 'millrace' },
    rate: { type: 'string', default: '2000' },
    warm: { type: 'string', default: '10' },
    measure: { type: 'string', default: '30' },
    commit: { type: 'string', default: '100' },
    bootstrap: { type: 'string' },
  },
})
const bootstrap = options.bootstrap ?? process.env['KAFKA_BROKERS'] ?? process.env['BOOTSTRAP']
const script = SCRIPTS[options.peer]
if (bootstrap === undefined)
  throw new Error('set KAFKA_BROKERS to a broker: node scripts/lib/kafka-broker.ts starts one')
if (script === undefined)
  throw new Error(`no peer is called ${options.peer}; there are ${Object.keys(SCRIPTS).join(', ')}`)
const [rate, warm, measured] = [Number(options.rate), Number(options.warm), Number(options.measure)]

/** Sends orders and notes when. */
class Load {
  readonly sentAt: number[] = []
  readonly isExpected: boolean[] = []
  readonly #orders = new Orders()
  readonly #builders = Array.from({ length: PARTITIONS }, () => new BatchBuilder(1 << 20))
  readonly #connection: BrokerConnection
  readonly #topic: string
  #failure: unknown

  constructor(connection: BrokerConnection, topic: string) {
    this.#connection = connection
    this.#topic = topic
  }

  /** Sends the next orders without waiting for the answer. */
  send(count: number): void {
    if (this.#failure !== undefined) throw this.#failure
    const now = Date.now()
    for (let i = 0; i < count; i++) {
      this.#orders.step()
      this.sentAt.push(performance.now())
      this.isExpected.push(this.#orders.amount >= MIN_AMOUNT)
      const builder = this.#builders[this.#orders.index % PARTITIONS]!
      if (!builder.append(null, Buffer.from(this.#orders.json(now)), now))
        throw new Error('a step does not fit into a batch')
    }
    const batches = this.#builders.flatMap((builder, partition) =>
      builder.count === 0 ? [] : [[partition, builder.finish(PLAIN)] as const],
    )
    this.#connection.produce(this.#topic, batches).catch((error: unknown) => {
      this.#failure = error
    })
  }
}

/** Reads the output and notes when each order came. */
class Reader {
  readonly seenAt = new Map<number, number>()
  duplicates = 0
  #stopped = false
  readonly #connection: BrokerConnection
  readonly #topic: string

  constructor(connection: BrokerConnection, topic: string) {
    this.#connection = connection
    this.#topic = topic
  }

  async run(): Promise<void> {
    const positions = new Map(Array.from({ length: PARTITIONS }, (_, partition) => [partition, 0]))
    while (!this.#stopped) {
      const raw = await this.#connection.fetch(this.#topic, positions, 100, 1 << 20)
      const now = performance.now()
      const read = decodeFetch(raw, (buffer, start, end, _timestamp, partition, offset) => {
        if (offset < positions.get(partition)!) return
        const { orderId } = JSON.parse(buffer.utf8Slice(start, end))
        if (this.seenAt.has(orderId)) this.duplicates++
        this.seenAt.set(orderId, now)
      })
      for (const { partition, nextOffset } of read) if (nextOffset >= 0) positions.set(partition, nextOffset)
    }
  }

  stop(): void {
    this.#stopped = true
  }
}

const run = `${options.peer}-lat-${Date.now().toString(36)}`
const [input, output, appId] = [`in-${run}`, `out-${run}`, `app-${run}`]
const workDir = await mkdtemp(join(tmpdir(), 'millrace-latency-'))
const writing = new BrokerConnection(bootstrap, 'millrace-latency-write')
const reading = new BrokerConnection(bootstrap, 'millrace-latency-read')
await writing.connect()
for (const topic of [input, output]) await writing.createTopic(topic, PARTITIONS)
await writing.connect(input)
await reading.connect(output)
const peer = new PeerProcesses({
  command: [process.execPath, '--disable-warning=TimeoutNegativeWarning', join(import.meta.dirname, script)],
  processes: 1,
  bootstrap,
  input,
  output,
  job: 'etl',
  appId,
  commitMs: Number(options.commit),
  graceMs: 0,
  workDir,
})
const load = new Load(writing, input)
const reader = new Reader(reading, output)
peer.start()
const done = reader.run()
try {
  const deadline = Date.now() + START_TIMEOUT_MS
  while (reader.seenAt.size < 20) {
    if (Date.now() > deadline || !peer.isAlive) throw new Error(`${options.peer} gives no output`)
    load.send(10)
    await sleep(100)
  }
  const base = load.sentAt.length
  const from = base + rate * warm
  const end = from + rate * measured
  const perStep = Math.max(1, Math.round((rate * STEP_MS) / 1000))
  const started = performance.now()
  let cpuAtStart = 0
  while (load.sentAt.length < end) {
    const sent = load.sentAt.length
    if (sent >= from && cpuAtStart === 0) cpuAtStart = peer.cpuSeconds
    const wait = started + ((sent - base) * 1000) / rate - performance.now()
    if (wait > 0) await sleep(wait)
    load.send(Math.min(perStep, end - sent))
  }
  const cpu = peer.cpuSeconds - cpuAtStart
  await sleep(3_000)
  reader.stop()
  await done
  const numbers = load.isExpected.flatMap((expected, i) => (expected && i >= from ? [i] : []))
  const latencies = numbers
    .filter((i) => reader.seenAt.has(i))
    .map((i) => reader.seenAt.get(i)! - load.sentAt[i]!)
    .sort((a, b) => a - b)
  const quantile = (q: number) =>
    Math.round(10 * (latencies[Math.min(latencies.length - 1, Math.ceil(q * latencies.length) - 1)] ?? -1)) /
    10
  const missing = numbers.length - latencies.length
  const ok = missing === 0 && reader.duplicates === 0 && latencies.length > 0
  console.log(
    JSON.stringify({
      peer: options.peer,
      job: 'latency-etl',
      rate,
      measured_s: measured,
      commit_ms: Number(options.commit),
      samples: latencies.length,
      p50_ms: quantile(0.5),
      p90_ms: quantile(0.9),
      p99_ms: quantile(0.99),
      max_ms: quantile(1),
      cpu_cores: Math.round((100 * cpu) / measured) / 100,
      peak_rss_mb: Math.round(peer.peakMegabytes),
      ok,
      missing,
      dup: reader.duplicates,
    }),
  )
  if (!ok) process.exitCode = 1
} finally {
  reader.stop()
  await peer.stop()
  await writing.admin(async (admin) => {
    const topics = (await admin.listTopics()).filter(
      (topic) => topic.includes(appId) || topic === input || topic === output,
    )
    await admin.deleteTopics({ topics })
  })
  await writing.close()
  await reading.close()
  await rm(workDir, { recursive: true, force: true })
}
