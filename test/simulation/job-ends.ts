/** What the simulated jobs have in common: how records come in, and how what was made of them goes out. */
import type { DataStream } from '../../src/api/data-stream.ts'
import type { StreamExecutionEnvironment } from '../../src/api/environment.ts'
import { DeliveryGuarantee } from '../../src/core/constants.ts'
import type { Collector } from '../../src/core/functions.ts'
import { WatermarkStrategy } from '../../src/core/time/watermarks.ts'
import type { TimeWindow } from '../../src/core/windows/time-window.ts'
import { type ProcessWindowContext, ProcessWindowFunction } from '../../src/core/windows/window-function.ts'
import { kafkaSink } from '../../src/kafka/kafka-sink.ts'
import { kafkaSource } from '../../src/kafka/kafka-source.ts'
import { OffsetsInitializer } from '../../src/kafka/offsets.ts'
import { json } from '../../src/serdes/serdes.ts'
import type { PlainRecordInput } from '../../src/testing/plain-batch.ts'
import type { SeededRandom } from '../../src/testing/seeded-random.ts'
import type { RecordsByTopic } from '../../src/testing/simulated-job.ts'
import type { JobWorld } from '../../src/testing/simulated-worker.ts'
import type { Scenario } from '../../src/testing/simulation-scenario.ts'
import type { Origin } from '../../src/testing/simulation-units.ts'

/** A record of an input. */
export interface Event {
  readonly from: Origin
  readonly key: string
  readonly amount: number
}

/** What was gathered of a key, with all it was made of. */
export interface Gathered {
  readonly from: readonly Origin[]
  readonly key: string
  readonly sum: number
  /** Of a window. */
  readonly start?: number
}

/** Sum of a key in a window. */
export class WindowSum extends ProcessWindowFunction<Event, Gathered, string> {
  override process(
    key: string,
    context: ProcessWindowContext<TimeWindow>,
    elements: readonly Event[],
    out: Collector<Gathered>,
  ): void {
    out.collect({
      from: elements.map(({ from }) => from),
      key,
      sum: elements.reduce((sum, { amount }) => sum + amount, 0),
      start: context.window().start,
    })
  }
}

/** A running total, and the record that made it. */
export interface Total {
  readonly from: Origin
  readonly key: string
  readonly count: number
  readonly sum: number
}

/** Reads a topic; each record knows where it came from. */
export function source(
  env: StreamExecutionEnvironment,
  scenario: Scenario,
  job: string,
  topic: string,
  watermarks: WatermarkStrategy<Event> = WatermarkStrategy.noWatermarks(),
): DataStream<Event> {
  return env
    .fromSource(
      kafkaSource<Event>({
        topics: [topic],
        groupId: `${job}-readers`,
        startingOffsets:
          scenario.startAt === 'latest' ? OffsetsInitializer.latest() : OffsetsInitializer.earliest(),
        discoveryIntervalMs: scenario.discoveryMs,
        ...(scenario.bounded ? { bounded: OffsetsInitializer.latest() } : {}),
        deserializer: ({ partition, offset, value }) => ({
          ...(JSON.parse(Buffer.from(value!).toString()) as { key: string; amount: number }),
          from: { topic, partition, offset: Number(offset) },
        }),
      }),
      watermarks,
      `read ${topic}`,
    )
    .uid(`read-${topic}`)
}

/** Records that a worker is slow with: a join may make thousands, and then no checkpoint would ever be complete in its time. */
const SLOW_RECORDS = 400

/** Writes a topic, as slowly as the scenario says. */
export function sink<T extends { readonly key: string }>(
  stream: DataStream<T>,
  scenario: Scenario,
  topic: string,
  world: JobWorld,
): void {
  const { slowMs } = scenario
  let left = SLOW_RECORDS
  const slowed =
    slowMs === 0
      ? stream
      : stream
          .map(async (value) => {
            if (left-- > 0) await world.sleep(world.random.integer(0, slowMs))
            return value
          })
          .uid(`slow-${topic}`)
  slowed
    .sinkTo(
      kafkaSink<T>({
        topic,
        key: ({ key }) => key,
        value: json<T>(),
        deliveryGuarantee: scenario.transactional
          ? DeliveryGuarantee.EXACTLY_ONCE
          : DeliveryGuarantee.AT_LEAST_ONCE,
        ...(scenario.transactionTimeoutMs === undefined
          ? {}
          : { transactionTimeoutMs: scenario.transactionTimeoutMs }),
      }),
    )
    .uid(`write-${topic}`)
}

/** The records of an input as the source makes them. */
export function events(input: RecordsByTopic, topic: string): Event[] {
  return (input.get(topic) ?? []).map((record) => ({
    ...(record.value as { key: string; amount: number }),
    from: { topic, partition: record.partition, offset: Number(record.offset) },
  }))
}

/** Where the records of each output come from. */
export function origins(outputs: Readonly<Record<string, readonly Event[]>>): Map<string, readonly Origin[]> {
  return new Map(Object.entries(outputs).map(([topic, made]) => [topic, made.map(({ from }) => from)]))
}

/** Values of an output. */
export const values = (output: RecordsByTopic, topic: string): any[] =>
  (output.get(topic) ?? []).map(({ value }) => value)

/** A record without a time of its own. */
export function record(random: { integer(min: number, max: number): number }, { keys }: Scenario) {
  const key = `k${random.integer(1, keys)}`
  return { key, value: JSON.stringify({ key, amount: random.integer(0, 99) }) }
}

/** Records are written up to so many ms out of order. */
const DISORDER_MS = 200
/** Key of the record that raises the watermark of its partition above all windows. */
export const END = 'end'
/** By how much it is ahead. */
export const END_MS = 1_000_000

/** A record of the recent past. */
export function timedRecord(random: SeededRandom, scenario: Scenario, now: number): PlainRecordInput {
  return { ...record(random, scenario), timestamp: now - random.integer(0, DISORDER_MS) }
}

/** Watermarks for such records: none is late. */
export const outOfOrder = WatermarkStrategy.forBoundedOutOfOrderness<Event>(DISORDER_MS)

/** In the order of the log, so that two lists of one content are one text. */
export function sorted(from: readonly Origin[]): Origin[] {
  return from.toSorted(
    (a, b) => a.topic.localeCompare(b.topic) || a.partition - b.partition || a.offset - b.offset,
  )
}

export const isNoEnd = ({ key }: Event): boolean => key !== END
