/** Uses a cluster as a job does and ends. Anything on stderr is noise that a user would see. */
import { batchOf, newCluster, newTopic, readCommitted } from './real-kafka.ts'

const cluster = newCluster()
await cluster.connect()
const topic = await newTopic(cluster, 1)
for (let i = 0; i < 20; i++)
  await cluster.produce({
    acks: -1,
    transactionalId: null,
    partitions: [{ topic, partition: 0, batch: batchOf([String(i)]) }],
  })
const values = await readCommitted(cluster, topic, 0)
await cluster.deleteTopics([topic])
await cluster.close()
process.stdout.write(`${values.length}\n`)
