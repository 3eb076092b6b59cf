/** The loop that a user of plain kafkajs would write: read, process, write in transactions of `commitMs`. Job etl only. */
import { Kafka, logLevel, Partitioners, type Transaction } from 'kafkajs'
import { MIN_AMOUNT, PARTITIONS } from './data.ts'
import { exitOnSigterm, readPeerSettings } from './peer-settings.ts'

const settings = readPeerSettings()
if (settings.job !== 'etl') throw new Error('the kafkajs peer does etl only')
const kafka = new Kafka({
  clientId: settings.appId,
  brokers: settings.bootstrap.split(','),
  logLevel: logLevel.ERROR,
})
const consumer = kafka.consumer({
  groupId: settings.appId,
  readUncommitted: false,
  maxBytesPerPartition: 1 << 20,
  maxWaitTimeInMs: 100,
})
const producer = kafka.producer({
  transactionalId: `${settings.appId}-${settings.process}`,
  idempotent: true,
  maxInFlightRequests: 1,
  createPartitioner: Partitioners.DefaultPartitioner,
})
exitOnSigterm(() => consumer.disconnect())

let transaction: Transaction | undefined
let began = 0
let offsets = new Map<number, string>()
let isFirst = true
let share = 0
let tail: Promise<void> = Promise.resolve()

/** One thing at a time: a batch, or a commit by the clock. */
function locked(action: () => Promise<void>): Promise<void> {
  tail = tail.then(action).catch((error) => {
    console.error(error)
    process.exit(3)
  })
  return tail
}

async function commit(): Promise<void> {
  const open = transaction
  if (open === undefined) return
  const partitions = [...offsets].map(([partition, offset]) => ({ partition, offset }))
  transaction = undefined
  offsets = new Map()
  await open.sendOffsets({ consumerGroupId: settings.appId, topics: [{ topic: settings.input, partitions }] })
  await open.commit()
}

const isDue = () => transaction !== undefined && Date.now() - began >= settings.commitMs

await producer.connect()
await consumer.connect()
consumer.on(consumer.events.GROUP_JOIN, (event) => {
  share = (event.payload.memberAssignment[settings.input] ?? []).length
})
await consumer.subscribe({ topics: [settings.input], fromBeginning: true })
setInterval(() => {
  if (isDue()) void locked(async () => (isDue() ? commit() : undefined))
}, 20)
await consumer.run({
  autoCommit: false,
  eachBatchAutoResolve: false,
  partitionsConsumedConcurrently: 1,
  eachBatch: async ({ batch, resolveOffset, heartbeat }) => {
    // kafkajs has no call on revocation, so work starts only once all processes share the partitions.
    if (share !== PARTITIONS / settings.processes) {
      await new Promise((resolve) => setTimeout(resolve, 50))
      return
    }
    await locked(async () => {
      if (isFirst) {
        isFirst = false
        console.log(`FIRST ${Date.now()}`)
      }
      if (transaction === undefined) {
        transaction = await producer.transaction()
        began = Date.now()
      }
      const messages = batch.messages.flatMap((message) => {
        const order = JSON.parse(message.value!.toString())
        if (order.amount < MIN_AMOUNT) return []
        order.eur = order.amount * 0.9
        delete order.pad
        return [{ key: null, value: JSON.stringify(order), timestamp: message.timestamp }]
      })
      if (messages.length > 0) await transaction.send({ topic: settings.output, acks: -1, messages })
      offsets.set(batch.partition, String(BigInt(batch.lastOffset()) + 1n))
      resolveOffset(batch.lastOffset())
      if (isDue()) await commit()
    })
    await heartbeat()
  },
})
