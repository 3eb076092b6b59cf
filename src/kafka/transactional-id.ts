/**
 * Names of transactional ids: `[userPrefix.]millrace.<job>.<uid>.<subtask>.<slot>`. Parsed, never prefix-compared: job `a` is not job `a.b`,
 * because both parts are encoded without dots.
 */
import { encodeJobName } from '../core/job-name.ts'

/** Leaves room for a user's prefix and the numbers below Kafka's 249 characters for names. */
const JOB_BYTES = 80
const UID_BYTES = 44

/** Everything before `.<subtask>.<slot>`. */
export function transactionalIdPrefix(jobName: string, uid: string, userPrefix: string | undefined): string {
  const own = `millrace.${encodeJobName(jobName, JOB_BYTES)}.${encodeJobName(uid, UID_BYTES)}`
  return userPrefix === undefined ? own : `${userPrefix}.${own}`
}

export function transactionalId(prefix: string, subtask: number, slot: number): string {
  return `${prefix}.${subtask}.${slot}`
}

/** Parts of an id, or undefined when it is not one of ours. */
export function parseTransactionalId(
  id: string,
): { prefix: string; subtask: number; slot: number } | undefined {
  const match = /^(.+)\.(\d{1,6})\.(\d{1,4})$/.exec(id)
  if (match === null) return undefined
  const [, prefix, subtask, slot] = match as unknown as [string, string, string, string]
  return { prefix, subtask: Number(subtask), slot: Number(slot) }
}

/** A prefix without its user's part: `millrace.<job>.<uid>`. */
const OWN = /^(?:(.+)\.)?millrace\.([a-zA-Z0-9_-]+)\.[a-zA-Z0-9_-]+$/

/** Who an id, or the prefix of one, belongs to: the job as it is written in topic names, and the user's prefix. Undefined = not one of ours. */
export function ownerOfId(id: string): { userPrefix: string | undefined; job: string } | undefined {
  const match = OWN.exec(parseTransactionalId(id)?.prefix ?? id)
  return match === null ? undefined : { userPrefix: match[1], job: match[2] as string }
}

/** Transactional id of a job's coordinator: the fence of the whole job. */
export function coordinatorId(jobName: string): string {
  return `millrace.${encodeJobName(jobName, JOB_BYTES)}.coordinator`
}

/** Name of a job's own topic. */
export function jobTopic(jobName: string, kind: 'control' | 'checkpoints'): string {
  return `millrace.${encodeJobName(jobName, JOB_BYTES)}.${kind}`
}

/** Group in which the workers of a job meet. */
export function workerGroupId(jobName: string): string {
  return workerGroupOf(encodeJobName(jobName, JOB_BYTES))
}

/** The same for a job's name as it is written in ids and topic names. */
export function workerGroupOf(job: string): string {
  return `millrace.${job}`
}
