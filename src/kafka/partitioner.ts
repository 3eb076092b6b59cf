/**
 * Which partition a record goes to: as Kafka's Java client does it, so that records of one key meet in one partition whoever wrote them.
 */

const SEED = 0x9747b28c
const M = 0x5bd1e995

/** Kafka's murmur2 of bytes, as a signed 32-bit integer. */
export function murmur2(data: Uint8Array): number {
  const length = data.length
  let h = SEED ^ length
  const whole = length & ~3
  for (let i = 0; i < whole; i += 4) {
    h = Math.imul(h, M) ^ mixed(data[i]! | (data[i + 1]! << 8) | (data[i + 2]! << 16) | (data[i + 3]! << 24))
  }
  return finished(h, length & 3, data[whole]!, data[whole + 1]!, data[whole + 2]!)
}

/** murmur2 of a text's UTF-8 bytes. ASCII, which most keys are, is hashed without making the bytes. */
export function murmur2Text(text: string): number {
  const length = text.length
  let h = SEED ^ length
  let seen = 0
  const whole = length & ~3
  for (let i = 0; i < whole; i += 4) {
    const a = text.charCodeAt(i)
    const b = text.charCodeAt(i + 1)
    const c = text.charCodeAt(i + 2)
    const d = text.charCodeAt(i + 3)
    seen |= a | b | c | d
    h = Math.imul(h, M) ^ mixed(a | (b << 8) | (c << 16) | (d << 24))
  }
  const rest = length & 3
  const a = rest > 0 ? text.charCodeAt(whole) : 0
  const b = rest > 1 ? text.charCodeAt(whole + 1) : 0
  const c = rest > 2 ? text.charCodeAt(whole + 2) : 0
  if ((seen | a | b | c) > 127) return murmur2(Buffer.from(text))
  return finished(h, rest, a, b, c)
}

/** The partition of a record with a key. */
export function partitionForKey(key: Uint8Array | string, partitionCount: number): number {
  return ((typeof key === 'string' ? murmur2Text(key) : murmur2(key)) & 0x7fffffff) % partitionCount
}

/**
 * Spreads records without a key: stays on a partition until about a batch of bytes went there, then takes the next one.
 * So batches get full, and all partitions get the same share.
 */
export class KeylessPartitioner {
  private readonly stickyBytes: number
  private current: number
  private bytes = 0

  /** `start` is where to begin, e.g. the subtask index, so that subtasks do not all begin with one partition. */
  constructor(start = 0, stickyBytes = 16_384) {
    this.current = start
    this.stickyBytes = stickyBytes
  }

  /** The partition of the next record, whose size is about `recordBytes`. */
  next(recordBytes: number, partitionCount: number): number {
    const partition = this.current % partitionCount
    this.bytes += recordBytes
    if (this.bytes >= this.stickyBytes) {
      this.bytes = 0
      this.current = partition + 1
    }
    return partition
  }
}

function mixed(word: number): number {
  const k = Math.imul(word, M)
  return Math.imul(k ^ (k >>> 24), M)
}

/** The last 0 to 3 bytes, and the final mixing. */
function finished(hash: number, rest: number, a: number, b: number, c: number): number {
  let h = hash
  if (rest === 3) h ^= c << 16
  if (rest >= 2) h ^= b << 8
  if (rest >= 1) h = Math.imul(h ^ a, M)
  h = Math.imul(h ^ (h >>> 13), M)
  return h ^ (h >>> 15)
}
