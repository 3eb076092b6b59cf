/** Collects what a running job does and what it waits for. */
import type { PendingInfo, TaskInfo } from '../core/job-info.ts'
import type { CheckpointDriver } from './checkpoint-driver.ts'
import type { Task } from './task.ts'

/** Ms that a checkpoint may take before it is worth a word. */
const SLOW_CHECKPOINT_MS = 10_000
/** Ms that records may wait for the barriers of a checkpoint before it is worth a word. */
const SLOW_ALIGNMENT_MS = 2_000
/** Of 1,000 ms. */
const MOSTLY = 500

export function tasksInfo(tasks: readonly Task[]): TaskInfo[] {
  return tasks.map((task) => ({
    id: task.id,
    name: task.name,
    load: task.load.rates(),
    state: task.describe(),
    // Where no watermarks are made nothing waits for one.
    watermarkHeldBackBy: task.hasEventTime ? task.watermarkHeldBackBy() : [],
    alignment: task.alignment(),
    operators: task.describeOperators(),
  }))
}

export function pendingInfo(driver: CheckpointDriver, tasks: readonly Task[], now: number): PendingInfo[] {
  const names = new Map(tasks.map((task) => [task.id, task.name]))
  return driver.coordinator.inFlight.map(({ n, phase, missing, triggeredAt }) => ({
    n,
    phase,
    ms: now - triggeredAt,
    missing: missing.map((id) => names.get(id) ?? id),
  }))
}

/** What stands out. */
export function findings(tasks: readonly TaskInfo[], pending: readonly PendingInfo[]): string[] {
  const found: string[] = []
  for (const { n, ms, missing } of pending)
    if (ms >= SLOW_CHECKPOINT_MS)
      found.push(
        `checkpoint ${n} has been under way for ${Math.round(ms / 1_000)} s; it waits for ${missing.join(', ') || 'its commit point'}`,
      )
  for (const { name, alignment } of tasks) {
    const ms = Math.max(0, ...(alignment?.blocked ?? []).map((each) => each.ms))
    if (alignment === undefined || ms < SLOW_ALIGNMENT_MS) continue
    found.push(
      `${name}: checkpoint ${alignment.checkpoint} blocks ${alignment.blocked.map(({ from }) => from).join(', ')} for ${Math.round(ms / 1_000)} s, until the barrier comes from ${alignment.missing.join(', ')}`,
    )
  }
  const pressed = tasks.filter(({ load }) => load.backpressured >= MOSTLY)
  if (pressed.length > 0) {
    // Whoever is busy behind those that wait is the one that is too slow.
    const slow = tasks.filter(({ load }) => load.busy >= MOSTLY && load.backpressured < MOSTLY)
    const names = pressed.map(({ name }) => name).join(', ')
    found.push(
      slow.length === 0
        ? `backpressure on ${names}`
        : `${names} wait for room: ${slow.map(({ name, load }) => `${name} is busy ${load.busy} ms of every second`).join(', ')}`,
    )
  }
  for (const { name, watermarkHeldBackBy: held } of tasks)
    if (held.length > 0) found.push(`event time of ${name} waits for ${held.join(', ')}`)
  return found
}
