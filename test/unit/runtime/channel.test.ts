import { describe, expect, test } from '@jest/globals'
import { recordVector, type StreamElement } from '../../../src/core/element.ts'
import { LocalChannel } from '../../../src/runtime/channel.ts'

const records = (...values: number[]): StreamElement =>
  recordVector(
    values,
    values.map(() => Number.NaN),
  )
const barrier: StreamElement = { kind: 'barrier', n: 1, checkpointKind: 'checkpoint' }

describe('a local channel', () => {
  test('gives elements back in their order, and each push is told', () => {
    const channel = new LocalChannel()
    let told = 0
    channel.onData = () => {
      told++
    }
    for (const element of [records(1), barrier, records(2, 3)]) channel.push(element)
    expect(told).toBe(3)
    expect(channel.peek()).toEqual(records(1))
    expect([channel.take(), channel.take(), channel.take(), channel.take()]).toEqual([
      records(1),
      barrier,
      records(2, 3),
      undefined,
    ])
    expect(channel.empty).toBe(true)
  })

  test('holds its sender back from the capacity on, until there is room; events are never held back', async () => {
    const channel = new LocalChannel(3)
    channel.push(records(1, 2))
    expect(channel.writable()).toBeUndefined()
    channel.push(records(3, 4))
    const waiting = channel.writable()
    expect(waiting).toBeInstanceOf(Promise)
    expect(channel.writable()).toBe(waiting)
    channel.push(barrier)
    expect(channel.records).toBe(4)
    channel.take()
    await waiting
    expect(channel.writable()).toBeUndefined()
  })

  test('a take that leaves it full releases nobody', async () => {
    const channel = new LocalChannel(2)
    for (let i = 0; i < 4; i++) channel.push(records(i))
    let released = false
    void channel.writable()!.then(() => {
      released = true
    })
    channel.take()
    channel.take()
    await Promise.resolve()
    expect(released).toBe(false)
    channel.take()
    await Promise.resolve()
    expect(released).toBe(true)
  })

  test('closing drops what is in it, releases the sender, and takes nothing more', async () => {
    const channel = new LocalChannel(1)
    channel.push(records(1))
    const waiting = channel.writable()
    channel.close()
    await waiting
    channel.push(records(2))
    expect(channel.empty).toBe(true)
    expect(channel.take()).toBeUndefined()
    expect(channel.writable()).toBeUndefined()
  })
})
