import { beforeEach, describe, expect, test } from '@jest/globals'
import type { CheckpointingMode } from '../../../src/core/constants.ts'
import type { StreamElement } from '../../../src/core/element.ts'
import { LocalChannel } from '../../../src/runtime/channel.ts'
import { GateInput } from '../../../src/runtime/gate-input.ts'
import { InputGate } from '../../../src/runtime/input-gate.ts'
import { RecordingOperator, vector, type Wired, wire } from './chain-fixture.ts'
import { VirtualWorld } from './virtual-world.ts'

let virtual: VirtualWorld
let operator: RecordingOperator
let wired: Wired
let channels: LocalChannel[]
let obeyed: string[]

beforeEach(() => {
  virtual = new VirtualWorld()
  operator = new RecordingOperator()
  wired = wire(virtual, operator)
  obeyed = []
})

function input(inputs: readonly number[], mode: CheckpointingMode = 'EXACTLY_ONCE'): GateInput {
  channels = inputs.map(() => new LocalChannel())
  const gate = new InputGate(
    inputs.map((number, i) => ({ channel: channels[i]!, input: number, from: `up (${i + 1})` })),
  )
  return new GateInput(gate, mode, wired.driver, {
    checkpoint: async (n) => {
      obeyed.push(
        `checkpoint ${n} after ${operator.calls.filter((call) => call.startsWith('records')).join(' ')}`,
      )
    },
    cancelled: (n) => {
      obeyed.push(`cancelled ${n}`)
    },
  })
}

const barrier = (n: number): StreamElement => ({ kind: 'barrier', n, checkpointKind: 'checkpoint' })

async function drain(made: GateInput): Promise<void> {
  while ((await made.step()) === 'worked');
}

describe('the input of a task that reads channels', () => {
  test('takes the snapshot when the barrier has come on all channels; records behind it wait in theirs', async () => {
    const made = input([0, 0])
    for (const element of [vector('a1'), barrier(1), vector('a2')]) channels[0]!.push(element)
    channels[1]!.push(vector('b1'))
    await drain(made)
    expect(obeyed).toEqual([])
    expect(made.describe()).toBe('checkpoint 1 waits for the barrier from up (2)')
    expect(operator.calls).toEqual(['records a1', 'records b1'])
    for (const element of [vector('b2'), barrier(1), vector('b3')]) channels[1]!.push(element)
    await drain(made)
    expect(obeyed).toEqual(['checkpoint 1 after records a1 records b1 records b2'])
    expect(operator.calls.toSorted()).toEqual([
      'records a1',
      'records a2',
      'records b1',
      'records b2',
      'records b3',
    ])
    expect(made.describe()).toBe('waiting for records')
  })

  test('records behind a barrier wait; a blocked channel without records does not', async () => {
    const made = input([0, 0])
    channels[0]!.push(barrier(1))
    await drain(made)
    expect(made.waiting()).toBe(false)
    channels[0]!.push(vector('a'))
    expect(made.waiting()).toBe(true)
    channels[1]!.push(barrier(1))
    await drain(made)
    expect(made.waiting()).toBe(false)
  })

  test('at least once blocks nobody', async () => {
    const made = input([0, 0], 'AT_LEAST_ONCE')
    for (const element of [barrier(1), vector('early')]) channels[0]!.push(element)
    channels[1]!.push(barrier(1))
    await drain(made)
    expect(obeyed).toEqual(['checkpoint 1 after '])
    expect(operator.calls).toEqual(['records early'])
  })

  test('an abort lets the channels go on and is passed on', async () => {
    const made = input([0, 0])
    for (const element of [barrier(1), vector('a')]) channels[0]!.push(element)
    await drain(made)
    expect(operator.calls).toEqual([])
    await made.abortCheckpoint(1)
    await drain(made)
    expect(obeyed).toEqual(['cancelled 1'])
    expect(operator.calls).toEqual(['records a'])
    channels[1]!.push(barrier(1))
    await drain(made)
    expect(obeyed).toEqual(['cancelled 1'])
  })

  test('a cancel marker does the same', async () => {
    const made = input([0, 0])
    channels[0]!.push(barrier(1))
    channels[1]!.push({ kind: 'cancel-checkpoint', n: 1 })
    await drain(made)
    expect(obeyed).toEqual(['cancelled 1'])
  })

  test('records go to their input, and one at a time', async () => {
    const made = input([0])
    let release: () => void = () => undefined
    operator.waits.set('records', new Promise((resolve) => (release = resolve)))
    channels[0]!.push(vector(1))
    let done = false
    const step = Promise.resolve(made.step()).then(() => {
      done = true
    })
    await virtual.time.advance(10)
    expect(done).toBe(false)
    release()
    await step
  })

  test('the watermark is the minimum of the channels', async () => {
    const made = input([0, 0])
    channels[0]!.push({ kind: 'watermark', timestamp: 10 })
    await drain(made)
    expect(operator.calls).toEqual([])
    channels[1]!.push({ kind: 'watermark', timestamp: 7 })
    await drain(made)
    channels[1]!.push({ kind: 'watermark-status', idle: true })
    await drain(made)
    expect(operator.calls).toEqual(['watermark 7', 'watermark 10'])
  })
})

describe('ends', () => {
  test('the input ends with the data of its last channel; barriers still flow', async () => {
    const made = input([0, 0])
    channels[0]!.push({ kind: 'end-of-data' })
    await drain(made)
    expect(operator.calls).toEqual([])
    channels[1]!.push(vector('b'))
    channels[1]!.push({ kind: 'end-of-data' })
    await drain(made)
    expect(operator.calls).toEqual(['records b', 'end 0'])
    expect(wired.driver.ended).toBe(true)
    for (const channel of channels) channel.push(barrier(1))
    await drain(made)
    expect(obeyed).toEqual(['checkpoint 1 after records b'])
    expect(wired.taken().map(({ kind }) => kind)).toEqual(['records', 'end-of-data'])
  })

  test('a channel that is gone counts as aligned', async () => {
    const made = input([0, 0])
    channels[0]!.push(barrier(1))
    channels[1]!.push({ kind: 'end-of-channel' })
    await drain(made)
    expect(obeyed).toEqual(['checkpoint 1 after '])
  })

  test('end hooks that ran before the restored checkpoint do not run again, and downstream is told', async () => {
    wired = wire(virtual, operator, { restoredEnd: true })
    const made = input([0])
    channels[0]!.push({ kind: 'end-of-data' })
    await drain(made)
    expect(operator.calls).toEqual([])
    expect(wired.taken()).toEqual([{ kind: 'end-of-data' }])
  })

  test('closing closes the channels', async () => {
    const made = input([0])
    await made.close()
    channels[0]!.push(vector(1))
    expect(await made.step()).toBe('idle')
  })
})

test('the subtasks that hold the watermark back are named, with their splits if they are known', async () => {
  const own = [new LocalChannel(), new LocalChannel(), new LocalChannel()]
  const gate = new InputGate([
    { channel: own[0]!, input: 0, from: 'orders (1)', heldBackBy: () => ['orders-3', 'orders-5'] },
    { channel: own[1]!, input: 0, from: 'orders (2)', heldBackBy: () => ['orders-4'] },
    { channel: own[2]!, input: 0, from: 'clicks (1)' },
  ])
  const made = new GateInput(gate, 'EXACTLY_ONCE', wired.driver, {
    checkpoint: async () => {},
    cancelled: () => {},
  })
  own[1]!.push({ kind: 'watermark', timestamp: 5 })
  await drain(made)
  expect(made.watermarkHeldBackBy()).toEqual(['orders (1): orders-3, orders-5', 'clicks (1)'])
})

describe('what a task waits for', () => {
  function timed(inputs: number): GateInput {
    channels = Array.from({ length: inputs }, () => new LocalChannel())
    const gate = new InputGate(channels.map((channel, i) => ({ channel, input: 0, from: `up (${i + 1})` })))
    const obeyer = { checkpoint: async () => undefined, cancelled: () => undefined }
    return new GateInput(gate, 'EXACTLY_ONCE', wired.driver, obeyer, {
      clock: virtual.time,
      timers: virtual.time,
      wake: () => undefined,
      writer: () => {
        throw new Error('nothing overtakes here')
      },
    })
  }

  test('channels that a barrier blocks are named with the time for which they are', async () => {
    const made = timed(3)
    expect(made.alignment()).toBeUndefined()
    channels[0]!.push(barrier(4))
    await drain(made)
    await virtual.time.advance(3_000)
    channels[1]!.push(barrier(4))
    await drain(made)
    await virtual.time.advance(500)
    expect(made.alignment()).toEqual({
      checkpoint: 4,
      missing: ['up (3)'],
      blocked: [
        { from: 'up (1)', ms: 3_500 },
        { from: 'up (2)', ms: 500 },
      ],
    })
    channels[2]!.push(barrier(4))
    await drain(made)
    expect(made.alignment()).toBeUndefined()
    channels[2]!.push(barrier(5))
    await drain(made)
    expect(made.alignment()).toMatchObject({ checkpoint: 5, blocked: [{ from: 'up (3)', ms: 0 }] })
  })

  test('there is event time once a watermark came; the end of a channel is none', async () => {
    const made = timed(2)
    expect(made.hasEventTime).toBe(false)
    channels[0]!.push({ kind: 'end-of-data' })
    channels[0]!.push({ kind: 'end-of-channel' })
    await drain(made)
    expect(made.hasEventTime).toBe(false)
    channels[1]!.push({ kind: 'watermark', timestamp: 10 })
    await drain(made)
    expect(made.hasEventTime).toBe(true)
  })
})
