/** A job as the simulation runs it: declared with the public API, with input to write and an oracle that knows the output. */
import type { PlainRecordInput } from './plain-batch.ts'
import type { SeededRandom } from './seeded-random.ts'
import type { JobDeclaration } from './simulated-worker.ts'
import type { JobLimits, Scenario } from './simulation-scenario.ts'
import { type SeenRecord, type Unit, unitName, unitsOf } from './simulation-units.ts'

/** Records by topic. */
export type RecordsByTopic = ReadonlyMap<string, readonly SeenRecord[]>

/** How a run went, as far as an oracle has to know. */
export interface RunFacts {
  /** Some of the output was written again, so behind what came after it. */
  readonly healed: boolean
  readonly scenario: Scenario
}

/** A job as the simulation runs it. Output values carry `from`, the topic, partition and offset of the record they were made of. */
export interface SimulatedJob {
  readonly name: string
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
  /** Group of its sources. */
  readonly groupId: string
  /** What it cannot be asked to go through. */
  readonly limits?: JobLimits
  declare(scenario: Scenario): JobDeclaration
  /** A record of the input; `now` is when it is written. */
  record(random: SeededRandom, scenario: Scenario, now: number): PlainRecordInput
  /**
   * A record that comes after the others of each partition again and again, if the job needs one: a job that starts again from positions
   * behind the last record has no watermark until another one comes.
   */
  closing?(now: number): PlainRecordInput
  /** Origins that an output holds in the end. */
  expected(input: RecordsByTopic): ReadonlyMap<string, readonly Unit[]>
  /** What is wrong with the output, given the whole input; empty = nothing. */
  verify(input: RecordsByTopic, output: RecordsByTopic, facts: RunFacts): string[]
}

/** What outputs lack of the origins that they owe, in words; repeated ones do not matter. */
export function missingOrigins(
  expected: ReadonlyMap<string, readonly Unit[]>,
  output: RecordsByTopic,
): string[] {
  return [...expected].flatMap(([topic, units]) => {
    const found = new Set((output.get(topic) ?? []).flatMap(({ value }) => unitsOf(value).map(unitName)))
    const lost = units.filter((unit) => !found.has(unitName(unit)))
    return lost.length === 0
      ? []
      : [`${topic}: ${lost.length} records are missing, e.g. the one made of ${unitName(lost[0]!)}`]
  })
}
