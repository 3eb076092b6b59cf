/**
 * Buffers for record batches, used again and again. A batch's bytes must stay untouched until the broker has acknowledged them, so a
 * builder cannot keep one buffer; allocating 64 KiB or more for each batch would make the garbage collector the bottleneck.
 */

const SMALLEST = 4096

/** Free buffers by power-of-two size. One pool is shared by all builders of a producer. */
export class BatchBufferPool {
  private readonly maxFreeBytes: number
  private readonly free = new Map<number, Buffer[]>()
  private freeBytes = 0

  /** At most `maxFreeBytes` are kept while nobody uses them; what is released beyond that is left to the garbage collector. */
  constructor(maxFreeBytes: number = 16 * 1024 * 1024) {
    this.maxFreeBytes = maxFreeBytes
  }

  /** A buffer of at least `size` bytes with arbitrary content, backed by memory of its own. */
  acquire(size: number): Buffer {
    const capacity = size <= SMALLEST ? SMALLEST : 2 ** (32 - Math.clz32(size - 1))
    const reused = this.free.get(capacity)?.pop()
    if (reused === undefined) return Buffer.allocUnsafeSlow(capacity)
    this.freeBytes -= capacity
    return reused
  }

  /** Gives a buffer, or a part of one, back. Nobody may read or write it after that. Releasing memory of other origin is harmless. */
  release(buffer: Buffer): void {
    const memory = buffer.buffer
    const capacity = memory.byteLength
    if (
      capacity < SMALLEST ||
      (capacity & (capacity - 1)) !== 0 ||
      this.freeBytes + capacity > this.maxFreeBytes
    )
      return
    let buffers = this.free.get(capacity)
    if (buffers === undefined) {
      buffers = []
      this.free.set(capacity, buffers)
    }
    buffers.push(buffer.length === capacity ? buffer : Buffer.from(memory, 0, capacity))
    this.freeBytes += capacity
  }
}
