/**
 * Finds the partitions of a source and resolves where to start and stop, once: the result is checkpoint 0.
 * Restored splits are kept as they are, never filtered by what can be seen now; their positions are checked against the log.
 */
import type { SourceContext, SplitEnumerator } from '../core/connector.ts'
import { DataLossError, isMillraceError, MillraceError } from '../errors.ts'
import type { KafkaCluster, ListedOffset, TopicDescription, TopicPartition } from './kafka-cluster.ts'
import type { DataLossPolicy } from './kafka-source-reader.ts'
import { isSplitFinished, type KafkaSplit, type OffsetsInitializer, splitId } from './offsets.ts'

export interface EnumeratorOptions {
  readonly cluster: KafkaCluster
  readonly topics: readonly string[] | undefined
  readonly topicPattern: RegExp | undefined
  readonly partitions: readonly TopicPartition[] | undefined
  readonly groupId: string | undefined
  readonly startingOffsets: OffsetsInitializer
  readonly bounded: OffsetsInitializer | undefined
  readonly isolation: 'read_committed' | 'read_uncommitted'
  readonly onDataLoss: DataLossPolicy
  readonly discoveryIntervalMs: number | undefined
}

interface Found extends TopicPartition {
  readonly topicId: string
}

/** Milliseconds between two warnings while the brokers of a restored partition cannot be reached. */
const WAIT_WARNING_MS = 5_000

export class KafkaEnumerator implements SplitEnumerator<KafkaSplit> {
  readonly #options: EnumeratorOptions
  readonly #context: SourceContext
  readonly #known = new Set<string>()
  readonly discoveryIntervalMs: number | undefined
  #closed = false

  constructor(options: EnumeratorOptions, context: SourceContext) {
    this.#options = options
    this.#context = context
    this.discoveryIntervalMs =
      options.bounded === undefined && options.partitions === undefined
        ? options.discoveryIntervalMs
        : undefined
  }

  async start(restored: readonly KafkaSplit[] | undefined): Promise<readonly KafkaSplit[]> {
    if (restored === undefined) {
      const found = await this.#find()
      const splits = await this.#resolve(found, this.#options.startingOffsets)
      for (const split of splits) this.#known.add(split.id)
      return splits
    }
    const checked = await this.#check(restored)
    for (const split of checked) this.#known.add(split.id)
    // Partitions that appeared while the job was down start at earliest, like those found later. A bounded job's set is fixed.
    if (this.#options.bounded !== undefined) return checked
    return [...checked, ...(await this.#new())]
  }

  async discover(): Promise<readonly KafkaSplit[]> {
    const splits = await this.#new()
    if (splits.length > 0)
      this.#context.world.logger.info(
        `discovered new partitions: ${splits.map((s) => s.id).join(', ')}; they are read from their earliest offset`,
      )
    return splits
  }

  async #new(): Promise<readonly KafkaSplit[]> {
    const found = (await this.#find()).filter((partition) => !this.#known.has(splitId(partition)))
    if (found.length === 0) return []
    const offsets = await this.#list(found, 'earliest')
    const splits = found.map((partition) =>
      this.#split(partition, offsets.get(splitId(partition)) as bigint, undefined),
    )
    for (const split of splits) this.#known.add(split.id)
    return splits
  }

  async #find(): Promise<Found[]> {
    const { cluster, topics, topicPattern, partitions } = this.#options
    const wanted = partitions === undefined ? topics : [...new Set(partitions.map((p) => p.topic))]
    let described: readonly TopicDescription[]
    if (topicPattern === undefined) {
      described = await cluster.describeTopics(wanted as readonly string[])
      const missing = (wanted as readonly string[]).filter(
        (topic) => !described.some((d) => d.topic === topic),
      )
      if (missing.length > 0)
        throw new MillraceError(
          'MILLRACE_TOPIC_MISSING',
          `source ${this.#context.uid}: no such topic: ${missing.join(', ')}`,
          { details: { topics: missing } },
        )
    } else {
      described = (await cluster.describeTopics()).filter((d) => {
        // With the flags g or y, `test` would begin where the last match ended.
        topicPattern.lastIndex = 0
        return !d.internal && topicPattern.test(d.topic)
      })
    }
    if (partitions !== undefined) {
      return partitions.map((partition) => {
        const topic = described.find((d) => d.topic === partition.topic) as TopicDescription
        if (!topic.partitions.some((p) => p.partition === partition.partition))
          throw new MillraceError(
            'MILLRACE_TOPIC_MISSING',
            `topic ${partition.topic} has no partition ${partition.partition}; it has ${topic.partitions.length}`,
          )
        return { ...partition, topicId: topic.topicId }
      })
    }
    return described.flatMap((topic) =>
      topic.partitions.map((p) => ({ topic: topic.topic, topicId: topic.topicId, partition: p.partition })),
    )
  }

  async #resolve(found: readonly Found[], initializer: OffsetsInitializer): Promise<KafkaSplit[]> {
    if (found.length === 0) return []
    const start = await this.#offsets(found, initializer)
    const { bounded } = this.#options
    if (bounded !== undefined) checkAllNamed(found, bounded)
    const stop = bounded === undefined ? undefined : await this.#offsets(found, bounded)
    return found.map((partition) => {
      const id = splitId(partition)
      return this.#split(partition, start.get(id) as bigint, stop?.get(id))
    })
  }

  #split(partition: Found, position: bigint, stop: bigint | undefined): KafkaSplit {
    return {
      id: splitId(partition),
      topic: partition.topic,
      topicId: partition.topicId,
      partition: partition.partition,
      position: String(position),
      stop: stop === undefined ? null : String(stop),
    }
  }

  async #offsets(found: readonly Found[], initializer: OffsetsInitializer): Promise<Map<string, bigint>> {
    const { spec } = initializer
    switch (spec.kind) {
      case 'earliest':
      case 'latest':
        return this.#list(found, spec.kind)
      case 'timestamp': {
        const at = await this.#list(found, { timestamp: spec.timestamp })
        const end = await this.#list(found, 'latest')
        return new Map([...at].map(([id, offset]) => [id, offset < 0n ? (end.get(id) as bigint) : offset]))
      }
      case 'offsets': {
        const earliest = await this.#list(found, 'earliest')
        return new Map(
          found.map((p) => [
            splitId(p),
            spec.offsets[p.topic]?.[p.partition] ?? (earliest.get(splitId(p)) as bigint),
          ]),
        )
      }
      case 'committed': {
        if (this.#options.groupId === undefined)
          throw new MillraceError(
            'MILLRACE_INVALID_OPTION',
            `source ${this.#context.uid}: OffsetsInitializer.committed needs a groupId`,
          )
        const committed = await this.#options.cluster.fetchGroupOffsets(this.#options.groupId, found)
        const offsets = new Map(committed.map((c) => [splitId(c), c.offset]))
        const without = found.filter((p) => (offsets.get(splitId(p)) ?? -1n) < 0n)
        if (without.length > 0) {
          if (spec.reset === 'fail')
            throw new MillraceError(
              'MILLRACE_DATA_LOSS',
              `group ${this.#options.groupId} has no committed offset for ${without.map(splitId).join(', ')}`,
              {
                remedy:
                  "Use OffsetsInitializer.committed('earliest') or committed('latest') to say where to start without one.",
              },
            )
          for (const [id, offset] of await this.#list(without, spec.reset)) offsets.set(id, offset)
        }
        return offsets
      }
    }
  }

  async #list(
    found: readonly TopicPartition[],
    at: 'earliest' | 'latest' | { timestamp: number },
  ): Promise<Map<string, bigint>> {
    const { cluster, isolation } = this.#options
    const listed = await cluster.listOffsets(found, at, isolation)
    const failed = listed.find((l) => l.errorCode !== 0)
    if (failed !== undefined)
      throw new MillraceError(
        'MILLRACE_KAFKA_PROTOCOL',
        `cannot look up offsets of ${splitId(failed)}: broker error ${failed.errorCode}`,
        { retriable: true },
      )
    return new Map(listed.map((l: ListedOffset) => [splitId(l), l.offset]))
  }

  /** Restored positions must still lie in the same log. Unreachable brokers are waited for. */
  async #check(restored: readonly KafkaSplit[]): Promise<readonly KafkaSplit[]> {
    const live = restored.filter((split) => !isSplitFinished(split))
    if (live.length === 0) return restored
    const topics = await this.#patiently(
      () => this.#options.cluster.describeTopics([...new Set(live.map((s) => s.topic))]),
      'topics',
    )
    for (const split of live) {
      const topic = topics.find((t) => t.topic === split.topic)
      if (topic === undefined)
        throw new DataLossError(
          'MILLRACE_DATA_LOSS',
          `topic ${split.topic} does not exist any more; the checkpoint holds offset ${split.position} of ${split.id}`,
          {
            remedy: 'Create the topic again and start a new run with --fresh, or restore the topic.',
          },
        )
      if (topic.topicId !== split.topicId)
        throw new DataLossError(
          'MILLRACE_DATA_LOSS',
          `topic id of ${split.topic} changed (${split.topicId} → ${topic.topicId}): the topic was deleted and created again; offset ${split.position} of ${split.id} means nothing in the new log`,
          { remedy: 'Start a new run with --fresh if the new topic is what you want to read.' },
        )
    }
    const earliest = await this.#patiently(() => this.#list(live, 'earliest'), 'partitions')
    const end = await this.#patiently(() => this.#endOffsets(live), 'partitions')
    return restored.map((split) => {
      if (isSplitFinished(split)) return split
      const position = BigInt(split.position)
      const first = earliest.get(split.id) as bigint
      const last = end.get(split.id) as bigint
      if (position >= first && position <= last) return split
      const lost =
        position < first
          ? `lost range [${position}, ${first}) on ${split.id}: offsets ${position}..${first - 1n} are gone`
          : `${split.id} ends at ${last}, before the stored position ${position}: the log changed`
      if (this.#options.onDataLoss === 'fail')
        throw new DataLossError('MILLRACE_DATA_LOSS', lost, {
          details: {
            topic: split.topic,
            partition: split.partition,
            position,
            logStart: first,
            logEnd: last,
          },
        })
      const to = this.#options.onDataLoss === 'latest' ? last : first
      this.#context.world.metrics.counter('source_data_loss').inc()
      this.#context.world.logger.warn(`${lost}; going on at ${this.#options.onDataLoss} offset ${to}`)
      return { ...split, position: String(to) }
    })
  }

  async #endOffsets(live: readonly KafkaSplit[]): Promise<Map<string, bigint>> {
    const listed = await this.#options.cluster.listOffsets(live, 'latest', 'read_uncommitted')
    const failed = listed.find((l) => l.errorCode !== 0)
    if (failed !== undefined)
      throw new MillraceError(
        'MILLRACE_KAFKA_PROTOCOL',
        `cannot look up the end of ${splitId(failed)}: broker error ${failed.errorCode}`,
        { retriable: true },
      )
    return new Map(listed.map((l) => [splitId(l), l.offset]))
  }

  async #patiently<R>(ask: () => Promise<R>, what: string): Promise<R> {
    for (;;) {
      try {
        return await ask()
      } catch (error) {
        if (this.#closed || !isMillraceError(error) || !error.retriable) throw error
        this.#context.world.logger.warn(
          `waiting for the ${what} of source ${this.#context.uid}: ${error.message}`,
        )
        await this.#context.world.timers.sleep(WAIT_WARNING_MS)
      }
    }
  }

  async close(): Promise<void> {
    this.#closed = true
  }
}

/** A partition without a stop position of its own would be read to nowhere, or not at all: both are surprises. */
function checkAllNamed(found: readonly TopicPartition[], bounded: OffsetsInitializer): void {
  const { spec } = bounded
  if (spec.kind !== 'offsets') return
  const unnamed = found.filter((p) => spec.offsets[p.topic]?.[p.partition] === undefined)
  if (unnamed.length > 0)
    throw new MillraceError(
      'MILLRACE_INVALID_OPTION',
      `bounded: OffsetsInitializer.offsets names no offset for ${unnamed.map(splitId).join(', ')}`,
    )
}
