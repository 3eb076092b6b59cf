import { beforeEach, describe, expect, test } from '@jest/globals'
import type { CommitPointOutcome, JobRecord } from '../../../src/checkpoint/checkpoint-store.ts'
import type {
  CompletedCheckpoint,
  OperatorSubtaskState,
} from '../../../src/checkpoint/completed-checkpoint.ts'
import type { CoordinatorConfig } from '../../../src/checkpoint/coordinator.ts'
import type { CommitPermit, Committer, GroupOffset } from '../../../src/core/connector.ts'
import { MillraceError } from '../../../src/errors.ts'
import { CheckpointDriver, discardCheckpoint } from '../../../src/runtime/checkpoint-driver.ts'
import { MemoryCheckpointStore } from '../../../src/runtime/memory-checkpoint-store.ts'
import { commitAll } from '../../../src/runtime/output-commits.ts'
import { OutsideRuns } from '../../../src/runtime/outside-runs.ts'
import { plainStorage } from '../../../src/runtime/state-storage.ts'
import type { Task } from '../../../src/runtime/task.ts'
import { MemoryBlobStore } from '../../../src/state/memory-blob-store.ts'
import { STATE_CODEC } from '../../../src/state/operator-state-codec.ts'
import { gate } from './chain-fixture.ts'
import { VirtualWorld } from './virtual-world.ts'

/** Does what a test tells it to. */
class CuedStore extends MemoryCheckpointStore {
  readonly written: {
    n: number
    offsets: readonly GroupOffset[]
    confirmed: number
    forget: readonly number[]
  }[] = []
  readonly confirmations: { n: number; end: JobRecord | undefined }[] = []
  outcome: CommitPointOutcome = { type: 'written' }
  waits: Promise<void> | undefined
  confirmFails: unknown

  override async commitPoint(
    checkpoint: CompletedCheckpoint,
    offsets: readonly GroupOffset[],
    forget: readonly number[] = [],
  ): Promise<CommitPointOutcome> {
    await this.waits
    this.written.push({ n: checkpoint.n, offsets, confirmed: checkpoint.confirmed, forget })
    if (this.outcome.type !== 'written') return this.outcome
    return super.commitPoint(checkpoint, offsets, forget)
  }
  override async writeConfirmed(run: string, n: number, end?: JobRecord): Promise<void> {
    if (this.confirmFails !== undefined) throw this.confirmFails
    this.confirmations.push({ n, end })
    return super.writeConfirmed(run, n, end)
  }
}

/** Notes what it is told. */
class RecordingTask {
  readonly calls: string[] = []
  readonly isSource: boolean
  constructor(isSource: boolean) {
    this.isSource = isSource
  }
  trigger(n: number, kind: string, thenStop: boolean): void {
    this.calls.push(`trigger ${n} ${kind}${thenStop ? ' stop' : ''}`)
  }
  notifyComplete(n: number): void {
    this.calls.push(`complete ${n}`)
  }
  notifyAborted(n: number): void {
    this.calls.push(`aborted ${n}`)
  }
  notifyConfirmed(n: number): void {
    this.calls.push(`confirmed ${n}`)
  }
  retainedFrom(): void {}
}

let virtual: VirtualWorld
let store: CuedStore
let blobs: MemoryBlobStore
let tasks: RecordingTask[]
let committed: { permit: CommitPermit; committables: readonly unknown[] }[]
let committer: Committer<unknown>
let failures: any[]
let confirmed: { n: number; end: JobRecord | undefined }[]

beforeEach(() => {
  virtual = new VirtualWorld()
  blobs = new MemoryBlobStore()
  store = new CuedStore(blobs)
  tasks = [new RecordingTask(true), new RecordingTask(false)]
  committed = []
  failures = []
  confirmed = []
  committer = {
    commit: async (permit, committables) => void committed.push({ permit, committables }),
    close: async () => undefined,
  }
})

async function driver(config: Partial<CoordinatorConfig> = {}): Promise<CheckpointDriver> {
  const storage = plainStorage(blobs, STATE_CODEC)
  return new CheckpointDriver({
    run: 'r',
    attempt: 3,
    config: {
      intervalMs: 1_000,
      timeoutMs: 10_000,
      minPauseMs: 0,
      maxConcurrent: 1,
      tolerableFailures: Number.POSITIVE_INFINITY,
      numRetained: 1,
      subtasks: ['0/0', '1/0'],
      restored: 0,
      confirmed: 0,
      retained: [0],
      ...config,
    },
    store,
    storage,
    attemptStorage: await storage.begin('r', 3),
    outside: new OutsideRuns(undefined, 'r', virtual.world.logger),
    retained: [],
    world: virtual.world,
    tasks: tasks as unknown as Task[],
    operators: [{ uid: 'in', name: 'In', parallelism: 1, maxParallelism: 128 }],
    sources: new Map([
      [
        'in',
        {
          groupOffsets: (splits: { id: string }[]) =>
            splits.map(({ id }) => ({ groupId: 'g', topic: id, partition: 0, offset: 5n })),
        } as never,
      ],
    ]),
    committers: new Map([['out', committer]]),
    endOf: (kind, last) => (kind === 'final' || last ? { run: 'r', status: 'FINISHED', at: 1 } : undefined),
    onCompleted: () => undefined,
    onConfirmed: (n, end) => confirmed.push({ n, end }),
    onFailure: (error) => failures.push(error),
  })
}

const source: OperatorSubtaskState = { uid: 'in', subtask: 0, splits: [{ id: 'topic' }] }
const sink = (...committables: unknown[]): OperatorSubtaskState => ({ uid: 'out', subtask: 0, committables })
function ack(made: CheckpointDriver, n: number, ...committables: unknown[]): void {
  made.acknowledge(n, '0/0', [source])
  made.acknowledge(n, '1/0', [sink(...committables)])
}

describe('the checkpoint driver', () => {
  test('triggers the sources at the interval, writes the commit point with the offsets, then commits and tells everybody', async () => {
    const made = await driver()
    made.start()
    await virtual.time.advance(1_000)
    expect(tasks.map(({ calls }) => calls)).toEqual([['trigger 1 checkpoint'], []])
    ack(made, 1, 'c1')
    await virtual.time.advance(1)
    expect(store.written).toEqual([
      {
        n: 1,
        confirmed: 0,
        forget: [],
        offsets: [{ groupId: 'g', topic: 'topic', partition: 0, offset: 5n }],
      },
    ])
    expect(committed).toEqual([{ permit: { checkpointId: 1, confirmed: 0 }, committables: ['c1'] }])
    expect(tasks[1]!.calls).toEqual(['complete 1'])
  })

  test('nothing is committed before the commit point is written', async () => {
    const made = await driver()
    const writing = gate()
    store.waits = writing.opened
    made.start()
    await virtual.time.advance(1_000)
    ack(made, 1, 'c1')
    await virtual.time.advance(500)
    expect(committed).toEqual([])
    expect(tasks[1]!.calls).toEqual([])
    writing.open()
    await virtual.time.advance(1)
    expect(committed).toHaveLength(1)
  })

  test('commits run in the order of their checkpoints', async () => {
    const first = gate()
    const order: unknown[] = []
    committer.commit = async (permit) => {
      if (permit.checkpointId === 1) await first.opened
      order.push(permit.checkpointId)
    }
    const made = await driver({ maxConcurrent: 2 })
    made.start()
    await virtual.time.advance(2_000)
    ack(made, 1, 'c1')
    await virtual.time.advance(1)
    ack(made, 2, 'c2')
    await virtual.time.advance(100)
    expect(order).toEqual([])
    first.open()
    await virtual.time.advance(1)
    expect(order).toEqual([1, 2])
  })

  test('a time-out aborts, and is told with a warning', async () => {
    const made = await driver()
    made.start()
    await virtual.time.advance(1_000)
    made.acknowledge(1, '0/0', [source])
    await virtual.time.advance(10_000)
    expect(tasks[1]!.calls).toEqual(['aborted 1'])
    expect(virtual.warnings().join()).toContain('1/0')
  })

  test('snapshots that nobody needs are removed', async () => {
    const made = await driver()
    made.start()
    await virtual.time.advance(1_000)
    const handle = await blobs.put('x', new Uint8Array(10))
    made.acknowledge(1, '0/0', [{ uid: 'in', subtask: 0, operator: handle }])
    await virtual.time.advance(11_000)
    expect(blobs.names).toEqual([])
  })

  test('a checkpoint that is not needed any more is forgotten by a later commit point, and its files go after that', async () => {
    const made = await driver()
    made.start()
    for (let n = 1; n <= 4; n++) {
      await virtual.time.advance(1_000)
      const handle = await blobs.put(`chk-${n}`, new Uint8Array(10))
      made.acknowledge(n, '0/0', [source])
      made.acknowledge(n, '1/0', [{ uid: 'out', subtask: 0, operator: handle }])
      await virtual.time.advance(1)
    }
    expect(store.written.map(({ forget }) => forget)).toEqual([[], [], [0], [1]])
    expect(blobs.names.map((name) => name.slice(0, 5))).toEqual(['chk-2', 'chk-3', 'chk-4'])
    expect(made.retained.map(({ n }) => n)).toEqual([2, 3, 4])
  })

  test('a committable past its deadline fails the attempt: the checkpoint does not complete', async () => {
    const made = await driver()
    made.start()
    await virtual.time.advance(1_000)
    ack(made, 1, { transactionalId: 't.0.0', deadline: virtual.time.now() })
    await virtual.time.advance(1)
    expect(store.written).toEqual([])
    expect(failures).toEqual([
      expect.objectContaining({
        code: 'MILLRACE_CHECKPOINT_FAILED',
        message: expect.stringContaining('t.0.0'),
      }),
    ])
  })

  test('a refused commit point fails the attempt; an unknown one ends it', async () => {
    for (const [outcome, code] of [
      [{ type: 'refused', reason: 'no rights' }, 'MILLRACE_CHECKPOINT_FAILED'],
      [{ type: 'unknown', reason: 'no answer' }, 'MILLRACE_ATTEMPT_LOST'],
    ] as const) {
      failures = []
      store.outcome = outcome
      const made = await driver()
      made.start()
      await virtual.time.advance(1_000)
      ack(made, 1, 'c1')
      await virtual.time.advance(1)
      expect(failures).toEqual([
        expect.objectContaining({ code, message: expect.stringContaining(outcome.reason) }),
      ])
      await virtual.run(made.close())
    }
    expect(committed).toEqual([])
  })

  test('a commit that failed fails the attempt with its cause, and what is promised stays named', async () => {
    const lost = new MillraceError('MILLRACE_TRANSACTION_LOST', 'gone')
    committer.commit = async () => {
      throw lost
    }
    const made = await driver()
    made.start()
    await virtual.time.advance(1_000)
    ack(made, 1, { transactionalId: 't.0.0' })
    await virtual.time.advance(1)
    expect(failures).toEqual([expect.objectContaining({ cause: lost })])
    expect(made.promised).toEqual(['t.0.0'])
  })

  test('what is committed is not promised any more', async () => {
    const made = await driver()
    made.start()
    await virtual.time.advance(1_000)
    ack(made, 1, { transactionalId: 't.0.0' })
    await virtual.time.advance(1)
    expect(made.promised).toEqual([])
  })

  test('a decline carries its cause to the failure of the attempt', async () => {
    const made = await driver({ tolerableFailures: 0 })
    made.start()
    await virtual.time.advance(1_000)
    const cause = new MillraceError('MILLRACE_STATE_TOO_LARGE', 'too large')
    made.decline(1, '1/0', cause)
    expect(failures).toEqual([
      expect.objectContaining({ cause, message: expect.stringContaining('too large') }),
    ])
  })

  test('a time-out after a tolerated decline does not blame the decline', async () => {
    const made = await driver({ tolerableFailures: 1 })
    made.start()
    await virtual.time.advance(1_000)
    made.decline(1, '1/0', new MillraceError('MILLRACE_STATE_TOO_LARGE', 'too large'))
    await virtual.time.advance(20_000)
    expect(failures[0].cause).toBeUndefined()
  })
})

describe('requests', () => {
  test('resolve with the id when the commits are durable', async () => {
    const made = await driver({ intervalMs: undefined })
    made.start()
    let done: number | undefined
    void made.request('r', 'checkpoint', false).then((n) => (done = n))
    ack(made, 1, 'c1')
    expect(done).toBeUndefined()
    await virtual.time.advance(1)
    expect(done).toBe(1)
    expect(store.confirmations).toEqual([{ n: 1, end: undefined }])
  })

  test('the end of the run is written with the confirmation of its last checkpoint', async () => {
    const made = await driver()
    made.start()
    const stopped = made.request('stop', 'checkpoint', true)
    expect(tasks[0]!.calls).toEqual(['trigger 1 checkpoint stop'])
    ack(made, 1)
    expect(await virtual.run(stopped)).toBe(1)
    expect(store.confirmations).toEqual([{ n: 1, end: expect.objectContaining({ status: 'FINISHED' }) }])
    expect(confirmed).toEqual(store.confirmations)
  })

  test('are rejected with the reason when their checkpoint fails', async () => {
    const made = await driver()
    made.start()
    const answered = expect(made.request('r', 'checkpoint', false)).rejects.toMatchObject({
      code: 'MILLRACE_CHECKPOINT_FAILED',
      message: expect.stringContaining('disk full'),
    })
    made.decline(1, '1/0', new Error('disk full'))
    await answered
  })

  test('a confirmation that cannot be written fails the attempt, and the request is answered by the close', async () => {
    store.confirmFails = new MillraceError('MILLRACE_ATTEMPT_LOST', 'fenced')
    const made = await driver({ intervalMs: undefined })
    const answered = expect(made.request('r', 'checkpoint', false)).rejects.toMatchObject({
      code: 'MILLRACE_CHECKPOINT_FAILED',
    })
    ack(made, 1)
    await virtual.time.advance(1)
    expect(failures).toEqual([store.confirmFails])
    await virtual.run(made.close())
    await answered
  })
})

describe('close', () => {
  test('carries a commit point and its commits through that had begun, and begins none', async () => {
    const made = await driver()
    const writing = gate()
    store.waits = writing.opened
    made.start()
    await virtual.time.advance(1_000)
    ack(made, 1, 'c1')
    const closing = made.close()
    let closed = false
    void closing.then(() => (closed = true))
    await virtual.time.advance(5_000)
    expect(closed).toBe(false)
    writing.open()
    await virtual.run(closing)
    expect(committed).toHaveLength(1)
    expect(tasks[0]!.calls.filter((call) => call.startsWith('trigger'))).toHaveLength(1)
    expect(virtual.time.pending).toBe(0)
  })

  test('a checkpoint that becomes full after it is not written', async () => {
    const made = await driver()
    made.start()
    await virtual.time.advance(1_000)
    await virtual.run(made.close())
    ack(made, 1, 'c1')
    await virtual.time.advance(10)
    expect(store.written).toEqual([])
  })

  test('answers who waits, and who asks later', async () => {
    const made = await driver()
    const answered = expect(made.request('r', 'checkpoint', false)).rejects.toMatchObject({
      code: 'MILLRACE_CHECKPOINT_FAILED',
    })
    await virtual.run(made.close())
    await answered
    await expect(made.request('late', 'checkpoint', false)).rejects.toMatchObject({
      message: 'the attempt has ended',
    })
    expect(made.closed).toBe(true)
  })
})

describe('commits', () => {
  test('of a sink that the job does not have any more are refused: they were promised', async () => {
    await expect(
      commitAll(new Map(), { checkpointId: 1, confirmed: 0 } as CommitPermit, [sink('c')]),
    ).rejects.toMatchObject({
      code: 'MILLRACE_STATE_NOT_RESTORED',
      message: expect.stringContaining("'out'"),
    })
    await commitAll(new Map(), { checkpointId: 1, confirmed: 0 } as CommitPermit, [sink(), source])
  })

  test('a discarded checkpoint is forgotten first, then its files go', async () => {
    const order: string[] = []
    const handle = await blobs.put('x', new Uint8Array(10))
    const storage = plainStorage(blobs, STATE_CODEC)
    await discardCheckpoint(
      {
        run: 'r',
        n: 1,
        states: [{ uid: 'out', subtask: 0, operator: handle }],
      } as unknown as CompletedCheckpoint,
      { ...storage, discard: async () => void order.push('file') },
      Object.assign(Object.create(store), { forget: async () => void order.push('record') }),
      [handle],
    )
    expect(order).toEqual(['record', 'file'])
  })
})
