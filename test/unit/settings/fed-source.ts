/** A source without an end that gives what a test feeds it, and goes on from its checkpoint. */
import type { Source, SourceReader, SourceSplit, SplitRecords } from 'millrace'
import { NO_TIMESTAMP } from '../../../src/core/element.ts'

interface FedSplit extends SourceSplit {
  readonly position: number
}

const SPLIT = 'fed'

export class FedSource<T> implements Source<T, FedSplit> {
  readonly kind = 'fed'
  readonly bounded = false
  readonly #records: T[] = []
  #wake: () => void = () => undefined

  feed(...records: T[]): void {
    this.#records.push(...records)
    this.#wake()
  }

  describe(): Readonly<Record<string, unknown>> {
    return {}
  }

  createEnumerator() {
    return {
      start: async (restored: readonly FedSplit[] | undefined) => restored ?? [{ id: SPLIT, position: 0 }],
      close: async () => undefined,
    }
  }

  createReader({ vectorSize }: { readonly vectorSize: number }): SourceReader<T, FedSplit> {
    let position = 0
    return {
      start: () => undefined,
      addSplits: (splits) => {
        for (const split of splits) position = split.position
      },
      poll: (): SplitRecords<T> | undefined => {
        const values = this.#records.slice(position, position + vectorSize)
        if (values.length === 0) return undefined
        position += values.length
        return {
          splitId: SPLIT,
          vector: { kind: 'records', values, timestamps: values.map(() => NO_TIMESTAMP) },
        }
      },
      available: () =>
        position < this.#records.length
          ? Promise.resolve()
          : new Promise((resolve) => {
              this.#wake = resolve
            }),
      isFinished: () => false,
      snapshot: () => [{ id: SPLIT, position }],
      close: async () => undefined,
    }
  }
}
