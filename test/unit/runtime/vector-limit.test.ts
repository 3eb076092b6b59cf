/** How large vectors and queues may be, by how long they take. */
import { describe, expect, test } from '@jest/globals'
import { recordVector } from '../../../src/core/element.ts'
import { CHANNEL_CAPACITY, LocalChannel } from '../../../src/runtime/channel.ts'
import { QueueLimit } from '../../../src/runtime/queue-limit.ts'
import { VectorLimit } from '../../../src/runtime/vector-limit.ts'

describe('the vectors of a source', () => {
  test('grow to their maximum while they are fast', () => {
    const limit = new VectorLimit(256)
    const sizes = Array.from({ length: 6 }, () => {
      const { size } = limit
      limit.took(size, 1)
      return size
    })
    expect(sizes).toEqual([16, 32, 64, 128, 256, 256])
  })

  test('shrink to what takes a tenth of a second, to one record at the least, and grow again', () => {
    const limit = new VectorLimit(256)
    for (let i = 0; i < 5; i++) limit.took(limit.size, 1)
    limit.took(256, 5_120)
    expect(limit.size).toBe(5)
    limit.took(5, 100)
    expect(limit.size).toBe(5)
    limit.took(5, 60_000)
    expect(limit.size).toBe(1)
    limit.took(1, 2)
    expect(limit.size).toBe(2)
  })

  test('that took long because few records came do not grow', () => {
    const limit = new VectorLimit(256)
    limit.took(1, 1_000)
    expect(limit.size).toBe(1)
  })
})

describe('the channels of a subtask', () => {
  const vector = (length: number) =>
    recordVector(
      Array.from({ length }, () => 'x'),
      Array.from({ length }, () => 0),
    )
  /** Records that fit, a record at a time. */
  function room(channel: LocalChannel): number {
    let fit = 0
    while (!channel.full) {
      channel.push(vector(1))
      fit++
    }
    while (channel.take() !== undefined);
    return fit
  }

  test('hold few records until it is known how fast they are worked off, then many if they are', () => {
    const channels = [new LocalChannel(), new LocalChannel()]
    const limit = new QueueLimit(channels)
    expect(channels.map(room)).toEqual([32, 32])
    limit.took(32, 0)
    expect(channels.map(room)).toEqual([CHANNEL_CAPACITY, CHANNEL_CAPACITY])
  })

  test('hold together what a slow subtask works off in a second, and one record each at the least', () => {
    const channels = [new LocalChannel(), new LocalChannel()]
    const limit = new QueueLimit(channels)
    limit.took(10, 200)
    expect(channels.map(room)).toEqual([25, 25])
    for (let i = 0; i < 20; i++) limit.took(1, 30_000)
    expect(channels.map(room)).toEqual([1, 1])
  })

  test('that grow let go on who waits for room', async () => {
    const channel = new LocalChannel()
    const limit = new QueueLimit([channel])
    channel.push(vector(40))
    const room = channel.writable()
    expect(room).toBeDefined()
    limit.took(40, 1)
    await room
    expect(channel.writable()).toBeUndefined()
  })
})
