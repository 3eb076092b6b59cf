/**
 * What became of a transaction whose commit the broker refused: the log decides (protocol §5.3). The first control record of its producer id after its last
 * offset, on any of its partitions, is the truth: COMMIT = it is committed; ABORT = its records must be written again (healing).
 * Epochs are not compared: a commit carries the epoch e, an abort by fence or time-out e+1, and a later transaction may be committed under e+1.
 */
import type { World } from '../core/ports.ts'
import type { KafkaCluster } from './kafka-cluster.ts'
import type { KafkaCommittable } from './kafka-committable.ts'
import { scanPartition } from './partition-scan.ts'
import { readControlRecord } from './record-batch-header.ts'

export type TransactionFate = 'committed' | 'aborted' | 'unknown'

/** Markers are written some ms after the decision; a partition leader that is away delays them. */
const MARKER_WAIT_MS = 15_000
const LOOK_AGAIN_MS = 100

/** Looks on every partition until one tells; waits for markers that are still on their way. 'unknown' = no partition holds one (any more). */
export async function transactionFate(
  cluster: KafkaCluster,
  world: World,
  committable: KafkaCommittable,
): Promise<TransactionFate> {
  const until = world.clock.now() + MARKER_WAIT_MS
  for (;;) {
    for (const range of committable.ranges) {
      const fate = await fateOn(cluster, world, committable, range)
      if (fate !== undefined) return fate
    }
    if (world.clock.now() >= until) return 'unknown'
    await world.timers.sleep(LOOK_AGAIN_MS)
  }
}

async function fateOn(
  cluster: KafkaCluster,
  world: World,
  committable: KafkaCommittable,
  range: KafkaCommittable['ranges'][number],
): Promise<TransactionFate | undefined> {
  const producerId = BigInt(committable.producerId)
  let fate: TransactionFate | undefined
  await scanPartition(cluster, world, range, BigInt(range.lastOffset) + 1n, ({ header, records }) => {
    if (!header.isControl || header.producerId !== producerId) return false
    const { type } = readControlRecord(records, header, range)
    if (type === 'other') return false
    fate = type === 'commit' ? 'committed' : 'aborted'
    return true
  })
  return fate
}
