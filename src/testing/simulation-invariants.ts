/**
 * What must hold at every step of a simulated job, judged from the brokers' logs alone:
 *
 * - output that readers can see is covered by a completed checkpoint, and no record of it was seen before
 * - completed checkpoints only grow; none is written twice; the latest one is readable at any moment
 * - after the end of a run nothing of it is written
 *
 * and at the end: no transaction open, last stable offset = high watermark, group offsets = positions of the latest checkpoint.
 */
import type { AttemptRecord } from '../checkpoint/checkpoint-store.ts'
import { type CompletedCheckpoint, decodeCheckpoint, handlesOf } from '../checkpoint/completed-checkpoint.ts'
import type { Clock } from '../core/ports.ts'
import { chunkKey, isChunkKey } from '../kafka/topic-blob-store.ts'
import { jobTopic } from '../kafka/transactional-id.ts'
import { CommittedReader } from './committed-reader.ts'
import { BrokerRefusal } from './simulated-broker-error.ts'
import type { SimulatedKafka } from './simulated-cluster.ts'

/** Where a record of the output came from; every job of a simulation writes it along. */
export interface Origin {
  readonly topic: string
  readonly partition: number
  readonly offset: number
}

/** A record of the input or output. */
export interface SeenRecord {
  readonly partition: number
  readonly offset: bigint
  readonly key: string | null
  readonly value: any
}

/** What the invariants watch. */
export interface InvariantOptions {
  readonly kafka: SimulatedKafka
  readonly clock: Clock
  readonly jobName: string
  readonly outputs: readonly string[]
  /** Group of the sources, and their topics. */
  readonly groupId: string
  readonly inputs: readonly string[]
  /** Names of blobs in the shared directory; undefined = snapshots are in the checkpoint topic. */
  readonly directory: (() => readonly string[]) | undefined
  readonly onViolation: (what: string) => void
}

interface Uncovered {
  readonly topic: string
  readonly origin: Origin
  until: number
}

/** How long the marker of the commit point may come after that of the output: both were decided in the right order. */
const MARKER_GRACE_MS = 400

/** Watches the logs of one run. */
export class SimulationInvariants {
  readonly #options: InvariantOptions
  /** Visible output, by topic. */
  readonly output = new Map<string, SeenRecord[]>()
  readonly #seen = new Map<string, Set<string>>()
  readonly #completed = new Map<string, CompletedCheckpoint>()
  readonly #everCompleted = new Set<string>()
  readonly #chunks = new Set<string>()
  #latest: CompletedCheckpoint | undefined
  #attempt = 0
  #leader = ''
  #endedRun: string | undefined
  #uncovered: Uncovered[] = []
  /** Next offset to read by input partition, of the latest completed checkpoint. */
  #positions = new Map<string, bigint>()
  #checkpoints: CommittedReader | undefined
  #changes = 0

  constructor(options: InvariantOptions) {
    this.#options = options
    for (const topic of options.outputs) {
      const records: SeenRecord[] = []
      const seen = new Set<string>()
      this.output.set(topic, records)
      this.#seen.set(topic, seen)
      for (const [partition, { log }] of this.#partitionsOf(topic).entries()) {
        const reader = new CommittedReader(log)
        log.watch(() => this.#readOutput(topic, partition, reader))
      }
    }
  }

  /** Completed checkpoints that were written in this run, checkpoint 0 included. */
  get completedCount(): number {
    return this.#everCompleted.size
  }

  /** Number of the latest attempt. */
  get attempt(): number {
    return this.#attempt
  }

  /** Incarnation of the worker whose attempt is the latest. */
  get leader(): string {
    return this.#leader
  }

  /** Grows when there is something new to see. */
  get changes(): number {
    return this.#changes
  }

  /** Called after every step. */
  step(): void {
    if (this.#checkpoints === undefined) this.#watchCheckpoints()
    if (this.#uncovered.length === 0) return
    const now = this.#options.clock.now()
    const { live, nodes } = this.#options.kafka.inside.topics
    // Without its leader a partition gets no marker.
    if (live.size < nodes.length) for (const late of this.#uncovered) late.until = now + MARKER_GRACE_MS
    const first = this.#uncovered.find(({ until }) => until < now)
    if (first !== undefined)
      this.#violate(
        `output was visible before its checkpoint was complete: ${first.topic} has ${originOf(first.origin)}`,
      )
  }

  /** True if no transaction is open on the topics. */
  isDecided(topics: readonly string[]): boolean {
    return topics.every((topic) =>
      this.#partitionsOf(topic).every(({ log }) => log.lastStableOffset === log.highWatermark),
    )
  }

  /** Records of an input that a job may see, by now. */
  input(topic: string): SeenRecord[] {
    return this.#partitionsOf(topic).flatMap(({ log }, partition) =>
      new CommittedReader(log).read().map((record) => seenRecord(partition, record)),
    )
  }

  /**
   * The run ended well: nothing may be left behind. An open transaction without records holds nobody back (a late duplicate of a request
   * can open one), so the logs are judged, not the coordinator.
   */
  atEnd(): void {
    const { inputs, outputs, jobName } = this.#options
    for (const topic of [...outputs, jobTopic(jobName, 'checkpoints')])
      for (const [partition, { log }] of this.#partitionsOf(topic).entries())
        if (log.lastStableOffset !== log.highWatermark)
          this.#violate(
            `${topic}-${partition} has an open transaction: last stable offset ${log.lastStableOffset}, high watermark ${log.highWatermark}`,
          )
    const latest = this.#latest
    if (latest === undefined) return
    for (const topic of inputs)
      for (const [partition] of this.#partitionsOf(topic).entries()) {
        const expected = this.#positions.get(`${topic}/${partition}`)
        const committed = this.#committedOffset(topic, partition)
        if (expected !== committed && latest.n > 0)
          this.#violate(
            `group offset of ${topic}-${partition} is ${committed}; checkpoint ${latest.n} has position ${expected}`,
          )
      }
  }

  /** Undefined while a transaction with it is undecided. */
  #committedOffset(topic: string, partition: number): bigint | undefined {
    const { kafka, groupId } = this.#options
    try {
      return kafka.inside.groups.offsets(groupId, [{ topic, partition }])[0]
    } catch (error) {
      if (error instanceof BrokerRefusal) return undefined
      throw error
    }
  }

  #partitionsOf(topic: string) {
    return this.#options.kafka.inside.topics.get(topic)?.partitions ?? []
  }

  #violate(what: string): void {
    this.#options.onViolation(what)
  }

  #readOutput(topic: string, partition: number, reader: CommittedReader): void {
    const seen = this.#seen.get(topic)!
    for (const record of reader.read()) {
      const found = seenRecord(partition, record)
      this.#changes++
      this.output.get(topic)!.push(found)
      const origin = found.value.from as Origin
      const name = originOf(origin)
      if (seen.has(name)) this.#violate(`${topic} holds the record made of ${name} twice`)
      seen.add(name)
      if (!this.#covers(origin))
        this.#uncovered.push({ topic, origin, until: this.#options.clock.now() + MARKER_GRACE_MS })
    }
  }

  #covers({ topic, partition, offset }: Origin): boolean {
    return BigInt(offset) < (this.#positions.get(`${topic}/${partition}`) ?? 0n)
  }

  #watchCheckpoints(): void {
    const [found] = this.#partitionsOf(jobTopic(this.#options.jobName, 'checkpoints'))
    if (found === undefined) return
    const reader = new CommittedReader(found.log)
    this.#checkpoints = reader
    found.log.watch(() => {
      for (const { key, value } of reader.read()) this.#entry(key!.toString(), value)
    })
  }

  #entry(key: string, value: Buffer | null): void {
    this.#changes++
    if (isChunkKey(key)) {
      if (value === null) this.#chunks.delete(key)
      else this.#chunks.add(key)
      if (value === null) this.#checkReadable()
      return
    }
    if (key.startsWith('completed/')) {
      if (value === null) this.#completed.delete(key)
      else this.#complete(key, decodeCheckpoint(value.toString(), key))
      return
    }
    if (key === 'attempt' && value !== null) {
      const { attempt, incarnation } = JSON.parse(value.toString()) as AttemptRecord
      this.#leader = incarnation
      if (attempt < this.#attempt) this.#violate(`attempt ${attempt} started after attempt ${this.#attempt}`)
      this.#attempt = attempt
      this.#endedRun = undefined
    }
    if (key === 'job' && value !== null) {
      const { run, status } = JSON.parse(value.toString()) as { run: string; status: string }
      if (status === 'FINISHED' || status === 'CANCELED') this.#endedRun = run
    }
  }

  #complete(key: string, checkpoint: CompletedCheckpoint): void {
    if (this.#everCompleted.has(key)) this.#violate(`checkpoint ${checkpoint.n} was completed twice`)
    this.#everCompleted.add(key)
    if (this.#endedRun === checkpoint.run)
      this.#violate(`checkpoint ${checkpoint.n} was completed after the end of the run`)
    const latest = this.#latest
    if (latest !== undefined && latest.run === checkpoint.run && latest.n >= checkpoint.n)
      this.#violate(`checkpoint ${checkpoint.n} was completed after ${latest.n}`)
    if (checkpoint.attempt < this.#attempt)
      this.#violate(
        `attempt ${checkpoint.attempt} completed checkpoint ${checkpoint.n} after attempt ${this.#attempt} had started`,
      )
    this.#completed.set(key, checkpoint)
    this.#latest = checkpoint
    const positions = new Map<string, bigint>()
    for (const { splits } of checkpoint.states)
      for (const split of (splits ?? []) as { topic: string; partition: number; position: string }[]) {
        const id = `${split.topic}/${split.partition}`
        const before = this.#positions.get(id) ?? 0n
        if (BigInt(split.position) < before)
          this.#violate(`checkpoint ${checkpoint.n} moved ${id} back from ${before} to ${split.position}`)
        positions.set(id, BigInt(split.position))
      }
    this.#positions = positions
    this.#uncovered = this.#uncovered.filter(({ origin }) => !this.#covers(origin))
    this.#checkReadable()
  }

  /** What a recovery would read must be there at any moment. */
  #checkReadable(): void {
    const latest = this.#latest
    if (latest === undefined) return
    const names = this.#options.directory?.()
    for (const handle of handlesOf(latest)) {
      if (handle.kind !== 'topic') continue
      const missing =
        names === undefined
          ? Array.from({ length: handle.chunks }, (_, i) => chunkKey(handle.name, i)).find(
              (key) => !this.#chunks.has(key),
            )
          : names.includes(handle.name)
            ? undefined
            : handle.name
      if (missing !== undefined)
        this.#violate(`the latest checkpoint ${latest.n} names ${missing}, which is gone`)
    }
  }
}

function originOf({ topic, partition, offset }: Origin): string {
  return `${topic}-${partition} offset ${offset}`
}

function seenRecord(
  partition: number,
  record: { readonly offset: bigint; readonly key: Buffer | null; readonly value: Buffer | null },
): SeenRecord {
  return {
    partition,
    offset: record.offset,
    key: record.key?.toString() ?? null,
    value: record.value === null ? null : JSON.parse(record.value.toString()),
  }
}
