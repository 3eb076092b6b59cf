/**
 * What became of a transaction whose commit the broker refused: the log decides (protocol §5.3). The first control record of its producer id after its last
 * offset, on any of its partitions, is the truth: COMMIT = it is committed; ABORT = its records must be written again (healing).
 * Epochs are not compared: a commit carries the epoch e, an abort by fence or time-out e+1, and a later transaction may be committed under e+1.
 */
import type { World } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'
import { type KafkaCluster, KafkaCode, type TransactionState } from './kafka-cluster.ts'
import { describeCommittable, type KafkaCommittable, type WrittenRange } from './kafka-committable.ts'
import { scanPartition } from './partition-scan.ts'
import { readControlRecord } from './record-batch-header.ts'

export type TransactionFate = 'committed' | 'aborted' | 'unknown'

/** How long markers may be on their way that nobody says are to come. */
const MARKER_WAIT_MS = 15_000
/** How long those may that the coordinator has decided on: a partition without enough replicas in sync delays them. */
const DECIDED_WAIT_MS = 180_000
const LOOK_AGAIN_MS = 100

/** States in which all markers of an id's last transaction are written, or it never had one. */
const NO_MARKER_TO_COME: readonly TransactionState[] = ['Empty', 'CompleteCommit', 'CompleteAbort', 'Dead']
/** States in which markers are sure to come, whenever that may be. */
const MARKERS_TO_COME: readonly TransactionState[] = ['PrepareCommit', 'PrepareAbort']

/**
 * Looks on every partition until one tells; waits for markers that are still on their way. 'unknown' = no partition holds one (any more).
 * @throws MILLRACE_KAFKA_PROTOCOL, retriable, when markers that the coordinator has decided on do not come: nothing is lost by that.
 */
export async function transactionFate(
  cluster: KafkaCluster,
  world: World,
  committable: KafkaCommittable,
): Promise<TransactionFate> {
  const began = world.clock.now()
  let warned = false
  for (;;) {
    const waitedMs = world.clock.now() - began
    const toCome = await markersToCome(cluster, committable)
    const fate = await look(cluster, world, committable)
    if (fate !== undefined) return fate
    if (toCome === 'none' || (toCome === 'perhaps' && waitedMs >= MARKER_WAIT_MS)) return 'unknown'
    if (waitedMs >= DECIDED_WAIT_MS)
      throw new MillraceError(
        'MILLRACE_KAFKA_PROTOCOL',
        `the brokers have not written the end of ${describeCommittable(committable)} within ${DECIDED_WAIT_MS} ms, though it is decided`,
        {
          retriable: true,
          remedy:
            'Look for partitions of these topics with fewer replicas in sync than min.insync.replicas, and for brokers that are away.',
        },
      )
    if (waitedMs >= MARKER_WAIT_MS && !warned) {
      warned = true
      world.logger.warn(`waiting for the brokers to write the end of ${describeCommittable(committable)}`)
    }
    await world.timers.sleep(LOOK_AGAIN_MS)
  }
}

async function markersToCome(
  cluster: KafkaCluster,
  committable: KafkaCommittable,
): Promise<'none' | 'perhaps' | 'surely'> {
  const [described] = await cluster.describeTransactions([committable.transactionalId])
  // Another error tells nothing: wait for what may come.
  if (described === undefined || described.errorCode !== KafkaCode.NONE)
    return described?.errorCode === KafkaCode.TRANSACTIONAL_ID_NOT_FOUND ? 'none' : 'perhaps'
  if (MARKERS_TO_COME.includes(described.state)) return 'surely'
  return NO_MARKER_TO_COME.includes(described.state) ? 'none' : 'perhaps'
}

/** A partition that still has the records tells best; where the log begins later only what can be nobody else's counts. */
async function look(
  cluster: KafkaCluster,
  world: World,
  committable: KafkaCommittable,
): Promise<TransactionFate | undefined> {
  const cut: WrittenRange[] = []
  for (const range of committable.ranges) {
    const found = await firstMarker(cluster, world, committable, range, BigInt(range.lastOffset) + 1n)
    if (found === 'gone') cut.push(range)
    else if (found !== undefined) return found.type
  }
  for (const range of cut) {
    const [start] = await cluster.listOffsets([range], 'earliest', 'read_uncommitted')
    if (start === undefined || start.errorCode !== KafkaCode.NONE) continue
    const found = await firstMarker(cluster, world, committable, range, start.offset)
    if (found === undefined || found === 'gone') continue
    // An abort means that the records are looked for, and not found: a person decides. A commit under another epoch may be a later one.
    if (found.type === 'aborted' || found.epoch === committable.producerEpoch) return found.type
  }
  return undefined
}

/** The first marker of the producer id from an offset on; 'gone' when the log begins after it. */
async function firstMarker(
  cluster: KafkaCluster,
  world: World,
  committable: KafkaCommittable,
  range: WrittenRange,
  from: bigint,
): Promise<{ readonly type: 'committed' | 'aborted'; readonly epoch: number } | 'gone' | undefined> {
  const producerId = BigInt(committable.producerId)
  let found: { type: 'committed' | 'aborted'; epoch: number } | undefined
  const end = await scanPartition(cluster, world, range, from, ({ header, records }) => {
    if (!header.isControl || header.producerId !== producerId) return false
    const { type } = readControlRecord(records, header, range)
    if (type === 'other') return false
    found = { type: type === 'commit' ? 'committed' : 'aborted', epoch: header.producerEpoch }
    return true
  })
  return end === 'gone' ? 'gone' : found
}
