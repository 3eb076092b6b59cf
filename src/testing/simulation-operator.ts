/**
 * A person with the command line, somewhere in the network: sends commands over the job's control topic and judges the answers.
 *
 *   sent ──► answered: done or refused ──► what was said to be done must be so
 *     └────► given up: said so, within its time
 *
 * At the end each command in the topic has one final answer, or none. Only another worker may have given another one: a leader that stood
 * still, or died over a command, does not know what its successor answers.
 */
import type { CommandOutcome, JobCommand } from '../core/job-control.ts'
import type { World } from '../core/ports.ts'
import { isMillraceError } from '../errors.ts'
import { sendCommand } from '../kafka/control-client.ts'
import { decodeControlRecord } from '../kafka/control-records.ts'
import { jobTopic } from '../kafka/transactional-id.ts'
import { MetricRegistry } from '../metrics/metrics.ts'
import { CommittedReader } from './committed-reader.ts'
import type { SeededRandom } from './seeded-random.ts'
import type { SimulatedKafka } from './simulated-cluster.ts'
import type { SimulatedSavepoints } from './simulated-savepoints.ts'
import type { SimulationInvariants } from './simulation-invariants.ts'
import { describeError, type SimulationTrace } from './simulation-trace.ts'
import type { VirtualTime } from './virtual-time.ts'

/** Name of the operator's connection. */
export const OPERATOR = 'operator'
/** Where its savepoints go. */
export const SAVEPOINTS = '/savepoints'
/** A leader that died is replaced within a session time-out. */
const ACCEPT_WITHIN_MS = 15_000
/** Nobody waits longer for a command when the world is calm. */
const ANSWER_WITHIN_MS = 240_000

/** What the operator works with. */
export interface OperatorOptions {
  readonly kafka: SimulatedKafka
  readonly time: VirtualTime
  readonly random: SeededRandom
  readonly trace: SimulationTrace
  readonly jobName: string
  readonly savepoints: SimulatedSavepoints
  readonly invariants: () => SimulationInvariants
  /** Workers that ever started. */
  readonly workers: () => number
  readonly onViolation: (what: string) => void
}

/** Sends commands. */
export class SimulationOperator {
  readonly #options: OperatorOptions
  readonly #world: World
  readonly #counts = new Map<string, number>()
  #outstanding = 0

  constructor(options: OperatorOptions) {
    const { time, random, trace } = options
    this.#options = options
    this.#world = {
      clock: time,
      timers: time,
      random: random.fork('ids'),
      logger: trace.logger(OPERATOR),
      metrics: new MetricRegistry(),
    }
  }

  /** Commands by what came of them. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts
  }

  /** Commands that nobody has answered, and that were not given up. */
  get outstanding(): number {
    return this.#outstanding
  }

  /** Draws commands for the next so many ms. */
  plan(count: number, withinMs: number): void {
    const { random, time } = this.#options
    for (let i = 0; i < count; i++) {
      const command = random.pick<JobCommand>([
        { type: 'checkpoint' },
        { type: 'savepoint', path: SAVEPOINTS },
        { type: 'info' },
      ])
      time.schedule(random.integer(0, withinMs), () => void this.send(command))
    }
  }

  /** Resolves with the answer, or undefined when there is none. Never rejects. */
  async send(command: JobCommand): Promise<CommandOutcome | undefined> {
    const { kafka, jobName, trace, onViolation, time } = this.#options
    const sentAt = time.now()
    this.#outstanding++
    trace.note(OPERATOR, `sends ${command.type}`)
    // A process of its own for each command, as on a command line.
    const client = kafka.client(OPERATOR)
    try {
      const wait = { by: OPERATOR, acceptWithinMs: ACCEPT_WITHIN_MS }
      const outcome = await sendCommand(client, jobName, command, this.#world, wait)
      trace.note(OPERATOR, `${command.type}: ${outcome.type}`, () => JSON.stringify(outcome))
      this.#count(`command ${command.type} ${outcome.type}`)
      if (outcome.type === 'done') this.#judge(command, outcome.result)
      return outcome
    } catch (error) {
      trace.note(OPERATOR, `${command.type}: no answer`, () => describeError(error))
      this.#count(`command ${command.type} unanswered`)
      if (!isHonest(error)) onViolation(`command '${command.type}' failed: ${describeError(error)}`)
      return undefined
    } finally {
      this.#outstanding--
      if (time.now() - sentAt > ANSWER_WITHIN_MS)
        onViolation(`command '${command.type}' was answered after ${time.now() - sentAt} ms only`)
    }
  }

  /** All answers that are in the topic. */
  atEnd(): void {
    const { kafka, jobName, workers, onViolation } = this.#options
    const [partition] = kafka.inside.topics.get(jobTopic(jobName, 'control'))?.partitions ?? []
    if (partition === undefined) return
    const answers = new Map<string, Set<string>>()
    for (const { value } of new CommittedReader(partition.log).read()) {
      const record = value === null ? undefined : decodeControlRecord(value.toString())
      if (record?.kind !== 'answer' || record.answer.type === 'accepted') continue
      const given = answers.get(record.id) ?? new Set<string>()
      given.add(JSON.stringify(record.answer))
      answers.set(record.id, given)
    }
    for (const given of answers.values())
      if (given.size > workers()) onViolation(`a command was answered twice: ${[...given].join(', then ')}`)
  }

  /** What was said to be done must be so. */
  #judge(command: JobCommand, result: Readonly<Record<string, unknown>>): void {
    const { invariants, savepoints, onViolation } = this.#options
    switch (command.type) {
      case 'checkpoint':
        if (!invariants().hasCompleted(result['checkpoint'] as number))
          onViolation(`checkpoint ${String(result['checkpoint'])} was said to be complete and is not`)
        return
      case 'savepoint':
      case 'stop':
        try {
          const { states } = savepoints.open(String(result['path']))
          for (const { keyed, operator } of states)
            for (const handle of [keyed?.kind === undefined ? keyed?.handle : undefined, operator])
              if (handle?.kind === 'kept') savepoints.read(handle)
        } catch (error) {
          onViolation(`savepoint ${String(result['path'])} was said to be taken: ${describeError(error)}`)
        }
        return
      default:
        return
    }
  }

  #count(what: string): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1)
  }
}

/** Errors that say that there was no answer. */
function isHonest(error: unknown): boolean {
  return (
    isMillraceError(error) &&
    (error.retriable || error.code === 'MILLRACE_NO_SUCH_JOB' || error.code === 'MILLRACE_COMMAND_UNANSWERED')
  )
}
