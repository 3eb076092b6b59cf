/** The real clock, timers and chance. The only place of the runtime that reaches for them. */
import { randomUUID } from 'node:crypto'
import type { Clock, Logger, MetricGroup, Random, Timers, World } from '../core/ports.ts'

export const REAL_CLOCK: Clock = { now: () => Date.now() }

export const REAL_TIMERS: Timers = {
  schedule: (delayMs, action, unref = false) => {
    const timer = setTimeout(action, delayMs)
    if (unref) timer.unref()
    return { cancel: () => clearTimeout(timer) }
  },
  turn: () => new Promise((resolve) => setImmediate(resolve)),
  sleep: (delayMs) => new Promise((resolve) => setTimeout(resolve, delayMs)),
}

export const REAL_RANDOM: Random = { next: () => Math.random(), uuid: () => randomUUID() }

export function realWorld(logger: Logger, metrics: MetricGroup): World {
  return { clock: REAL_CLOCK, timers: REAL_TIMERS, random: REAL_RANDOM, logger, metrics }
}
