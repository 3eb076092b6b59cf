/**
 * What must hold at every step of a simulated job, judged from the brokers' logs alone:
 *
 * - output that readers can see is covered by a completed checkpoint, once for each run that covers it, and by no run twice
 * - completed checkpoints only grow; none is written twice; all that are stored are readable at any moment (simulation-stored.ts)
 * - after the end of a run nothing of it is written
 *
 * and at the end: no transaction open, last stable offset = high watermark, group offsets = positions of the latest checkpoint.
 */
import type { AttemptRecord, JobRecord } from '../checkpoint/checkpoint-store.ts'
import { type CompletedCheckpoint, decodeCheckpoint } from '../checkpoint/completed-checkpoint.ts'
import type { Clock } from '../core/ports.ts'
import { isChunkKey } from '../kafka/topic-blob-store.ts'
import { jobTopic } from '../kafka/transactional-id.ts'
import { CommittedReader } from './committed-reader.ts'
import type { PlainRecord } from './plain-batch.ts'
import { BrokerRefusal } from './simulated-broker-error.ts'
import type { SimulatedKafka } from './simulated-cluster.ts'
import type { SimulatedState } from './simulated-state.ts'
import { StoredCheckpoints } from './simulation-stored.ts'
import { partsOf, type SeenRecord, type Unit, unitName, unitsOf } from './simulation-units.ts'

/** What the invariants watch. */
export interface InvariantOptions {
  readonly kafka: SimulatedKafka
  readonly clock: Clock
  readonly jobName: string
  readonly outputs: readonly string[]
  /** Group of the sources, and their topics. */
  readonly groupId: string
  readonly inputs: readonly string[]
  readonly state: SimulatedState
  /** Whether output may be repeated and seen early: AT_LEAST_ONCE. */
  readonly mayRepeat: boolean
  readonly onViolation: (what: string) => void
}

interface Uncovered {
  readonly topic: string
  readonly unit: Unit
  /** The so-manieth time that it was seen. */
  readonly times: number
  until: number
}

/** Positions by partition. */
type Positions = ReadonlyMap<string, bigint>

/** The part of the input that a run read: from its start positions to those of its latest completed checkpoint. */
export interface RunRange {
  readonly start: Positions
  readonly end: Positions
  /** Only what was abandoned of it: from a snapshot on that the next run began with, which has the rest for its own. */
  readonly isRest?: boolean
}

/** Checkpoint 0 of a run that is still to begin, with the state of a snapshot. */
interface Base {
  readonly checkpoint: CompletedCheckpoint
  readonly positions: Positions
}

/** How long the marker of the commit point may come after that of the output: both were decided in the right order. */
const MARKER_GRACE_MS = 400

/** Watches the logs of one run. */
export class SimulationInvariants {
  readonly #options: InvariantOptions
  /** Visible output, by topic. */
  readonly output = new Map<string, SeenRecord[]>()
  /** How often each origin was seen, by topic. */
  readonly #seen = new Map<string, Map<string, number>>()
  readonly #stored: StoredCheckpoints
  readonly #everCompleted = new Set<string>()
  readonly #bases = new Map<string, Base>()
  readonly #counts = new Map<string, number>()
  #latest: CompletedCheckpoint | undefined
  #attempt = 0
  #attemptBy = ''
  #leader = ''
  #run: string | undefined
  #endedRun: string | undefined
  #endedAs: string | undefined
  #endedWith: string | undefined
  #uncovered: Uncovered[] = []
  /** Runs before the present one, in order. */
  readonly #earlier: RunRange[] = []
  /** Next offset to read by input partition, of the latest completed checkpoint of this run, and of its checkpoint 0. */
  #positions: Positions = new Map()
  #start: Positions | undefined
  #checkpoints: CommittedReader | undefined
  #changes = 0
  #forgotten = 0

  constructor(options: InvariantOptions) {
    this.#options = options
    this.#stored = new StoredCheckpoints({ state: options.state, graceMs: MARKER_GRACE_MS })
    for (const topic of options.outputs) {
      const records: SeenRecord[] = []
      const seen = new Map<string, number>()
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

  /** Runs that were begun. */
  get runs(): number {
    return this.#run === undefined ? 0 : this.#earlier.length + 1
  }

  /** Whether the present run has its start positions. */
  get begun(): boolean {
    return this.#start !== undefined
  }

  /** How the present run ended; undefined while it did not. */
  get endedAs(): string | undefined {
    return this.#endedAs
  }

  /** The savepoint that the present run was stopped with. */
  get endedWith(): string | undefined {
    return this.#endedWith
  }

  /** How often something came up that not every run has, by name. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts
  }

  /** Checkpoints of the present run that are stored, the oldest first. */
  get stored(): readonly CompletedCheckpoint[] {
    return this.#run === undefined ? [] : this.#stored.of(this.#run)
  }

  /** True if a checkpoint with this number was ever completed, in whatever run. */
  hasCompleted(n: number): boolean {
    return [...this.#everCompleted].some((key) => key.endsWith(`/${n}`))
  }

  /** Something outside of the topics was removed. */
  removed(): void {
    this.#stored.removed()
  }

  /** True if the present run has written all that is expected of it. */
  holds(expected: ReadonlyMap<string, readonly Unit[]>): boolean {
    for (const [topic, units] of expected) {
      const seen = this.#seen.get(topic)!
      if (seen.size < units.length) return false
      for (const unit of units) {
        const earlier = this.#earlier.filter((range) => within(unit, range)).length
        if ((seen.get(unitName(unit)) ?? 0) <= earlier) return false
      }
    }
    return true
  }

  /** Grows when there is something new to see. */
  get changes(): number {
    return this.#changes
  }

  /** The same without what was only forgotten: a start may clean up behind a leader that died before it could. */
  get writes(): number {
    return this.#changes - this.#forgotten
  }

  /** Called after every step. */
  step(): void {
    if (this.#checkpoints === undefined) this.#watchCheckpoints()
    const now = this.#options.clock.now()
    const { live, nodes } = this.#options.kafka.inside.topics
    // Without its leader a partition gets no marker.
    const held = live.size < nodes.length
    const missing = this.#stored.step(
      now,
      () => held || !this.isDecided([jobTopic(this.#options.jobName, 'checkpoints')]),
    )
    if (missing !== undefined) this.#violate(missing)
    if (this.#uncovered.length === 0) return
    if (held) for (const late of this.#uncovered) late.until = now + MARKER_GRACE_MS
    const first = this.#uncovered.find(({ until }) => until < now)
    if (first !== undefined)
      this.#violate(
        `output was visible before its checkpoint was complete: ${first.topic} has ${unitName(first.unit)}`,
      )
  }

  /** True if no transaction is open on the topics. */
  isDecided(topics: readonly string[]): boolean {
    return topics.every((topic) =>
      this.#partitionsOf(topic).every(({ log }) => log.lastStableOffset === log.highWatermark),
    )
  }

  /** Records of an input that the present run may see, by now; `covered`: only those that its latest checkpoint covers. */
  input(topic: string, covered = false): SeenRecord[] {
    return this.#inputOf(topic, { start: this.#start ?? new Map(), end: this.#positions }, covered)
  }

  /** What the runs before the present one read. */
  earlierInput(topic: string): SeenRecord[][] {
    return this.#earlier.map((range) => this.#inputOf(topic, range, true))
  }

  /** Whether the so-manieth earlier run is only the rest of one. */
  isRest(index: number): boolean {
    return this.#earlier[index]?.isRest === true
  }

  #inputOf(topic: string, { start, end }: RunRange, covered: boolean): SeenRecord[] {
    return this.#partitionsOf(topic).flatMap(({ log }, partition) => {
      const id = `${topic}/${partition}`
      const first = start.get(id) ?? 0n
      const last = covered ? (end.get(id) ?? 0n) : undefined
      return new CommittedReader(log)
        .read()
        .filter(({ offset }) => offset >= first && (last === undefined || offset < last))
        .map((record) => seenRecord(partition, record))
    })
  }

  /**
   * The output of each run, the present one last: what a run wrote lies before what a later one wrote, so an origin's first record belongs
   * to the first run that covers it. What followed a snapshot that a later run began with comes before the lists of what belongs together.
   */
  outputByRun(): Map<string, SeenRecord[]>[] {
    const present: RunRange = { start: this.#start ?? new Map(), end: new Map() }
    const runs = [...this.#earlier, present].map(() => new Map<string, SeenRecord[]>())
    for (const [topic, records] of this.output) {
      for (const run of runs) run.set(topic, [])
      const times = new Map<string, number>()
      for (const found of [...records].sort(byPlace)) {
        const unit = unitsOf(found.value)[0] as Unit
        const name = unitName(unit)
        const before = times.get(name) ?? 0
        times.set(name, before + 1)
        const covering = this.#earlier.flatMap((range, i) => (within(unit, range) ? [i] : []))
        runs[covering[before] ?? runs.length - 1]!.get(topic)!.push(found)
      }
    }
    return runs
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
    for (const { topic, unit } of this.#uncovered)
      this.#violate(`${topic} has ${unitName(unit)}, which no completed checkpoint covers`)
    const latest = this.#latest
    if (latest === undefined) return
    for (const topic of inputs)
      for (const [partition] of this.#partitionsOf(topic).entries()) {
        const expected = this.#positions.get(`${topic}/${partition}`)
        const committed = this.#committedOffset(topic, partition)
        // A partition that was not found yet has neither.
        if (expected === undefined && committed === -1n) continue
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
      for (const unit of unitsOf(found.value)) this.#saw(topic, unit, seen)
    }
  }

  #saw(topic: string, unit: Unit, seen: Map<string, number>): void {
    const name = unitName(unit)
    const times = (seen.get(name) ?? 0) + 1
    seen.set(name, times)
    if (this.#options.mayRepeat) return
    const earlier = this.#earlier.filter((range) => within(unit, range)).length
    if (times > earlier + 1)
      this.#violate(`${topic} holds the record made of ${name} ${times === 2 ? 'twice' : `${times} times`}`)
    if (!this.#covers(unit, times))
      this.#uncovered.push({ topic, unit, times, until: this.#options.clock.now() + MARKER_GRACE_MS })
  }

  #covers(unit: Unit, times: number): boolean {
    const earlier = this.#earlier.filter((range) => within(unit, range)).length
    if (times <= earlier) return true
    return times === earlier + 1 && within(unit, { start: this.#start ?? new Map(), end: this.#positions })
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
    if (value === null) this.#forgotten++
    if (isChunkKey(key)) {
      this.#stored.chunk(key, value !== null)
      return
    }
    if (key.startsWith('completed/')) {
      if (value === null) this.#forget(key)
      else this.#complete(key, decodeCheckpoint(value.toString(), key))
      return
    }
    if (key === 'attempt' && value !== null) {
      const { run, attempt, incarnation, startedAt } = JSON.parse(value.toString()) as AttemptRecord
      if (run !== this.#run) this.#begin(run)
      if (this.#latest?.states.some(({ inFlight }) => inFlight !== undefined) === true)
        this.#count('restored records in flight')
      if (this.#latest?.kind === 'savepoint') this.#stored.replacedOutside(run, this.#latest.n)
      // One take-over writes its attempt once for the run that it finishes and once for the one that it begins.
      const takeOver = `${incarnation} at ${startedAt}`
      if (attempt === this.#attempt && takeOver !== this.#attemptBy)
        this.#violate(`attempt ${attempt} was started twice: ${this.#attemptBy}, and ${takeOver}`)
      this.#attemptBy = takeOver
      this.#leader = incarnation
      if (attempt < this.#attempt) this.#violate(`attempt ${attempt} started after attempt ${this.#attempt}`)
      this.#attempt = attempt
      this.#endedRun = undefined
      this.#endedAs = undefined
      this.#endedWith = undefined
    }
    if (key === 'job' && value !== null) {
      const { run, status, savepoint } = JSON.parse(value.toString()) as JobRecord
      this.#endedAs = status
      this.#endedWith = savepoint
      if (status === 'FINISHED' || status === 'CANCELED') this.#endedRun = run
    }
  }

  /** A run begins: what the one before it covered stays covered. One that begins with a snapshot has what led to it for its own. */
  #begin(run: string): void {
    const base = this.#bases.get(run)
    const before = { start: this.#start ?? new Map<string, bigint>(), end: this.#positions }
    if (this.#run !== undefined)
      this.#earlier.push(
        base === undefined ? before : { start: base.positions, end: before.end, isRest: true },
      )
    this.#run = run
    this.#latest = base?.checkpoint
    this.#positions = base?.positions ?? new Map()
    if (base === undefined) this.#start = undefined
    else this.#count('runs begun with a snapshot')
  }

  #count(what: string): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1)
  }

  #forget(key: string): void {
    const latest = this.#latest
    // Nobody resumes a run that has ended, so its checkpoints may go.
    if (
      latest !== undefined &&
      key === `completed/${latest.run}/${latest.n}` &&
      this.#endedRun !== latest.run
    )
      this.#violate(`the latest checkpoint ${latest.n} was forgotten`)
    this.#stored.forget(key)
  }

  #complete(key: string, checkpoint: CompletedCheckpoint): void {
    if (this.#everCompleted.has(key)) this.#violate(`checkpoint ${checkpoint.n} was completed twice`)
    this.#everCompleted.add(key)
    this.#stored.add(key, checkpoint)
    this.#note(checkpoint)
    if (this.#run !== undefined && this.#run !== checkpoint.run) {
      if (checkpoint.n === 0)
        this.#bases.set(checkpoint.run, { checkpoint, positions: positionsOf(checkpoint) })
      else this.#violate(`checkpoint ${checkpoint.n} of an earlier run was completed`)
      return
    }
    if (this.#endedRun === checkpoint.run)
      this.#violate(`checkpoint ${checkpoint.n} was completed after the end of the run`)
    const latest = this.#latest
    if (latest !== undefined && latest.run === checkpoint.run && latest.n >= checkpoint.n)
      this.#violate(`checkpoint ${checkpoint.n} was completed after ${latest.n}`)
    if (checkpoint.attempt < this.#attempt)
      this.#violate(
        `attempt ${checkpoint.attempt} completed checkpoint ${checkpoint.n} after attempt ${this.#attempt} had started`,
      )
    this.#latest = checkpoint
    const positions = positionsOf(checkpoint)
    for (const [id, position] of positions) {
      const before = this.#positions.get(id) ?? 0n
      if (position < before)
        this.#violate(`checkpoint ${checkpoint.n} moved ${id} back from ${before} to ${position}`)
    }
    this.#positions = positions
    if (checkpoint.n === 0) this.#start = positions
    this.#uncovered = this.#uncovered.filter(({ unit, times }) => !this.#covers(unit, times))
  }

  /** What makes it one of the rarer kind. */
  #note({ states, kind }: CompletedCheckpoint): void {
    if (states.some(({ inFlight }) => inFlight !== undefined)) this.#count('records in flight')
    if (states.some(({ keyed }) => keyed?.kind === 'incremental' && keyed.layers.length > 1))
      this.#count('shared layers')
    if (states.some(({ keyed }) => keyed?.kind === 'external')) this.#count('state outside')
    if (kind === 'savepoint') this.#count('savepoints')
  }
}

function positionsOf({ states }: CompletedCheckpoint): Positions {
  const positions = new Map<string, bigint>()
  for (const { splits } of states)
    for (const split of (splits ?? []) as { topic: string; partition: number; position: string }[])
      positions.set(`${split.topic}/${split.partition}`, BigInt(split.position))
  return positions
}

function within(unit: Unit, { start, end }: RunRange): boolean {
  return partsOf(unit).every(({ topic, partition, offset }) => {
    const id = `${topic}/${partition}`
    return BigInt(offset) >= (start.get(id) ?? 0n) && BigInt(offset) < (end.get(id) ?? 0n)
  })
}

function byPlace(a: SeenRecord, b: SeenRecord): number {
  return a.partition - b.partition || (a.offset < b.offset ? -1 : 1)
}

function seenRecord(partition: number, record: PlainRecord): SeenRecord {
  return {
    partition,
    offset: record.offset,
    timestamp: record.timestamp,
    key: record.key?.toString() ?? null,
    value: record.value === null ? null : JSON.parse(record.value.toString()),
  }
}
