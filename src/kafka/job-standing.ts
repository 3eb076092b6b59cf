/**
 * In which state a job is that has live workers, by the latest events on its control topic: without asking its leader, which may be busy.
 */
import { JobStatus } from '../core/constants.ts'
import { decodeControlRecord } from './control-records.ts'
import type { KafkaCluster } from './kafka-cluster.ts'
import { endOffset, startOffset } from './topic-offsets.ts'
import { TopicTail } from './topic-tail.ts'

/** So many of the latest records are read. */
const TAIL_RECORDS = 200n

const ENDED: readonly string[] = [
  JobStatus.FINISHED,
  JobStatus.CANCELED,
  JobStatus.FAILED,
  JobStatus.SUSPENDED,
] satisfies JobStatus[]

/** `job` is the name as it is written in topic names. RUNNING if the latest events say nothing of it. */
export async function liveState(cluster: KafkaCluster, job: string): Promise<JobStatus> {
  const topic = `millrace.${job}.control`
  const [known] = await cluster.describeTopics([topic])
  if (known === undefined) return JobStatus.RUNNING
  const [start, end] = [await startOffset(cluster, topic), await endOffset(cluster, topic)]
  const tail = new TopicTail(cluster, topic, end - TAIL_RECORDS > start ? end - TAIL_RECORDS : start)
  const standing = new JobStanding()
  while (tail.position < end)
    for (const { value } of await tail.next(0)) {
      const record = decodeControlRecord(value)
      if (record?.kind === 'event') standing.note(record.event.type, record.event.details ?? {})
    }
  return standing.status
}

/** Follows the events of a job whose workers all write of themselves: what a standby tells is no state of the job. */
export class JobStanding {
  #status: JobStatus = JobStatus.RUNNING

  get status(): JobStatus {
    return this.#status
  }

  note(type: string, { from, to }: Readonly<Record<string, unknown>>): void {
    // A worker that lost the job may say so late, when another one has it.
    if (type === 'checkpoint-completed' && this.#status === JobStatus.CREATED)
      this.#status = JobStatus.RUNNING
    if (type !== 'status' || typeof to !== 'string' || !Object.hasOwn(JobStatus, to)) return
    const ended = ENDED.includes(to)
    if (ended && from === JobStatus.CREATED) return
    // There are workers: another one is taking it over.
    this.#status = ended ? JobStatus.CREATED : (to as JobStatus)
  }
}
