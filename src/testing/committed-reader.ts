/**
 * Reads one partition of the simulated brokers as a read_committed consumer would, on its own: the simulation judges by what it reads,
 * so it shares no code with the source.
 */
import { decodePlainRecords, markerOf, type PlainRecord } from './plain-batch.ts'
import type { SimulatedLog } from './simulated-log.ts'

/** A cursor over the committed records of one log. */
export class CommittedReader {
  readonly #log: SimulatedLog
  #position = 0n

  constructor(log: SimulatedLog) {
    this.#log = log
  }

  /** Next offset to read. */
  get position(): bigint {
    return this.#position
  }

  /** Committed records that became visible since the last call, in the order of the log. */
  read(): PlainRecord[] {
    if (this.#log.lastStableOffset <= this.#position) return []
    const { batches, abortedTransactions } = this.#log.committedFrom(this.#position)
    const upcoming = [...abortedTransactions].sort((a, b) => (a.firstOffset < b.firstOffset ? -1 : 1))
    const aborted = new Set<bigint>()
    const records: PlainRecord[] = []
    for (const { bytes, header, lastOffset } of batches) {
      while (upcoming.length > 0 && upcoming[0]!.firstOffset <= lastOffset)
        aborted.add(upcoming.shift()!.producerId)
      if (header.control) {
        if (markerOf(bytes) === 'ABORT') aborted.delete(header.producerId)
      } else if (!header.transactional || !aborted.has(header.producerId)) {
        for (const record of decodePlainRecords(bytes))
          if (record.offset >= this.#position) records.push(record)
      }
      this.#position = lastOffset + 1n
    }
    return records
  }
}
