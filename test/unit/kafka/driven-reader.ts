/** A source reader on a simulated cluster, driven as its task drives it. */
import { expect } from '@jest/globals'
import type { Serde, SourceReaderContext, SplitRecords } from '../../../src/core/connector.ts'
import type { DeadLetterRecord } from '../../../src/kafka/deserialization.ts'
import { type KafkaReaderOptions, KafkaSourceReader } from '../../../src/kafka/kafka-source-reader.ts'
import type { KafkaSplit } from '../../../src/kafka/offsets.ts'
import { string } from '../../../src/serdes/serdes.ts'
import { countingCounter, type SimulatedScene } from './simulated-scene.ts'

/** A split of topic 'in', unless told otherwise. */
export function splitOf(
  scene: SimulatedScene,
  partition = 0,
  position = 0n,
  stop: bigint | null = null,
  change: Partial<KafkaSplit> = {},
): KafkaSplit {
  return {
    id: `in-${partition}`,
    topic: 'in',
    topicId: scene.kafka.inside.topics.get('in')!.topicId,
    partition,
    position: String(position),
    stop: stop === null ? null : String(stop),
    ...change,
  }
}

/** A reader as its task drives it. */
export class DrivenReader<T> {
  readonly reader: KafkaSourceReader<T>
  readonly context: SourceReaderContext
  readonly received: SplitRecords<T>[] = []
  readonly #scene: SimulatedScene

  constructor(
    scene: SimulatedScene,
    options: Partial<KafkaReaderOptions<T>>,
    splits: readonly KafkaSplit[],
    vectorSize = 100,
  ) {
    this.#scene = scene
    this.context = {
      info: scene.info({ operatorName: 'Source: in' }),
      world: scene.world,
      vectorSize,
      recordsIn: countingCounter(),
    }
    this.reader = new KafkaSourceReader<T>(
      {
        cluster: scene.cluster,
        bounded: false,
        isolation: 'read_committed',
        deserializer: { kind: 'value', serde: string() as unknown as Serde<T> },
        nullValues: 'skip',
        onDeserializationError: 'fail',
        onDataLoss: 'fail',
        fetchMaxBytes: 100_000,
        fetchMaxWaitMs: 500,
        ...options,
      },
      this.context,
    )
    this.reader.addSplits(splits)
  }

  /** Polls until nothing comes for so long. */
  async drain(quietMs = 3_000): Promise<this> {
    const until = this.#scene.time.now() + quietMs
    while (this.#scene.time.now() < until) {
      for (let records = this.reader.poll(); records !== undefined; records = this.reader.poll()) {
        this.received.push(records)
        for (const s of this.reader.snapshot(0)) expect(BigInt(s.position)).toBeGreaterThanOrEqual(0n)
      }
      await this.#scene.time.advance(50)
    }
    return this
  }

  get values(): T[] {
    return this.received.flatMap(({ vector }) => [...vector.values])
  }

  get letters(): DeadLetterRecord[] {
    return this.received.flatMap(({ side }) => [...((side?.vector.values ?? []) as DeadLetterRecord[])])
  }

  get position(): string[] {
    return this.reader.snapshot(1).map((s) => s.position)
  }
}
