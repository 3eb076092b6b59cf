/** Simulated jobs that ask something outside for each record: it takes its time, refuses now and then, and is asked again. */

import type { RecordsByTopic, SimulatedJob } from '../../src/testing/simulated-job.ts'
import type { Scenario } from '../../src/testing/simulation-scenario.ts'
import type { Origin, SeenRecord } from '../../src/testing/simulation-units.ts'
import { type Event, events, origins, record, sink, source, values } from './job-ends.ts'
import { difference } from './oracle.ts'

/** A record with what was found out about it. */
interface Answered extends Event {
  /** -1 = there was no time for it. */
  readonly answer: number
}

const ANSWER_MS = 30
const REFUSALS = 0.2
/** From this attempt on nothing is refused. */
const OBLIGING_ATTEMPT = 4
/** So short that some records run into it. */
const TIMEOUT_MS = 60

function asyncJob(ordered: boolean): SimulatedJob {
  const name = ordered ? 'async-ordered' : 'async-unordered'
  const [from, to] = [`${name}-in`, `${name}-out`]
  return {
    name,
    inputs: [from],
    outputs: [to],
    groupId: `${name}-readers`,
    // Records that are asked for when a checkpoint is taken are part of it, not of its output.
    limits: { waitsForTime: true },
    record,
    declare: (scenario) => (env, world) => {
      const answered = source(env, scenario, name, from)
        .asyncMap(
          async (event, { attempt }): Promise<Answered> => {
            await world.sleep(world.random.integer(0, ANSWER_MS))
            if (attempt < OBLIGING_ATTEMPT && world.random.chance(REFUSALS)) throw new Error('busy')
            return { ...event, answer: event.amount * 2 }
          },
          {
            ordered,
            capacity: 4,
            retry: { maxAttempts: OBLIGING_ATTEMPT, backoffMs: 5, multiplier: 2 },
            ...(ordered ? {} : { timeoutMs: TIMEOUT_MS, onTimeout: (event) => ({ ...event, answer: -1 }) }),
          },
        )
        .uid('ask')
      sink(answered, scenario, to, world)
    },
    expected: (input) => origins({ [to]: events(input, from) }),
    verify: (input, output, { healed, scenario }) => {
      const found = values(output, to) as Answered[]
      const expected = events(input, from).map((event) => ({ ...event, answer: event.amount * 2 }))
      const given = found.map((value) =>
        value.answer === -1 && !ordered ? { ...value, answer: value.amount * 2 } : value,
      )
      const problems = difference(to, expected, given)
      return ordered && !healed ? [...problems, ...disorder(output, to, scenario)] : problems
    },
  }
}

/** Records of one input partition and key that come in another order; at a new parallelism records in flight are spread anew. */
function disorder(output: RecordsByTopic, topic: string, { parallelism }: Scenario): string[] {
  if (new Set(parallelism).size > 1) return []
  const last = new Map<string, number>()
  for (const { value } of (output.get(topic) ?? []).toSorted(byPlace)) {
    const { key, from } = value as { key: string; from: Origin }
    const line = `${from.partition}/${key}`
    const before = last.get(line) ?? -1
    if (from.offset <= before)
      return [
        `${topic}: key ${key}: offset ${from.offset} of partition ${from.partition} comes after ${before}`,
      ]
    last.set(line, from.offset)
  }
  return []
}

function byPlace(a: SeenRecord, b: SeenRecord): number {
  return a.partition - b.partition || (a.offset < b.offset ? -1 : 1)
}

/** Answers in the order of the records. */
export const asyncOrdered: SimulatedJob = asyncJob(true)

/** Answers as they come, or none in time. */
export const asyncUnordered: SimulatedJob = asyncJob(false)
