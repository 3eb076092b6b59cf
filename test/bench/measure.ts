/**
 * Measures one run of one peer: starts it, watches the last stable offsets of its output every 20 ms, then reads the output back, checks every
 * record, and looks up when the last expected one had become visible.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { BrokerConnection } from './broker-connection.ts'
import { type BenchJob, PARTITIONS } from './data.ts'
import { ensureInput } from './generate.ts'
import { PeerProcesses } from './peer-process.ts'
import { cpuSeconds, machineCpuSeconds } from './process-stats.ts'
import { decodeFetch } from './record-batch-minimal.ts'
import { OutputCheck, type RunCheck } from './verify.ts'

const TICK_MS = 20
const QUIET_MS = 2_000
const READ_TIMEOUT_MS = 60_000
const PARTITION_NUMBERS = Array.from({ length: PARTITIONS }, (_, i) => i)

export interface MeasureOptions {
  readonly peer: string
  readonly job: BenchJob
  readonly records: number
  readonly command: readonly string[]
  readonly processes: number
  readonly bootstrap: string
  readonly commitMs?: number
  readonly graceMs?: number
  readonly timeoutMs?: number
  /** A crash test: kill -9 this long after the first record, and start again with the same settings. */
  readonly killAfterMs?: number
  readonly env?: Readonly<Record<string, string>>
  /** Another input than the orders, and what its output must be. */
  readonly custom?: { readonly input: string; readonly check: RunCheck }
  /** Called with the folder of logs and state when the run is over. */
  readonly onEnd?: (workDir: string) => Promise<void>
  /** Keep logs and state, and say where. */
  readonly keep?: boolean
}

/** The same fields as the lines of the Java harness. */
export interface Measurement {
  readonly peer: string
  readonly job: BenchJob
  readonly n: number
  /** First record in user code until the last expected output was visible. */
  readonly seconds: number
  readonly rec_s: number
  readonly cpu_s: number
  readonly peak_rss_mb: number
  readonly ok: boolean
  /** Launch until the last expected output was visible. */
  readonly total_s: number
  readonly harness_cpu_s: number
  /** Everything else on the machine: the broker, and whatever disturbed the run. */
  readonly other_cpu_s: number
  readonly outputs: number
  readonly procs: number
  readonly note: string
}

interface Tick {
  readonly at: number
  readonly stable: readonly number[]
  readonly cpu: number
  readonly megabytes: number
  readonly harness: number
  readonly machine: number
}

/** Runs the peer once. A wrong output is a result (`ok: false`), not an exception. */
export async function measure(options: MeasureOptions): Promise<Measurement> {
  const { bootstrap, job, records } = options
  const graceMs = options.graceMs ?? Math.floor(records * 0.9)
  const input = options.custom?.input ?? (await ensureInput(bootstrap, records))
  const check = options.custom?.check ?? new OutputCheck(job, records, graceMs)
  const run = `${options.peer}-${job}-${Date.now().toString(36)}`
  const output = `out-${run}`
  const appId = `app-${run}`
  const workDir = await mkdtemp(join(tmpdir(), 'millrace-bench-'))
  const connection = new BrokerConnection(bootstrap, 'millrace-bench')
  await connection.connect()
  await connection.createTopic(output, PARTITIONS)
  await connection.connect(output)
  const peer = new PeerProcesses({
    command: options.command,
    processes: options.processes,
    bootstrap,
    input,
    output,
    job,
    appId,
    commitMs: options.commitMs ?? 1000,
    graceMs,
    workDir,
    ...(options.env === undefined ? {} : { env: options.env }),
  })
  const watch = new OutputWatch(connection, output, check, peer)
  try {
    await watch.untilComplete(options.timeoutMs ?? 165_000, options.killAfterMs)
  } finally {
    await peer.stop()
    await cleanUp(connection, appId, output)
    await connection.close()
    await options.onEnd?.(workDir)
    if (options.keep) console.error(`logs and state: ${workDir}`)
    else await rm(workDir, { recursive: true, force: true })
  }
  return watch.result(options)
}

/** Follows the output of one run. */
class OutputWatch {
  readonly #connection: BrokerConnection
  readonly #topic: string
  readonly #check: RunCheck
  readonly #peer: PeerProcesses
  readonly #ticks: Tick[] = []
  readonly #positions = new Map(PARTITION_NUMBERS.map((partition) => [partition, 0]))
  /** Offset of the last expected record of each partition. */
  readonly #lastExpected = PARTITION_NUMBERS.map(() => -1)
  readonly #notes: string[] = []
  #launched = 0

  constructor(connection: BrokerConnection, topic: string, check: RunCheck, peer: PeerProcesses) {
    this.#connection = connection
    this.#topic = topic
    this.#check = check
    this.#peer = peer
  }

  async untilComplete(timeoutMs: number, killAfterMs: number | undefined): Promise<void> {
    this.#launched = Date.now()
    const harness = cpuSeconds(process.pid)
    const machine = machineCpuSeconds()
    this.#peer.start()
    let killed = false
    let quietSince = this.#launched
    let previous = ''
    let readAt = -1
    for (;;) {
      await sleep(TICK_MS)
      const firstAge = this.#peer.first === undefined ? -1 : Date.now() - this.#peer.first
      if (killAfterMs !== undefined && !killed && firstAge > killAfterMs) {
        killed = true
        await this.#peer.stop('SIGKILL')
        this.#notes.push(`kill -9 after ${killAfterMs} ms`)
        this.#peer.start()
      }
      const stable = await this.#connection.offsets(this.#topic, 'end', PARTITION_NUMBERS)
      const now = Date.now()
      this.#ticks.push({
        at: now,
        stable,
        cpu: this.#peer.cpuSeconds,
        megabytes: this.#peer.peakMegabytes,
        harness: cpuSeconds(process.pid) - harness,
        machine: machineCpuSeconds() - machine,
      })
      if (stable.join() !== previous) {
        quietSince = now
        previous = stable.join()
      }
      const sum = stable.reduce((a, b) => a + b, 0)
      const over = now - this.#launched > timeoutMs || !this.#peer.isAlive
      if (!over && !(sum >= this.#check.expected && now - quietSince > QUIET_MS && sum !== readAt)) continue
      readAt = sum
      await this.#read(stable)
      if (over) this.#notes.push(this.#peer.isAlive ? 'time-out' : 'the peer exited')
      if (over || this.#check.seen >= this.#check.expected) break
    }
    if (killed) {
      // A process that was thought dead may still write: nothing more may turn up later.
      await sleep(5_000)
      await this.#read(await this.#connection.offsets(this.#topic, 'end', PARTITION_NUMBERS))
    }
  }

  /** Reads on until the given ends and checks what comes. */
  async #read(ends: readonly number[]): Promise<void> {
    const deadline = Date.now() + READ_TIMEOUT_MS
    const left = () =>
      new Map([...this.#positions].filter(([partition, position]) => position < ends[partition]!))
    for (let positions = left(); positions.size > 0; positions = left()) {
      if (Date.now() > deadline)
        throw new Error(`reading ${this.#topic} back took more than ${READ_TIMEOUT_MS / 1000} s`)
      const raw = await this.#connection.fetch(this.#topic, positions, 200, 8 << 20)
      const read = decodeFetch(raw, (buffer, start, end, _timestamp, partition, offset) => {
        if (offset < this.#positions.get(partition)!) return
        const before = this.#check.seen
        this.#check.record(buffer.utf8Slice(start, end))
        if (this.#check.seen > before && this.#check.seen <= this.#check.expected)
          this.#lastExpected[partition] = offset
      })
      for (const { partition, nextOffset } of read)
        if (nextOffset >= 0) this.#positions.set(partition, nextOffset)
    }
  }

  result(options: MeasureOptions): Measurement {
    const right = this.#check.finish()
    const complete = this.#check.seen >= this.#check.expected
    const end = complete
      ? this.#ticks.find((tick) => tick.stable.every((offset, i) => offset > this.#lastExpected[i]!))
      : undefined
    const { first } = this.#peer
    const last = end ?? this.#ticks.at(-1)!
    const seconds = end === undefined || first === undefined ? -1 : (end.at - first) / 1000
    const notes = [
      ...this.#notes,
      ...(first === undefined ? ['no FIRST mark'] : []),
      ...this.#check.complaints,
    ]
    return {
      peer: options.peer,
      job: options.job,
      n: options.records,
      seconds,
      rec_s: seconds > 0 ? Math.round(options.records / seconds) : 0,
      cpu_s: round(last.cpu),
      peak_rss_mb: Math.round(last.megabytes),
      ok: right && seconds > 0,
      total_s: end === undefined ? -1 : (end.at - this.#launched) / 1000,
      harness_cpu_s: round(last.harness),
      other_cpu_s: round(last.machine - last.cpu - last.harness),
      outputs: this.#check.seen,
      procs: options.processes,
      note: notes.join('; '),
    }
  }
}

const round = (value: number) => Math.round(value * 100) / 100

/** Removes the run's topics and groups: everything with its id in the name. */
async function cleanUp(connection: BrokerConnection, appId: string, output: string): Promise<void> {
  await connection.admin(async (admin) => {
    const topics = (await admin.listTopics()).filter((topic) => topic.includes(appId) || topic === output)
    await admin.deleteTopics({ topics })
    const { groups } = await admin.listGroups()
    const own = groups.map((group) => group.groupId).filter((groupId) => groupId.includes(appId))
    if (own.length > 0)
      await admin
        .deleteGroups(own)
        .catch((error: unknown) => console.error(`groups not deleted yet: ${String(error)}`))
  })
}
