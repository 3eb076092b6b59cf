import type { ProduceRequest } from '../kafka-cluster.ts'

/** Where a batch (v2) holds the id of its producer. */
const PRODUCER_ID_AT = 43

/**
 * Keeps the batches of one producer for one partition in the order in which they were handed in: the next one is sent when
 * the one before was answered. An idempotent producer's sequence numbers allow nothing else once a request is retried.
 * Different producers, and different partitions of one producer, do not wait for each other.
 */
export class ProduceOrder {
  readonly #last = new Map<string, Promise<unknown>>()

  /** Runs `send` when nothing is under way for the same producer and partitions; at once if that is so now. */
  run<T>(request: ProduceRequest, send: () => Promise<T>): Promise<T> {
    const keys = request.partitions.map(
      ({ topic, partition, batch }) =>
        `${request.transactionalId ?? producerOf(batch)} ${partition} ${topic}`,
    )
    const before = keys.map((key) => this.#last.get(key)).filter((promise) => promise !== undefined)
    const sent = before.length === 0 ? send() : Promise.allSettled(before).then(send)
    const done: Promise<void> = sent.then(
      () => this.#end(keys, done),
      () => this.#end(keys, done), // the caller of `run` gets the error
    )
    for (const key of keys) this.#last.set(key, done)
    return sent
  }

  #end(keys: readonly string[], done: Promise<void>): void {
    for (const key of keys) {
      if (this.#last.get(key) === done) this.#last.delete(key)
    }
  }
}

function producerOf(batch: Buffer): string {
  return batch.length < PRODUCER_ID_AT + 8 ? '' : `#${batch.readBigInt64BE(PRODUCER_ID_AT)}`
}
