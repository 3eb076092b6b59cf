import { beforeEach, describe, expect, test } from '@jest/globals'
import type { OperatorSubtaskState } from '../../../src/checkpoint/completed-checkpoint.ts'
import { LocalChannel } from '../../../src/runtime/channel.ts'
import { GateInput } from '../../../src/runtime/gate-input.ts'
import { InputGate } from '../../../src/runtime/input-gate.ts'
import { SourceInput } from '../../../src/runtime/source-input.ts'
import { SubtaskCheckpointer } from '../../../src/runtime/subtask-checkpointer.ts'
import { Task } from '../../../src/runtime/task.ts'
import type { TaskInput } from '../../../src/runtime/task-input.ts'
import { MemoryBlobStore } from '../../../src/state/memory-blob-store.ts'
import { STATE_CODEC } from '../../../src/state/operator-state-codec.ts'
import { gate, QueueReader, RecordingOperator, vector, type Wired, wire } from './chain-fixture.ts'
import { VirtualWorld } from './virtual-world.ts'

let virtual: VirtualWorld
let operator: RecordingOperator
let wired: Wired
let reader: QueueReader
let channels: LocalChannel[]
let failures: unknown[]
let acknowledged: { n: number; states: readonly OperatorSubtaskState[] }[]

beforeEach(() => {
  virtual = new VirtualWorld()
  operator = new RecordingOperator()
  reader = new QueueReader()
  failures = []
  acknowledged = []
})

function build(
  inputOf: (checkpointer: SubtaskCheckpointer, wake: () => void) => TaskInput,
  source: boolean,
): Task {
  let task: Task
  wired = wire(virtual, operator, { requestProcessingTime: (time) => task.requestProcessingTime(0, time) })
  const checkpointer = new SubtaskCheckpointer({
    subtaskId: '0/0',
    subtaskIndex: 0,
    operators: [{ uid: 'op', keyedState: undefined }],
    chain: wired.chain,
    driver: wired.driver,
    storage: {
      blobs: () => new MemoryBlobStore(),
      codec: STATE_CODEC,
      keepsState: true,
      async: true,
    },
    acknowledger: {
      acknowledge: (n, _subtask, states) => acknowledged.push({ n, states }),
      decline: () => undefined,
    },
    world: virtual.world,
    splits: source ? (n) => [...reader.snapshot(), { n }] : undefined,
    fail: (error) => task.fail(error),
  })
  task = new Task({
    id: '0/0',
    name: 'op (1/1)',
    chain: wired.chain,
    input: inputOf(checkpointer, () => task.wake()),
    driver: wired.driver,
    checkpointer,
    world: virtual.world,
    onFailure: (_task, error) => failures.push(error),
  })
  return task
}

/** Reads a source; the operator stands behind it in the chain of another task, so it is the head here for its calls. */
const sourceTask = () =>
  build((_checkpointer, wake) => new SourceInput(reader, undefined, wired.driver, virtual.world, wake), true)

function gateTask(count = 1): Task {
  channels = Array.from({ length: count }, () => new LocalChannel())
  return build((checkpointer, wake) => {
    const input = new InputGate(channels.map((channel, i) => ({ channel, input: 0, from: `up (${i})` })))
    input.onData = wake
    return new GateInput(input, 'EXACTLY_ONCE', wired.driver, {
      checkpoint: (n, kind) => checkpointer.checkpoint(n, kind),
      cancelled: (n) => checkpointer.abort(n),
    })
  }, false)
}

async function running(task: Task): Promise<Task> {
  await virtual.run(task.open())
  task.run()
  await virtual.time.advance(1)
  return task
}

describe('the loop', () => {
  test('handles elements as they come, and sleeps between', async () => {
    await running(gateTask())
    channels[0]!.push(vector(1))
    channels[0]!.push(vector(2))
    await virtual.time.advance(10)
    channels[0]!.push(vector(3))
    await virtual.time.advance(10)
    expect(operator.calls).toEqual(['records 1', 'records 2', 'records 3'])
  })

  test('one call at a time: what is posted waits for the element that is being handled', async () => {
    const task = await running(gateTask())
    const busy = gate()
    operator.waits.set('records', busy.opened)
    channels[0]!.push(vector(1))
    await virtual.time.advance(10)
    task.post(() => void operator.calls.push('posted'))
    await virtual.time.advance(10)
    expect(operator.calls).toEqual(['records 1'])
    busy.open()
    await virtual.time.advance(10)
    expect(operator.calls).toEqual(['records 1', 'posted'])
  })

  test('posted actions go before further elements, so that a busy stream cannot hold barriers up', async () => {
    const task = await running(gateTask())
    const busy = gate()
    operator.waits.set('records', busy.opened)
    for (let i = 0; i < 3; i++) channels[0]!.push(vector(i))
    await virtual.time.advance(10)
    task.post(() => void operator.calls.push('posted'))
    busy.open()
    await virtual.time.advance(100)
    expect(operator.calls).toEqual(['records 0', 'posted', 'records 1', 'records 2'])
  })

  test('an error of an operator is reported once, and the loop ends', async () => {
    const task = await running(gateTask())
    operator.throws.set('records', new Error('boom'))
    channels[0]!.push(vector(1))
    channels[0]!.push(vector(2))
    await virtual.time.advance(10)
    task.fail(new Error('another'))
    expect(failures).toEqual([expect.objectContaining({ message: 'boom' })])
    expect(operator.calls).toEqual(['records 1'])
  })
})

describe('checkpoints', () => {
  test('a source takes one between two vectors: the positions are those of what was emitted', async () => {
    const task = await running(sourceTask())
    reader.put(1, 2)
    await virtual.time.advance(10)
    task.trigger(1, 'checkpoint', false)
    await virtual.time.advance(10)
    reader.put(3)
    await virtual.time.advance(10)
    expect(task.isSource).toBe(true)
    expect(acknowledged[0]!.states[0]!.splits).toEqual([{ id: 's@2' }, { n: 1 }])
    expect(wired.taken().map(({ kind }) => kind)).toEqual(['records', 'barrier', 'records'])
  })

  test('with a stop nothing comes behind the barrier', async () => {
    const task = await running(sourceTask())
    task.trigger(1, 'checkpoint', true)
    reader.put(1)
    await virtual.time.advance(10)
    expect(
      wired
        .taken()
        .map(({ kind }) => kind)
        .at(-1),
    ).toBe('barrier')
    reader.put(2)
    await virtual.time.advance(1_000)
    expect(wired.taken()).toEqual([])
  })

  test('an abort that overtakes the trigger swallows it', async () => {
    const task = sourceTask()
    task.trigger(1, 'checkpoint', false)
    task.notifyAborted(1)
    await running(task)
    await virtual.time.advance(100)
    expect(wired.taken()).toEqual([])
    expect(acknowledged).toEqual([])
    task.trigger(2, 'checkpoint', false)
    await virtual.time.advance(100)
    expect(acknowledged.map(({ n }) => n)).toEqual([2])
  })

  test('an abort lets blocked channels go on', async () => {
    const task = await running(gateTask(2))
    channels[0]!.push({ kind: 'barrier', n: 1, checkpointKind: 'checkpoint' })
    channels[0]!.push(vector('behind'))
    await virtual.time.advance(10)
    expect(operator.calls).toEqual([])
    expect(task.describe()).toContain('waits for the barrier from up (1)')
    task.notifyAborted(1)
    await virtual.time.advance(10)
    expect(operator.calls).toEqual(['aborted 1', 'records behind'])
  })

  test('notifications are delivered at once, while an element is held back: a sink may wait for just them', async () => {
    const task = await running(gateTask())
    const held = gate()
    operator.waits.set('records', held.opened)
    channels[0]!.push(vector(1))
    await virtual.time.advance(10)
    task.notifyComplete(1)
    task.notifyAborted(2)
    task.notifyConfirmed(1)
    expect(operator.calls).toEqual(['records 1', 'complete 1', 'aborted 2', 'confirmed 1'])
  })

  test('a source hears of completed checkpoints', async () => {
    const task = await running(sourceTask())
    task.notifyComplete(4)
    expect(reader.calls).toContain('complete 4')
  })

  test.each(['complete', 'aborted', 'confirmed'] as const)(
    'an operator that throws when it hears that one is %s fails its task, not the one who tells',
    async (what) => {
      const task = await running(gateTask())
      operator.throws.set(what, new Error('ears'))
      if (what === 'complete') task.notifyComplete(1)
      if (what === 'aborted') task.notifyAborted(1)
      if (what === 'confirmed') task.notifyConfirmed(1)
      expect(failures).toEqual([expect.objectContaining({ message: 'ears' })])
    },
  )

  test('one that rejects later fails it too', async () => {
    const task = await running(gateTask())
    operator.waits.set('complete', Promise.reject(new Error('late')))
    task.notifyComplete(1)
    await virtual.time.advance(1)
    expect(failures).toEqual([expect.objectContaining({ message: 'late' })])
  })
})

describe('processing time', () => {
  test('the earliest wish wins, and comes in the loop', async () => {
    const task = await running(gateTask())
    const now = virtual.time.now()
    operator.wish(now + 500)
    operator.wish(now + 200)
    operator.wish(now + 300)
    await virtual.time.advance(1_000)
    expect(operator.calls).toEqual([`timer ${now + 200}`])
    operator.wish(now)
    await virtual.time.advance(1)
    expect(operator.calls).toHaveLength(2)
    await virtual.run(task.cancel(100))
  })

  test('after the end of input nothing comes, whenever it was wished for or due', async () => {
    const task = await running(gateTask())
    const busy = gate()
    operator.waits.set('end', busy.opened)
    operator.wish(virtual.time.now() + 100)
    channels[0]!.push({ kind: 'end-of-data' })
    await virtual.time.advance(200)
    busy.open()
    await virtual.time.advance(1)
    operator.wish(virtual.time.now() + 100)
    await virtual.time.advance(1_000)
    expect(operator.calls).toEqual(['end 0'])
    await virtual.run(task.cancel(100))
  })

  test('after a cancel nothing comes and nothing is scheduled', async () => {
    const task = await running(gateTask())
    operator.wish(virtual.time.now() + 100)
    await virtual.run(task.cancel(100))
    operator.wish(virtual.time.now() + 100)
    await virtual.time.advance(1_000)
    expect(operator.calls).toEqual(['close'])
    expect(virtual.time.pending).toBe(0)
  })
})

describe('cancel', () => {
  test('ends the loop, closes input and operators, and reports nothing', async () => {
    const task = await running(sourceTask())
    await virtual.run(task.cancel(1_000))
    expect(reader.calls).toContain('close')
    expect(operator.calls).toEqual(['close'])
    task.fail(new Error('late'))
    task.post(() => void operator.calls.push('posted'))
    await virtual.time.advance(100)
    expect(failures).toEqual([])
    expect(operator.calls).toEqual(['close'])
  })

  test('does not wait for a call that hangs longer than its grace', async () => {
    const task = await running(gateTask())
    operator.waits.set('records', new Promise(() => undefined))
    channels[0]!.push(vector(1))
    await virtual.time.advance(10)
    const at = virtual.time.now()
    await virtual.run(task.cancel(1_000))
    expect(virtual.time.now() - at).toBeLessThanOrEqual(1_000)
    expect(operator.calls).toContain('close')
  })

  test('a source that cannot be closed does not keep its operators open', async () => {
    const task = await running(sourceTask())
    reader.closing = () => Promise.reject(new Error('socket'))
    expect(await virtual.failure(task.cancel(1_000))).toMatchObject({ message: 'socket' })
    expect(operator.calls).toEqual(['close'])
  })

  test('before the task ran closes it as well', async () => {
    const task = gateTask()
    await virtual.run(task.open())
    await virtual.run(task.cancel(1_000))
    expect(operator.calls).toEqual(['close'])
  })

  test('releases senders that wait for room', async () => {
    const task = gateTask()
    channels[0] = channels[0]!
    await running(task)
    operator.waits.set('records', new Promise(() => undefined))
    channels[0]!.push(vector(...Array.from({ length: 5_000 }, (_, i) => i)))
    await virtual.time.advance(10)
    channels[0]!.push(vector(...Array.from({ length: 5_000 }, (_, i) => i)))
    const waiting = channels[0]!.writable()!
    await virtual.run(task.cancel(100))
    await waiting
  })
})
