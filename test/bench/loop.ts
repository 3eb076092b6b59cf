/**
 * Hand-written transactional loop in one process: the limit that a Node engine can be measured against. Jobs etl and count; no recovery of state,
 * so a speed reference and not a product. Settings come from the environment, as for every peer.
 */
import { BrokerConnection } from './broker-connection.ts'
import { MIN_AMOUNT, PARTITIONS } from './data.ts'
import { exitOnSigterm, readPeerSettings } from './peer-settings.ts'
import { BatchBuilder, decodeFetch } from './record-batch-minimal.ts'

const BATCH_BYTES = 1 << 18
const FETCH_BYTES = 1 << 20
const settings = readPeerSettings()
exitOnSigterm()
const all = Array.from({ length: PARTITIONS }, (_, i) => i)
const positions = new Map(
  all
    .filter((partition) => partition % settings.processes === settings.process)
    .map((partition) => [partition, 0]),
)

const connection = new BrokerConnection(settings.bootstrap, settings.appId)
await connection.connect(settings.input, settings.output)
const producer = await connection.initProducer(`${settings.appId}-${settings.process}`)

const builders = all.map(() => new BatchBuilder(BATCH_BYTES))
const sequences = all.map(() => 0)
const totals = new Map<string, { user: string; count: number; sum: number }>()
let inFlight: Promise<void> = Promise.resolve()
let isOpen = false

async function flush(): Promise<void> {
  const batches: [number, Buffer][] = []
  for (const partition of all) {
    const builder = builders[partition]!
    const { count } = builder
    if (count === 0) continue
    const sequence = sequences[partition]!
    batches.push([
      partition,
      builder.finish({
        producerId: producer.producerId,
        epoch: producer.producerEpoch,
        sequence,
        transactional: true,
      }),
    ])
    sequences[partition] = sequence + count
  }
  if (batches.length === 0) return
  await inFlight
  if (!isOpen) {
    await connection.addPartitions(producer, settings.output, all)
    isOpen = true
  }
  inFlight = connection.produce(settings.output, batches, producer.transactionalId)
  inFlight.catch(() => {}) // awaited by the next flush, which throws it
}

let nextPartition = 0

/** What goes out for an order: bytes, key and partition; undefined drops it. */
function outputOf(text: string): { value: Buffer; key: string | null; partition: number } | undefined {
  const order = JSON.parse(text)
  if (settings.job === 'etl') {
    if (order.amount < MIN_AMOUNT) return undefined
    order.eur = order.amount * 0.9
    order.pad = undefined
    return { value: Buffer.from(JSON.stringify(order)), key: null, partition: nextPartition++ & 3 }
  }
  let total = totals.get(order.user)
  if (total === undefined) {
    total = { user: order.user, count: 0, sum: 0 }
    totals.set(order.user, total)
  }
  total.count++
  total.sum += order.amount
  const key: string = order.user
  return { value: Buffer.from(JSON.stringify(total)), key, partition: key.charCodeAt(key.length - 1) & 3 }
}

const texts: string[] = []
const timestamps: number[] = []
let isFirst = true
let lastCommit = Date.now()
for (;;) {
  const raw = await connection.fetch(settings.input, positions, 20, FETCH_BYTES)
  texts.length = 0
  timestamps.length = 0
  const read = decodeFetch(raw, (buffer, start, end, timestamp) => {
    texts.push(buffer.utf8Slice(start, end))
    timestamps.push(timestamp)
  })
  for (const { partition, nextOffset } of read) if (nextOffset >= 0) positions.set(partition, nextOffset)
  if (isFirst && texts.length > 0) {
    isFirst = false
    lastCommit = Date.now()
    console.log(`FIRST ${Date.now()}`)
  }
  for (let i = 0; i < texts.length; i++) {
    const out = outputOf(texts[i]!)
    if (out === undefined) continue
    if (!builders[out.partition]!.append(out.key, out.value, timestamps[i]!)) {
      await flush()
      builders[out.partition]!.append(out.key, out.value, timestamps[i]!)
    }
  }
  if (Date.now() - lastCommit >= settings.commitMs) {
    await flush()
    await inFlight
    if (isOpen) {
      await connection.commit(producer)
      isOpen = false
    }
    lastCommit = Date.now()
  }
}
