/** What test/compat/savepoint/format-1 holds: a savepoint with every kind of state, value and timer that format 1 knows. */

import { packImages, type StateHandle } from '../../../src/checkpoint/checkpoint-storage.ts'
import type { CompletedCheckpoint } from '../../../src/checkpoint/completed-checkpoint.ts'
import type { KeyGroupImage } from '../../../src/core/state.ts'
import { KeyGroupImageWriter } from '../../../src/state/key-group-image.ts'
import { encodeOperatorState } from '../../../src/state/operator-state-codec.ts'
import { SavepointFolder } from '../../../src/state/savepoint-folder.ts'
import { ListSlot, type SlotFormat, TtlCell } from '../../../src/state/state-slot.ts'

const format = (name: string, kind: SlotFormat['kind'], change: Partial<SlotFormat> = {}): SlotFormat => ({
  name,
  kind,
  timed: false,
  ttl: undefined,
  serde: undefined,
  ...change,
})

const WHOLE_BYTES = {
  name: 'bytes',
  serialize: (value: Uint8Array) => value,
  deserialize: (bytes: Uint8Array) => bytes,
}

function images(): KeyGroupImage[] {
  const plain = new KeyGroupImageWriter(3, [
    format('total', 'value'),
    format('seen', 'list'),
    format('by-day', 'map'),
  ])
  plain.beginRecord('user-17')
  plain.slot(0, '', {
    count: 2,
    sum: 12_345_678_901_234_567_890n,
    since: new Date(Date.UTC(2026, 0, 2, 3, 4, 5, 6)),
  })
  plain.slot(1, '', new ListSlot(['a', null, Number.NaN, -0, new Uint8Array([0, 255])]))
  plain.slot(
    2,
    1_767_225_600_000,
    new Map<unknown, unknown>([
      ['mon', 1],
      [7, new Set(['x'])],
      [8n, true],
    ]),
  )
  plain.endRecord({
    inOrder: (domain) =>
      domain === 'event'
        ? [{ namespace: 1_767_225_600_000, time: 1_767_225_659_999, sequence: 1 }]
        : [{ namespace: '', time: 1_767_225_700_000, sequence: 2 }],
  })
  plain.beginRecord(['tuple', 5n, false])
  plain.slot(0, '', { count: 1, sum: 1n, since: new Date(0) })
  plain.endRecord(undefined)
  const timed = new KeyGroupImageWriter(90, [
    format('last', 'reducing', { timed: true }),
    format('raw', 'aggregating', { serde: WHOLE_BYTES as never }),
  ])
  timed.beginRecord(42)
  timed.slot(0, '', new TtlCell('recent', 1_767_225_600_000))
  timed.slot(1, '', new Uint8Array([1, 2, 3]))
  timed.endRecord(undefined)
  return [plain, timed].map((writer) => writer.finish() as KeyGroupImage)
}

/** Writes the savepoint into a new folder below `directory`; resolves with the folder. */
export async function writeGolden(directory: string): Promise<string> {
  const folder = await SavepointFolder.create({
    directory,
    job: 'totals',
    id: 'format-1',
    memoryThreshold: 64,
  })
  const { bytes, keyGroups } = packImages(images())
  const keyed: StateHandle = await folder.blobs.put('count-0-keyed', bytes)
  const operator = await folder.blobs.put(
    'count-0-operator',
    encodeOperatorState({ rules: { redistribution: 'broadcast', items: [['max', 10n]] } }, 'count'),
  )
  const checkpoint: CompletedCheckpoint = {
    format: 1,
    run: '0b0c7a52-6e0e-4c0c-9a3c-1f6a1d1d2e3f',
    attempt: 4,
    n: 17,
    kind: 'savepoint',
    triggeredAt: 1_767_225_600_000,
    completedAt: 1_767_225_600_042,
    operators: [
      { uid: 'orders', name: 'Source: orders', parallelism: 1, maxParallelism: 128 },
      { uid: 'count', name: 'Count per user', parallelism: 1, maxParallelism: 128 },
    ],
    states: [
      {
        uid: 'orders',
        subtask: 0,
        splits: [
          {
            id: 'orders-0',
            topic: 'orders',
            topicId: 'qD3hCqkXR5u0mK3eZJz9Hg',
            partition: 0,
            position: '9007199254740993',
            stop: null,
          },
        ],
      },
      { uid: 'count', subtask: 0, keyed: { handle: keyed, keyGroups }, operator, endOfInput: true },
    ],
    confirmed: 16,
    stateBytes: bytes.length,
    savepoint: { path: folder.path, stop: false, drained: false },
  }
  await folder.finish(checkpoint)
  return folder.path
}
