/** Whether this machine and a server agree on what time it is. */
import { type Diagnosis, fix, ok } from '../core/diagnosis.ts'

/** Clocks may differ by this much: a second is what the answer of a registry tells, the rest is the way of it. In ms. */
const CLOCK_TOLERANCE_MS = 5_000

/** `server`: its name for people. Both times in epoch ms. */
export function compareClocks(check: string, server: string, there: number, here: number): Diagnosis {
  const apart = Math.round(Math.abs(there - here))
  return apart > CLOCK_TOLERANCE_MS
    ? fix(
        check,
        `this machine is ${Math.round(apart / 1_000)} s ${here > there ? 'ahead of' : 'behind'} ${server}`,
        'Let the machines get their time from one source (NTP): processing time and the age of records depend on it.',
      )
    : ok(check, `this machine and ${server} agree`)
}

/** Epoch ms of what Redis answers to TIME: seconds and microseconds, as texts. Undefined for anything else. */
export function timeOfRedis(answer: unknown): number | undefined {
  if (!Array.isArray(answer)) return undefined
  const ms = Number(answer[0]) * 1_000 + Number(answer[1]) / 1_000
  return Number.isFinite(ms) ? ms : undefined
}
