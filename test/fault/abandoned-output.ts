/** Output that a completed checkpoint promised and that the broker gave up while the job was away: what healing is tried on. */
import type { KafkaCluster } from '../../src/kafka/kafka-cluster.ts'
import {
  endByHand,
  type InspectedTransaction,
  inspectTransactions,
} from '../../src/kafka/transaction-inspector.ts'
import { MetricRegistry } from '../../src/metrics/metrics.ts'
import { realWorld } from '../../src/runtime/real-world.ts'
import { readBatchHeader, splitBatches } from '../../src/testing/plain-batch.ts'
import type { JobScene } from '../integration/job-scene.ts'
import { RecordingLogger } from '../integration/kafka/real-kafka.ts'

/** Time-out of the sinks' transactions. */
export const TRANSACTION_TIMEOUT_MS = 25_000
/** A start is refused unless checkpoint interval + time-out + 5 s fit into the transaction time-out. */
export const CHECKPOINT_TIMEOUT_MS = 9_000
/** The broker looks for transactions past their time-out every 10 s. */
const GIVEN_UP_MS = TRANSACTION_TIMEOUT_MS + 10_000 + 15_000
const FETCH_BYTES = 4 << 20

/** Transactional ids of the job's sinks whose transaction is in the given state. */
export async function sinkIds(scene: JobScene, state: string): Promise<string[]> {
  const listed = await scene.cluster.listTransactions()
  return listed
    .filter(
      (each) =>
        each.state === state &&
        each.transactionalId.startsWith(`millrace.${scene.job}.`) &&
        !each.transactionalId.endsWith('.coordinator'),
    )
    .map(({ transactionalId }) => transactionalId)
    .sort()
}

/** Open transactions that a completed checkpoint of the job promised. */
export async function promisedOutput(scene: JobScene): Promise<InspectedTransaction[]> {
  const world = realWorld(new RecordingLogger(), new MetricRegistry())
  const found = await inspectTransactions(scene.cluster, world, `millrace.${scene.job}`)
  return found.filter(({ state, promisedBy }) => state === 'Ongoing' && promisedBy !== undefined)
}

/** Does what the job's committer would have done: so that some of a checkpoint's output is committed and some is not. */
export async function commitSome(scene: JobScene, some: readonly InspectedTransaction[]): Promise<void> {
  for (const transaction of some) await endByHand(scene.cluster, transaction, 'commit', false)
}

/** Resolves when the broker has given all transactions of the job's sinks up, and their markers are written. */
export async function givenUp(scene: JobScene): Promise<void> {
  await scene.until('the broker has given up what the job left open', GIVEN_UP_MS, async () => {
    const left = await Promise.all(['Ongoing', 'PrepareAbort'].map((state) => sinkIds(scene, state)))
    return left.every((ids) => ids.length === 0)
  })
}

/** Removes all records of the topic, committed or not, and leaves the markers behind the last ones. */
export async function deleteAllRecords(cluster: KafkaCluster, topic: string): Promise<void> {
  const [described] = await cluster.describeTopics([topic])
  for (const { partition } of described?.partitions ?? [])
    await cluster.deleteRecords([
      { topic, partition, beforeOffset: await endOfRecords(cluster, topic, partition) },
    ])
}

async function endOfRecords(cluster: KafkaCluster, topic: string, partition: number): Promise<bigint> {
  let end = 0n
  for (let offset = 0n; ; ) {
    const [fetched] = await cluster.fetch({
      isolation: 'read_uncommitted',
      partitions: [{ topic, partition, offset, maxBytes: FETCH_BYTES }],
      maxWaitMs: 0,
      minBytes: 0,
      maxBytes: FETCH_BYTES,
    })
    if (fetched === undefined || fetched.errorCode !== 0)
      throw new Error(`fetch of ${topic}-${partition} answered ${fetched?.errorCode}`)
    for (const batch of splitBatches(fetched.records)) {
      const header = readBatchHeader(batch)
      if (header === undefined) continue
      offset = header.baseOffset + BigInt(header.lastOffsetDelta) + 1n
      if (!header.control) end = offset
    }
    if (offset >= fetched.highWatermark) return end
  }
}
