import { beforeEach, describe, expect, test } from '@jest/globals'
import type { BlobStore, ImagesHandle } from '../../../src/checkpoint/checkpoint-storage.ts'
import type { OperatorSubtaskState } from '../../../src/checkpoint/completed-checkpoint.ts'
import type { FrozenKeyedState, KeyedStateBackend } from '../../../src/core/state.ts'
import {
  SubtaskCheckpointer,
  type SubtaskCheckpointerOptions,
} from '../../../src/runtime/subtask-checkpointer.ts'
import { MemoryBlobStore } from '../../../src/state/memory-blob-store.ts'
import { decodeOperatorState, STATE_CODEC } from '../../../src/state/operator-state-codec.ts'
import { gate, RecordingOperator, vector, type Wired, wire } from './chain-fixture.ts'
import { VirtualWorld } from './virtual-world.ts'

/** Keyed state of one counter; a freeze keeps the number of that moment. */
class CounterBackend {
  count = 0
  frozen = 0
  released = 0
  pauses = 0
  freeze(): FrozenKeyedState {
    const frozen = this.count
    this.frozen++
    return {
      materialize: async (pause) => {
        for (let i = 0; i < 3; i++) {
          this.pauses++
          await pause()
        }
        return [{ keyGroup: 5, bytes: Uint8Array.of(frozen) }]
      },
      release: () => {
        this.released++
      },
    }
  }
}

let virtual: VirtualWorld
let operator: RecordingOperator
let wired: Wired
let blobs: MemoryBlobStore
let backend: CounterBackend
let acknowledged: { n: number; states: readonly OperatorSubtaskState[] }[]
let declined: { n: number; error: unknown }[]

beforeEach(() => {
  virtual = new VirtualWorld()
  operator = new RecordingOperator()
  wired = wire(virtual, operator)
  blobs = new MemoryBlobStore()
  backend = new CounterBackend()
  acknowledged = []
  declined = []
})

function checkpointer(
  change: Partial<SubtaskCheckpointerOptions> & {
    store?: BlobStore
    keepsState?: boolean
    async?: boolean
  } = {},
): SubtaskCheckpointer {
  return new SubtaskCheckpointer({
    subtaskId: '1/2',
    subtaskIndex: 2,
    operators: [{ uid: 'op', keyedState: backend as unknown as KeyedStateBackend }],
    chain: wired.chain,
    driver: wired.driver,
    storage: {
      blobs: () => change.store ?? blobs,
      codec: STATE_CODEC,
      keepsState: change.keepsState ?? true,
      async: change.async ?? true,
    },
    acknowledger: {
      acknowledge: (n, _subtask, states) => acknowledged.push({ n, states }),
      decline: (n, _subtask, error) => declined.push({ n, error }),
    },
    world: virtual.world,
    splits: undefined,
    fail: (error) => {
      throw error
    },
    ...change,
  })
}

describe('a backend that stores itself', () => {
  test.each([
    ['checkpoint', 'incremental'],
    ['savepoint', undefined],
  ] as const)(
    'gives its own handle for a %s (%s): only that of a savepoint is images of everything',
    async (kind, expected) => {
      const own = backend.freeze.bind(backend)
      backend.freeze = () => ({ ...own(), store: async () => ({ kind: 'incremental' as const, layers: [] }) })
      const made = checkpointer({ keepsState: kind === 'checkpoint' })
      await made.checkpoint(1, kind)
      await virtual.time.advance(100)
      expect(backend.pauses > 0).toBe(kind === 'savepoint')
      expect(acknowledged[0]?.states[0]?.keyed?.kind).toBe(expected)
    },
  )
})

test("keyed state that is the snapshot's alone goes when the rest of it cannot be stored; layers of a chain stay", async () => {
  for (const [own, left] of [
    [true, 0],
    [false, 1],
  ] as const) {
    blobs = new MemoryBlobStore()
    const freeze = backend.freeze.bind(backend)
    backend.freeze = () => ({
      ...freeze(),
      store: async () => ({
        kind: 'incremental' as const,
        layers: [
          { handle: await blobs.put('keyed', Uint8Array.of(1, 2, 3)), keyGroups: [[0, 0, 3] as const] },
        ],
        own,
      }),
    })
    operator.snapshots = { operatorState: { list: { redistribution: 'split', items: [1] } } }
    const store = {
      put: () => Promise.reject(new Error('full')),
      get: (handle: Parameters<MemoryBlobStore['get']>[0]) => blobs.get(handle),
      discard: (handle: Parameters<MemoryBlobStore['discard']>[0]) => blobs.discard(handle),
    }
    await checkpointer({ store }).checkpoint(1, 'checkpoint')
    await virtual.time.advance(100)
    expect(declined.at(-1)).toMatchObject({ n: 1, error: { message: 'full' } })
    expect(blobs.names).toHaveLength(left)
  }
})

describe('a snapshot', () => {
  test('is prepared, frozen, and then the barrier goes on; the bytes come after that', async () => {
    const made = checkpointer()
    await virtual.run(wired.chain.openAll())
    await made.checkpoint(1, 'savepoint')
    expect(operator.calls).toEqual(['prepare 1 for a savepoint', 'snapshot 1'])
    expect(wired.taken()).toEqual([{ kind: 'barrier', n: 1, checkpointKind: 'savepoint' }])
    expect(acknowledged).toEqual([])
    await virtual.time.advance(100)
    expect(acknowledged).toHaveLength(1)
    expect(backend.released).toBe(1)
  })

  test('holds state as it was at the barrier, whatever comes while it is written', async () => {
    backend.count = 7
    const made = checkpointer()
    await made.checkpoint(1, 'checkpoint')
    backend.count = 99
    await virtual.time.advance(100)
    const keyed = acknowledged[0]!.states[0]!.keyed as ImagesHandle
    expect([...(await blobs.get(keyed.handle))]).toEqual([7])
    expect(keyed.keyGroups).toEqual([[5, 0, 1]])
  })

  test('has positions, operator state and committables under uid and subtask', async () => {
    operator.snapshots = {
      operatorState: { list: { redistribution: 'split', items: [1, 2] } },
      committables: [{ id: 'c' }],
    }
    const made = checkpointer({ splits: (n) => [{ id: `at ${n}` }] })
    await made.checkpoint(4, 'checkpoint')
    await virtual.time.advance(100)
    const [state] = acknowledged[0]!.states
    expect(state).toMatchObject({
      uid: 'op',
      subtask: 2,
      splits: [{ id: 'at 4' }],
      committables: [{ id: 'c' }],
    })
    expect(decodeOperatorState(await blobs.get(state!.operator!), 'op')).toMatchObject({
      list: { items: [1, 2] },
    })
    expect(state!.endOfInput).toBeUndefined()
  })

  test('without anything to store is acknowledged all the same', async () => {
    const made = checkpointer({ operators: [{ uid: 'op', keyedState: undefined }] })
    await made.checkpoint(1, 'checkpoint')
    await virtual.time.advance(10)
    expect(acknowledged).toEqual([{ n: 1, states: [{ uid: 'op', subtask: 2 }] }])
  })

  test('of a job that stores nothing does not even freeze', async () => {
    const made = checkpointer({ keepsState: false })
    await made.checkpoint(1, 'final')
    await virtual.time.advance(10)
    expect(backend.frozen).toBe(0)
    expect(acknowledged[0]!.states[0]!.keyed).toBeUndefined()
  })

  test('says that the end of input was handled if it was at the barrier, not if that came while it was written', async () => {
    const made = checkpointer()
    await made.checkpoint(1, 'checkpoint')
    await wired.driver.endOfData()
    await virtual.time.advance(100)
    expect(acknowledged[0]!.states[0]!.endOfInput).toBeUndefined()
    await made.checkpoint(2, 'checkpoint')
    await virtual.time.advance(100)
    expect(acknowledged[1]!.states[0]!.endOfInput).toBe(true)
    expect(operator.calls).toContain('prepare 2 ended')
  })

  test('that is written synchronously holds the records', async () => {
    const made = checkpointer({ async: false })
    let done = false
    const taking = made.checkpoint(1, 'checkpoint').then(() => {
      done = true
    })
    await new Promise((resolve) => setImmediate(resolve))
    expect(done).toBe(false)
    await virtual.run(taking)
    expect(acknowledged).toHaveLength(1)
  })

  test('an operator that throws fails the task, not only the checkpoint', async () => {
    operator.throws.set('prepare', new Error('flush failed'))
    await expect(checkpointer().checkpoint(1, 'checkpoint')).rejects.toThrow('flush failed')
    expect(declined).toEqual([])
    expect(wired.taken()).toEqual([])
  })
})

describe('trouble with storage', () => {
  const failing = (): BlobStore => ({
    put: async (name, bytes) => {
      if (name.includes('operator')) throw new Error('disk full')
      return blobs.put(name, bytes)
    },
    get: (handle) => blobs.get(handle),
    discard: (handle) => blobs.discard(handle),
  })

  test('declines the checkpoint with the cause, and what was written already is removed', async () => {
    operator.snapshots = { operatorState: { list: { redistribution: 'split', items: [1] } } }
    const made = checkpointer({ store: failing() })
    await made.checkpoint(1, 'checkpoint')
    await virtual.time.advance(100)
    expect(acknowledged).toEqual([])
    expect(declined).toEqual([{ n: 1, error: expect.objectContaining({ message: 'disk full' }) }])
    expect(blobs.names).toEqual([])
    expect(backend.released).toBe(1)
    await made.checkpoint(2, 'checkpoint')
  })
})

describe('an abort', () => {
  test('stops the writing: nothing is acknowledged or declined, and nothing is left', async () => {
    operator.snapshots = { operatorState: { list: { redistribution: 'split', items: [1] } } }
    const made = checkpointer()
    await made.checkpoint(1, 'checkpoint')
    made.abort(1)
    await virtual.time.advance(100)
    expect([...acknowledged, ...declined]).toEqual([])
    expect(backend.pauses).toBeLessThan(3)
    expect(backend.released).toBe(1)
    expect(blobs.names).toEqual([])
  })

  test('that comes before the trigger swallows it', async () => {
    const made = checkpointer()
    made.abort(3)
    await made.checkpoint(3, 'checkpoint')
    await virtual.time.advance(100)
    expect(operator.calls).toEqual([])
    expect(wired.taken()).toEqual([])
    await made.checkpoint(4, 'checkpoint')
    await virtual.time.advance(100)
    expect(acknowledged.map(({ n }) => n)).toEqual([4])
  })

  test('that comes while output is flushed: no freeze, no barrier', async () => {
    const flush = gate()
    operator.waits.set('prepare', flush.opened)
    const made = checkpointer()
    const taking = made.checkpoint(1, 'checkpoint')
    made.abort(1)
    flush.open()
    await taking
    await virtual.time.advance(100)
    expect(operator.calls).toEqual(['prepare 1'])
    expect(wired.taken()).toEqual([])
    expect(backend.frozen).toBe(0)
    expect([...acknowledged, ...declined]).toEqual([])
  })

  test('of one checkpoint leaves another alone', async () => {
    const made = checkpointer()
    await made.checkpoint(1, 'checkpoint')
    await made.checkpoint(2, 'checkpoint')
    made.abort(1)
    await virtual.time.advance(100)
    expect(acknowledged.map(({ n }) => n)).toEqual([2])
  })

  test('after the acknowledgement changes nothing', async () => {
    const made = checkpointer()
    await made.checkpoint(1, 'checkpoint')
    await virtual.time.advance(100)
    made.abort(1)
    await made.checkpoint(2, 'checkpoint')
    await virtual.time.advance(100)
    expect(acknowledged.map(({ n }) => n)).toEqual([1, 2])
  })
})

test('after close nothing is acknowledged or declined', async () => {
  const made = checkpointer()
  await made.checkpoint(1, 'checkpoint')
  made.close()
  await virtual.time.advance(100)
  expect([...acknowledged, ...declined]).toEqual([])
  expect(vector(1).values).toEqual([1])
})
