/** The real clock, timers and chance. The only place of the runtime that reaches for them. */
import { randomUUID } from 'node:crypto'
import type { Clock, Logger, MetricGroup, Random, TimerHandle, Timers, World } from '../core/ports.ts'

export const REAL_CLOCK: Clock = { now: () => Date.now() }

/** What Node.js can wait at once; with more it would not wait at all. */
const LONGEST_WAIT_MS = 2_147_483_647

function schedule(delayMs: number, action: () => void, unref = false): TimerHandle {
  let timer: NodeJS.Timeout
  const wait = (restMs: number): void => {
    const stepMs = Math.min(restMs, LONGEST_WAIT_MS)
    timer = setTimeout(() => (restMs > stepMs ? wait(restMs - stepMs) : action()), stepMs)
    if (unref) timer.unref()
  }
  wait(delayMs)
  return { cancel: () => clearTimeout(timer) }
}

export const REAL_TIMERS: Timers = {
  schedule,
  turn: () => new Promise((resolve) => setImmediate(resolve)),
  sleep: (delayMs) => new Promise((resolve) => void schedule(delayMs, resolve)),
}

export const REAL_RANDOM: Random = { next: () => Math.random(), uuid: () => randomUUID() }

export function realWorld(logger: Logger, metrics: MetricGroup): World {
  return { clock: REAL_CLOCK, timers: REAL_TIMERS, random: REAL_RANDOM, logger, metrics }
}
