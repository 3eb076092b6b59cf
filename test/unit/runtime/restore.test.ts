import { beforeEach, describe, expect, test } from '@jest/globals'
import { blobsOf, packImages } from '../../../src/checkpoint/checkpoint-storage.ts'
import type {
  CompletedCheckpoint,
  OperatorSubtaskState,
} from '../../../src/checkpoint/completed-checkpoint.ts'
import type { JobGraph } from '../../../src/core/graph/job-graph.ts'
import { loadState } from '../../../src/runtime/restore.ts'
import { MemoryBlobStore } from '../../../src/state/memory-blob-store.ts'
import { encodeOperatorState, STATE_CODEC } from '../../../src/state/operator-state-codec.ts'

const codec = STATE_CODEC
let blobs: MemoryBlobStore

beforeEach(() => {
  blobs = new MemoryBlobStore()
})

/** A graph of one vertex. */
const graph = (uid: string, parallelism: number, maxParallelism = 8, isKeyed = true): JobGraph =>
  ({
    vertices: [
      {
        id: 0,
        parallelism,
        maxParallelism,
        operators: [{ uid, name: uid, node: { kind: 'operator', keyOf: isKeyed ? () => 'key' : undefined } }],
      },
    ],
    edges: [],
    fingerprint: 'f',
  }) as unknown as JobGraph

function checkpoint(states: readonly OperatorSubtaskState[], maxParallelism = 8): CompletedCheckpoint {
  return {
    format: 1,
    run: 'r',
    attempt: 1,
    n: 12,
    kind: 'checkpoint',
    triggeredAt: 0,
    completedAt: 0,
    operators: [{ uid: 'count', name: 'Count per user', parallelism: 2, maxParallelism }],
    states,
    confirmed: 11,
    stateBytes: 0,
  }
}

async function keyed(subtask: number, ...keyGroups: number[]): Promise<OperatorSubtaskState> {
  const { bytes, keyGroups: extents } = packImages(
    keyGroups.map((keyGroup) => ({ keyGroup, bytes: Uint8Array.of(keyGroup, 1) })),
  )
  return {
    uid: 'count',
    subtask,
    keyed: { handle: await blobs.put(`k${subtask}`, bytes), keyGroups: extents },
  }
}

async function listed(subtask: number, ...items: unknown[]): Promise<OperatorSubtaskState> {
  const bytes = encodeOperatorState({ list: { redistribution: 'split', items } }, 'count')
  return { uid: 'count', subtask, operator: await blobs.put(`o${subtask}`, bytes) }
}

const load = (from: CompletedCheckpoint, to: JobGraph, allow = false) =>
  loadState(from, to, blobs, codec, allow)

describe('restored state', () => {
  test.each([
    [1, [[0, 1, 4, 7]]],
    [
      2,
      [
        [0, 1],
        [4, 7],
      ],
    ],
    [4, [[0, 1], [], [4], [7]]],
  ])('key groups go to the subtasks that own them at parallelism %i', async (parallelism, expected) => {
    const restored = await load(
      checkpoint([await keyed(1, 4, 7), await keyed(0, 0, 1)]),
      graph('count', parallelism),
    )
    expect(restored.checkpointId).toBe(12)
    const images = await Promise.all(
      Array.from({ length: parallelism }, (_, subtask) => restored.operator('count')!.images(subtask)),
    )
    expect(images.map((own) => own.map(({ keyGroup }) => keyGroup).toSorted())).toEqual(expected)
    for (const { keyGroup, bytes } of images.flat()) expect([...bytes]).toEqual([keyGroup, 1])
  })

  test('at the same parallelism every subtask gets its own list back, in whatever order they acknowledged', async () => {
    const restored = await load(
      checkpoint([await listed(1, 'c', 'd'), await listed(0, 'a', 'b')]),
      graph('count', 2),
    )
    expect(restored.operator('count')!.operatorState(0)).toEqual({ list: ['a', 'b'] })
    expect(restored.operator('count')!.operatorState(1)).toEqual({ list: ['c', 'd'] })
    expect(restored.operator('count')!.redistributions).toEqual({ list: 'split' })
  })

  test('at another parallelism the items are cut anew, in the order of the old subtasks', async () => {
    const restored = await load(
      checkpoint([await listed(1, 'c', 'd'), await listed(0, 'a', 'b')]),
      graph('count', 4),
    )
    expect([0, 1, 2, 3].map((subtask) => restored.operator('count')!.operatorState(subtask)['list'])).toEqual(
      [['a'], ['b'], ['c'], ['d']],
    )
  })

  test('a subtask beyond the old ones has none', async () => {
    const restored = await load(checkpoint([await keyed(0, 0)]), graph('count', 2))
    expect(await restored.operator('count')!.images(1)).toEqual([])
    expect(await restored.operator('count')!.images(9)).toEqual([])
    expect(restored.operator('count')!.operatorState(9)).toEqual({})
    expect(restored.operator('other')).toBeUndefined()
  })

  test('the end was handled only if all subtasks had handled it', async () => {
    const ended = (endOfInput: boolean, subtask: number): OperatorSubtaskState => ({
      uid: 'count',
      subtask,
      ...(endOfInput ? { endOfInput } : {}),
    })
    expect(
      (await load(checkpoint([ended(true, 0), ended(true, 1)]), graph('count', 2))).operator('count')!.ended,
    ).toBe(true)
    expect(
      (await load(checkpoint([ended(true, 0), ended(false, 1)]), graph('count', 2))).operator('count')!.ended,
    ).toBe(false)
  })
})

describe('state that nobody claims', () => {
  test('is refused with the names, unless it may be dropped', async () => {
    const states = [await keyed(0, 0)]
    await expect(load(checkpoint(states), graph('renamed', 1))).rejects.toMatchObject({
      code: 'MILLRACE_STATE_NOT_RESTORED',
      message: expect.stringContaining("'Count per user' (uid count)"),
      remedy: expect.stringContaining('--allow-non-restored-state'),
    })
    expect((await load(checkpoint(states), graph('renamed', 1), true)).operator('count')).toBeUndefined()
  })

  test('is refused when the operator has no keys any more, unless it may be dropped', async () => {
    const states = [await keyed(0, 0), await listed(1, 'a')]
    const unkeyed = graph('count', 1, 8, false)
    await expect(load(checkpoint(states), unkeyed)).rejects.toMatchObject({
      code: 'MILLRACE_STATE_NOT_RESTORED',
      message: expect.stringMatching(/keyed state of 'Count per user' \(uid count\).*keyBy/),
      remedy: expect.stringContaining('--allow-non-restored-state'),
    })
    const restored = await load(checkpoint(states), unkeyed, true)
    expect(restored.operator('count')!.operatorState(0)).toEqual({ list: ['a'] })
    await load(checkpoint([await listed(0, 'a')]), unkeyed)
  })

  test('counts for operator state and positions too, not for an operator without any', async () => {
    await expect(load(checkpoint([await listed(0, 'a')]), graph('renamed', 1))).rejects.toMatchObject({
      code: 'MILLRACE_STATE_NOT_RESTORED',
    })
    await expect(
      load(checkpoint([{ uid: 'count', subtask: 0, splits: [{ id: 's' }] }]), graph('renamed', 1)),
    ).rejects.toMatchObject({
      code: 'MILLRACE_STATE_NOT_RESTORED',
    })
    await load(checkpoint([{ uid: 'count', subtask: 0, splits: [] }]), graph('renamed', 1))
  })

  test('a changed max parallelism is refused where there are key groups, and only there', async () => {
    await expect(load(checkpoint([await keyed(0, 0)]), graph('count', 1, 16), true)).rejects.toMatchObject({
      code: 'MILLRACE_STATE_NOT_RESTORED',
      message: expect.stringMatching(/max parallelism 8.*16 now/),
    })
    await load(checkpoint([await listed(0, 'a')]), graph('count', 1, 16))
  })
})

test('state that is missing or contradicts itself is lost, not empty', async () => {
  const lost = await keyed(0, 0)
  for (const handle of blobsOf(lost.keyed!)) await blobs.discard(handle)
  const restored = await load(checkpoint([lost]), graph('count', 1))
  await expect(restored.operator('count')!.images(0)).rejects.toMatchObject({ code: 'MILLRACE_STATE_LOST' })
  await expect(
    load(checkpoint([await keyed(0, 3), await keyed(1, 3)]), graph('count', 1)),
  ).rejects.toMatchObject({
    code: 'MILLRACE_STATE_LOST',
  })
})

test('layers come in their order, so that later records replace earlier ones', async () => {
  const layer = async (name: string, value: number) => {
    const { bytes, keyGroups } = packImages([{ keyGroup: 0, bytes: Uint8Array.of(value) }])
    return { handle: await blobs.put(name, bytes), keyGroups }
  }
  const layers = [await layer('base', 1), await layer('changes', 2)]
  const state = { uid: 'count', subtask: 0, keyed: { kind: 'incremental' as const, layers } }
  const restored = await load(checkpoint([state]), graph('count', 1))
  expect((await restored.operator('count')!.images(0)).map(({ bytes }) => [...bytes])).toEqual([[1], [2]])
})

test('state that a store outside keeps is refused as images, naming the backend that has it', async () => {
  const keyed = { kind: 'external' as const, backend: 'redis', range: [0, 7] as const, state: {}, size: 0 }
  const restored = await load(checkpoint([{ uid: 'count', subtask: 0, keyed }]), graph('count', 2))
  expect(restored.operator('count')!.keyed(1)).toEqual([{ ...keyed, range: [4, 7] }])
  await expect(restored.operator('count')!.images(0)).rejects.toMatchObject({
    code: 'MILLRACE_STATE_INCOMPATIBLE',
    message: expect.stringContaining("'redis'"),
  })
})
