import { describe, expect, test } from '@jest/globals'
import { recordVector } from '../../../src/core/element.ts'
import { LocalChannel } from '../../../src/runtime/channel.ts'
import { InputGate } from '../../../src/runtime/input-gate.ts'

function gateOf(count: number): { gate: InputGate; channels: LocalChannel[] } {
  const channels = Array.from({ length: count }, () => new LocalChannel())
  const gate = new InputGate(channels.map((channel, i) => ({ channel, input: 0, from: `up (${i})` })))
  return { gate, channels }
}
const one = (value: number) => recordVector([value], [Number.NaN])

describe('an input gate', () => {
  test('takes from the channels in turn', () => {
    const { gate, channels } = gateOf(3)
    for (const [i, channel] of channels.entries()) for (let k = 0; k < 2; k++) channel.push(one(i))
    const order: number[] = []
    for (let index = gate.ready(); index >= 0; index = gate.ready()) {
      gate.take(index)
      order.push(index)
    }
    expect(order).toEqual([0, 1, 2, 0, 1, 2])
  })

  test('leaves blocked channels alone and keeps what is in them', () => {
    const { gate, channels } = gateOf(2)
    channels[0]!.push(one(1))
    gate.block(0)
    expect(gate.ready()).toBe(-1)
    channels[1]!.push(one(2))
    expect(gate.ready()).toBe(1)
    gate.take(1)
    gate.resumeAll()
    expect(gate.ready()).toBe(0)
    expect(gate.take(0)).toEqual(one(1))
  })

  test('tells of data on any channel', () => {
    const { gate, channels } = gateOf(2)
    let told = 0
    gate.onData = () => {
      told++
    }
    channels[1]!.push(one(1))
    channels[0]!.push(one(1))
    expect(told).toBe(2)
  })

  test('closes all its channels', () => {
    const { gate, channels } = gateOf(2)
    gate.close()
    for (const channel of channels) channel.push(one(1))
    expect(gate.ready()).toBe(-1)
  })
})
