/**
 * One edge that leaves a chain: chooses the channel of each record and keeps vectors whole where it can. rebalance and rescale go round record
 * by record, as Flink's do: what is behind them may be slow, and must not get a whole vector while others get none.
 * Barriers, watermarks and the like go to every channel.
 */
import type { SubtaskInfo } from '../core/connector.ts'
import type { RecordVector, StreamEvent } from '../core/element.ts'
import { recordVector } from '../core/element.ts'
import { subtaskOfKey } from '../core/graph/key-groups.ts'
import type { Partitioner } from '../core/graph/stream-graph.ts'
import type { LocalChannel } from './channel.ts'
import { customChoice, named } from './partition-choice.ts'
import type { FullReceivers, TaskLoad } from './task-load.ts'

/** What a writer knows of its edge. */
export interface RecordWriterOptions {
  readonly subtask: number
  readonly downstreamParallelism: number
  readonly maxParallelism: number
  /** The operator whose records it sends, for errors of the user's key selector or partitioner. */
  readonly sender?: SubtaskInfo
  /** The subtask behind each channel, for people. */
  readonly receivers?: readonly string[]
  /** Of the task that sends, to count the time that it waits for room. */
  readonly load?: TaskLoad
}

export class RecordWriter {
  readonly #channels: readonly LocalChannel[]
  readonly #split: ((vector: RecordVector) => void) | undefined
  readonly #load: TaskLoad | undefined
  readonly #fullReceivers: FullReceivers

  /** `downstreamParallelism`: subtasks of the receiving vertex; `channels` are those that this subtask may use, in order. */
  constructor(partitioner: Partitioner, channels: readonly LocalChannel[], options: RecordWriterOptions) {
    this.#channels = channels
    this.#load = options.load
    const { receivers = [] } = options
    this.#fullReceivers = () => receivers.filter((_name, i) => channels[i]?.full === true)
    this.#split = this.#splitter(partitioner, options)
  }

  /** Undefined = go on; a promise = a channel is full. */
  emit(vector: RecordVector): Promise<void> | undefined {
    if (this.#split === undefined) (this.#channels[0] as LocalChannel).push(vector)
    else this.#split(vector)
    return this.#writable()
  }

  broadcast(event: StreamEvent): void {
    for (const channel of this.#channels) channel.push(event)
  }

  #writable(): Promise<void> | undefined {
    let waits: Promise<void>[] | undefined
    for (const channel of this.#channels) {
      const wait = channel.writable()
      if (wait === undefined) continue
      waits ??= []
      waits.push(wait)
    }
    if (waits === undefined) return undefined
    const release = this.#load?.beginRoom(this.#fullReceivers)
    return Promise.all(waits).then(() => release?.())
  }

  #splitter(
    partitioner: Partitioner,
    options: RecordWriterOptions,
  ): ((vector: RecordVector) => void) | undefined {
    const channels = this.#channels
    const n = channels.length
    if (partitioner.kind === 'broadcast')
      return (vector) => {
        for (const channel of channels) channel.push(vector)
      }
    if (n === 1) return undefined
    switch (partitioner.kind) {
      case 'forward':
      case 'global':
        return undefined
      case 'rebalance':
      case 'rescale': {
        let next = options.subtask % n
        const inTurn = (): number => {
          const turn = next
          next = turn + 1 === n ? 0 : turn + 1
          return turn
        }
        return (vector) => this.#scatter(vector, inTurn)
      }
      case 'hash': {
        const { keyOf } = partitioner
        const { maxParallelism, downstreamParallelism, sender } = options
        const owner = (value: unknown): number =>
          subtaskOfKey(keyOf(value), maxParallelism, downstreamParallelism)
        const choice = named(owner, sender, 'The key selector for the output')
        return (vector) => this.#scatter(vector, choice)
      }
      case 'custom': {
        const choice = customChoice(partitioner, n, options.sender)
        return (vector) => this.#scatter(vector, choice)
      }
    }
  }

  #scatter(vector: RecordVector, channelOf: (value: unknown) => number): void {
    const n = this.#channels.length
    const values: unknown[][] = Array.from({ length: n }, () => [])
    const timestamps: number[][] = Array.from({ length: n }, () => [])
    for (let i = 0; i < vector.values.length; i++) {
      const value = vector.values[i]
      const to = channelOf(value)
      ;(values[to] as unknown[]).push(value)
      ;(timestamps[to] as number[]).push(vector.timestamps[i] as number)
    }
    for (let to = 0; to < n; to++) {
      const bucket = values[to] as unknown[]
      if (bucket.length > 0)
        (this.#channels[to] as LocalChannel).push(recordVector(bucket, timestamps[to] as number[]))
    }
  }
}
