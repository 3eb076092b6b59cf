/**
 * The worker's end of a job's control topic. The leader reads commands and answers them; standbys keep only the place where the topic ended
 * before they joined the group, so that a command whose leader died is answered by its successor.
 *
 *   Waiting ──serve──▶ Serving ──pause──▶ Waiting
 *      └───────────────────┴──close──▶ Closed
 *
 * A command is done once: its final answer is in the topic, and whoever serves passes over commands that have one. A leader that dies between
 * doing and answering makes its successor do it again, which every command allows. While one is being done it is *accepted* again and again:
 * a sender that hears nothing knows that it was lost with the leader, whose successor may have started after it. A leader that loses the job
 * answers nothing more: what it finds would contradict the one that goes on with it.
 */
import { deadline } from '../core/deadline.ts'
import type { CommandHandler, JobCommand, JobControl, JobEvent } from '../core/job-control.ts'
import type { TimerHandle, World } from '../core/ports.ts'
import { isMillraceError, MillraceError } from '../errors.ts'
import {
  type CommandAnswer,
  type ControlRecord,
  commandFailure,
  decodeControlRecord,
  encodeControlRecord,
  MAX_RECORD_BYTES,
  writeControlRecords,
} from './control-records.ts'
import type { KafkaCluster } from './kafka-cluster.ts'
import { ownTopic } from './own-topics.ts'
import { endOffset } from './topic-offsets.ts'
import { TopicTail } from './topic-tail.ts'
import { jobTopic } from './transactional-id.ts'

/** How long a read waits for a command, in ms. */
const POLL_MS = 500
/** Between two tries while the topic cannot be read, in ms. */
const RETRY_MS = 1_000
/** Events are written together, at most this often, in ms. */
const PUBLISH_MS = 250
/** Events kept while Kafka does not take them. */
const MAX_EVENTS = 1_000
/** While a command is being done its sender hears so, this often, in ms. */
export const SIGN_OF_LIFE_MS = 5_000
/** Repeats of a command come soon after it: it is enough to know so many that were answered. */
const MAX_ANSWERED = 1_000

export interface ControlTopicOptions {
  readonly cluster: KafkaCluster
  readonly jobName: string
  readonly world: World
  /** -1 = min(3, brokers). */
  readonly replicationFactor: number
}

interface ReceivedCommand {
  readonly command: JobCommand
  readonly by: string
}

export class ControlTopic implements JobControl {
  readonly #options: ControlTopicOptions
  readonly #topic: string
  #tail: TopicTail | undefined
  /** Where the topic ended when it was read through for the first time; what is before it waits until then. */
  #caughtUp = false
  readonly #pending = new Map<string, ReceivedCommand>()
  /** Commands that are being done. */
  readonly #doing = new Map<string, ReceivedCommand>()
  /** Commands that have their final answer, the latest ones. */
  readonly #answered = new Set<string>()
  readonly #busy = new Set<Promise<void>>()
  /** Grows whenever this worker leaves commands to another one. */
  #term = 0
  #handle: CommandHandler | undefined
  #loop: Promise<void> | undefined
  #closed = false
  readonly #events: JobEvent[] = []
  #publishing: TimerHandle | undefined
  /** Writes are made one after another, so that answers come in their order. */
  #writes: Promise<void> = Promise.resolve()

  constructor(options: ControlTopicOptions) {
    this.#options = options
    this.#topic = jobTopic(options.jobName, 'control')
  }

  /** Makes the topic if need be and notes its end; before this worker joins the group. */
  async open(): Promise<void> {
    const { cluster, jobName, replicationFactor } = this.#options
    const [known] = await cluster.describeTopics([this.#topic])
    if (known === undefined) {
      await cluster.createTopics([await ownTopic(cluster, jobName, 'control', replicationFactor)])
    } else if (known.partitions.length !== 1)
      throw new MillraceError(
        'MILLRACE_INVALID_OPTION',
        `topic ${this.#topic} has ${known.partitions.length} partitions; the control topic must have one`,
        { remedy: 'Delete the topic; the job makes it again.' },
      )
    this.#tail = new TopicTail(cluster, this.#topic, await endOffset(cluster, this.#topic))
  }

  serve(handle: CommandHandler): void {
    if (this.#closed) return
    this.#handle = handle
    this.#loop ??= this.#read().finally(() => {
      this.#loop = undefined
      // Paused and asked again while the last read was under way.
      if (this.#handle !== undefined) this.serve(this.#handle)
    })
  }

  pause(): void {
    this.#handle = undefined
    this.#term++
    // If this worker comes to lead again, only what nobody else has answered meanwhile is left to do.
    this.#caughtUp = false
    for (const [id, received] of this.#doing) this.#pending.set(id, received)
    this.#doing.clear()
  }

  publish(event: JobEvent): void {
    if (this.#closed) return
    if (this.#events.length >= MAX_EVENTS) this.#events.shift()
    this.#events.push(event)
    const { timers } = this.#options.world
    this.#publishing ??= timers.schedule(PUBLISH_MS, () => this.#flush(), true)
  }

  async close(graceMs: number): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#handle = undefined
    this.#publishing?.cancel()
    this.#flush()
    const over = deadline(this.#options.world.timers, graceMs)
    await Promise.race([this.#settled(), over.expired])
    over.cancel()
  }

  async #settled(): Promise<void> {
    await Promise.allSettled([...this.#busy])
    await this.#writes
  }

  get #serving(): boolean {
    return this.#handle !== undefined && !this.#closed
  }

  async #read(): Promise<void> {
    const { world } = this.#options
    const tail = this.#tail
    if (tail === undefined) throw new TypeError('the control topic was not opened')
    while (this.#serving) {
      try {
        const records = await tail.next(this.#caughtUp ? POLL_MS : 0)
        for (const { value } of records) this.#note(decodeControlRecord(value))
        if (records.length === 0) this.#caughtUp = true
        if (this.#caughtUp) this.#obey()
      } catch (error) {
        if (!this.#serving) return
        world.logger.warn(`cannot read commands from ${this.#topic}; trying again`, { error })
        await world.timers.sleep(RETRY_MS)
      }
    }
  }

  #note(record: ControlRecord | undefined): void {
    switch (record?.kind) {
      case 'command':
        // A request that was repeated, because its answer was lost, is written twice.
        if (this.#doing.has(record.id) || this.#answered.has(record.id)) return
        this.#pending.set(record.id, { command: record.command, by: record.by })
        this.#options.world.logger.info(`command '${record.command.type}' from ${record.by}`)
        return
      case 'answer':
        if (record.answer.type === 'accepted') return
        this.#pending.delete(record.id)
        this.#noteAnswered(record.id)
        return
      case 'withdrawn':
        this.#pending.delete(record.id)
        return
    }
  }

  #noteAnswered(id: string): void {
    this.#answered.add(id)
    if (this.#answered.size <= MAX_ANSWERED) return
    const [oldest] = this.#answered
    this.#answered.delete(oldest as string)
  }

  #obey(): void {
    const handle = this.#handle
    if (handle === undefined) return
    for (const [id, received] of this.#pending) {
      this.#pending.delete(id)
      this.#doing.set(id, received)
      const work = this.#do(id, received, handle).finally(() => this.#busy.delete(work))
      this.#busy.add(work)
    }
  }

  async #do(id: string, { command, by }: ReceivedCommand, handle: CommandHandler): Promise<void> {
    const term = this.#term
    const stop = this.#acceptUntilStopped(id, term, handle)
    let answer: CommandAnswer
    try {
      answer = { type: 'done', result: await handle(command) }
      const { value } = encodeControlRecord({ kind: 'answer', id, answer })
      if (Buffer.byteLength(value as string) > MAX_RECORD_BYTES)
        throw new MillraceError('MILLRACE_INTERNAL', `the answer to '${command.type}' is too long to be sent`)
    } catch (error) {
      // The job is another worker's, whether this one was told so already or not.
      if (isMillraceError(error) && error.code === 'MILLRACE_ATTEMPT_LOST') {
        stop()
        return
      }
      answer = { type: 'refused', failure: commandFailure(error) }
    }
    stop()
    if (term !== this.#term) return
    this.#doing.delete(id)
    this.#noteAnswered(id)
    this.#answer(id, answer)
    // Also for a sender that went away: it is in the events.
    if (command.type !== 'info') this.#tell(command, by, answer)
  }

  /** Says that the command is being done, again and again, until the answer is called. */
  #acceptUntilStopped(id: string, term: number, handle: CommandHandler): () => void {
    const { timers } = this.#options.world
    let timer: TimerHandle | undefined
    const accept = (): void => {
      if (term !== this.#term) return
      this.#answer(id, { type: 'accepted', ...handle.progress?.() })
      timer = timers.schedule(SIGN_OF_LIFE_MS, accept, true)
    }
    accept()
    return () => timer?.cancel()
  }

  #tell(command: JobCommand, by: string, answer: CommandAnswer): void {
    const end = answer.type === 'refused' ? `refused: ${answer.failure.message}` : 'done'
    const event: JobEvent = {
      at: this.#options.world.clock.now(),
      type: 'command',
      message: `command '${command.type}' from ${by}: ${end}`,
      details: { ...command, by, ...answer },
    }
    if (this.#closed) this.#write([{ kind: 'event', event }])
    else this.publish(event)
  }

  #answer(id: string, answer: CommandAnswer): void {
    this.#write([{ kind: 'answer', id, answer }])
  }

  #flush(): void {
    this.#publishing = undefined
    const events = this.#events.splice(0)
    if (events.length > 0) this.#write(events.map((event) => ({ kind: 'event', event })))
  }

  /** Failures are logged: whoever waits for an answer learns of it by waiting in vain, and says so. */
  #write(records: readonly ControlRecord[]): void {
    const { cluster, world } = this.#options
    this.#writes = this.#writes.then(() =>
      writeControlRecords(cluster, this.#topic, records, world.clock.now()).catch((error: unknown) =>
        world.logger.warn(`cannot write to ${this.#topic}`, { error }),
      ),
    )
  }
}
