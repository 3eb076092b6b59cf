import { describe, expect, test } from '@jest/globals'
import { BatchBufferPool } from '../../../src/kafka/batch-buffer-pool.ts'

describe('BatchBufferPool', () => {
  test('a part of a released buffer comes back whole', () => {
    const pool = new BatchBufferPool()
    const buffer = pool.acquire(10_000)
    expect(buffer.length).toBe(16_384)
    pool.release(buffer.subarray(0, 100))
    const again = pool.acquire(9000)
    expect(again.buffer).toBe(buffer.buffer)
    expect(again.length).toBe(16_384)
    expect(pool.acquire(9000).buffer).not.toBe(buffer.buffer)
  })

  test.each([
    [1, 4096],
    [4096, 4096],
    [4097, 8192],
    [65_536, 65_536],
    [65_537, 131_072],
    [100_000_000, 134_217_728],
  ])('%d bytes fit into %d', (size, capacity) => {
    expect(new BatchBufferPool().acquire(size).length).toBe(capacity)
  })

  test('no more than the limit is kept', () => {
    const pool = new BatchBufferPool(10_000)
    const buffers = [pool.acquire(4096), pool.acquire(4096), pool.acquire(4096)]
    for (const buffer of buffers) pool.release(buffer)
    const reused = [1, 2, 3]
      .map(() => pool.acquire(4096).buffer)
      .filter((memory) => buffers.some(({ buffer }) => buffer === memory))
    expect(reused).toHaveLength(2)
  })

  test('memory of another origin is not taken in', () => {
    const pool = new BatchBufferPool()
    const small = Buffer.from('small')
    pool.release(small)
    pool.release(Buffer.allocUnsafeSlow(5000))
    expect(pool.acquire(4096).buffer).not.toBe(small.buffer)
    expect(pool.acquire(5000).buffer.byteLength).toBe(8192)
  })
})
