/**
 * Entries of the checkpoint topic that no single record can hold: brokers take 1 MiB by default, and a completed checkpoint with state
 * inline, thousands of partitions or many prepared transactions may be more.
 *
 * Such an entry is stored as parts `part/<key>/<i>` and then, under its own key, their number, all in one transaction. So whoever sees the
 * entry has seen its parts. A tombstone of the entry takes those of its parts with it.
 */
import type { LogEntry } from './topic-log.ts'

/** UTF-16 units of a part: at most three times as many bytes. */
const PART_LENGTH = 300_000
const HEAD = /^\{"parts":(\d+)\}$/
const LONGEST_HEAD = 32
const PART_PREFIX = 'part/'

const partKey = (key: string, index: number): string => `${PART_PREFIX}${key}/${index}`

/** Splits what is written to one log, and joins what is read of it. */
export class LargeEntries {
  /** Parts of the entries that have some, by key. */
  readonly #counts = new Map<string, number>()

  /** The records that store the entries. Values that are bytes are never split. */
  split(entries: readonly LogEntry[]): LogEntry[] {
    return entries.flatMap((entry) => {
      const { key, value } = entry
      const old = this.#counts.get(key) ?? 0
      const parts = typeof value === 'string' && value.length > PART_LENGTH ? partsOf(value) : []
      if (parts.length === 0) this.#counts.delete(key)
      else this.#counts.set(key, parts.length)
      const needless = Array.from({ length: Math.max(0, old - parts.length) }, (_, i) => ({
        key: partKey(key, parts.length + i),
        value: null,
      }))
      return [
        ...parts.map((part, i) => ({ key: partKey(key, i), value: part })),
        parts.length === 0 ? entry : { key, value: JSON.stringify({ parts: parts.length }) },
        ...needless,
      ]
    })
  }

  /** A visitor of the log's records in their order that hands whole entries on. */
  joining(visit: (key: string, value: Buffer | null) => void): (key: string, value: Buffer | null) => void {
    const stored = new Map<string, Buffer>()
    return (key, value) => {
      if (key.startsWith(PART_PREFIX)) {
        if (value === null) stored.delete(key)
        else stored.set(key, value)
        return
      }
      const count = value === null ? undefined : partCount(value)
      if (count === undefined) {
        this.#counts.delete(key)
        visit(key, value)
        return
      }
      this.#counts.set(key, count)
      const parts: Buffer[] = []
      for (let i = 0; i < count; i++) {
        const part = stored.get(partKey(key, i))
        if (part !== undefined) parts.push(part)
        stored.delete(partKey(key, i))
      }
      // Compaction may have taken parts that later ones replace, and their entry comes then. Of an entry that is really damaged the head is
      // handed on: whoever reads it finds no checkpoint in it, and says so.
      visit(key, parts.length === count ? Buffer.concat(parts) : value)
    }
  }
}

function partCount(value: Buffer): number | undefined {
  const digits = value.length > LONGEST_HEAD ? undefined : HEAD.exec(value.toString())?.[1]
  return digits === undefined ? undefined : Number(digits)
}

function partsOf(text: string): string[] {
  const parts: string[] = []
  for (let from = 0; from < text.length; ) {
    let to = Math.min(from + PART_LENGTH, text.length)
    // A character of two units stays whole, or neither half could be encoded.
    const last = text.charCodeAt(to - 1)
    if (to < text.length && last >= 0xd800 && last < 0xdc00) to--
    parts.push(text.slice(from, to))
    from = to
  }
  return parts
}
