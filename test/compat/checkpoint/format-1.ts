import type { CompletedCheckpoint } from '../../../src/checkpoint/completed-checkpoint.ts'

/** What test/compat/checkpoint/format-1.metadata holds: every kind of handle and state that format 1 knows. */
export const golden: CompletedCheckpoint = {
  format: 1,
  run: '0b0c7a52-6e0e-4c0c-9a3c-1f6a1d1d2e3f',
  attempt: 4,
  n: 17,
  kind: 'checkpoint',
  triggeredAt: 1_767_225_600_000,
  completedAt: 1_767_225_600_042,
  operators: [
    { uid: 'orders', name: 'Source: orders', parallelism: 2, maxParallelism: 128 },
    { uid: 'count', name: 'Count per user', parallelism: 2, maxParallelism: 128 },
    { uid: 'totals', name: 'Sink: totals', parallelism: 2, maxParallelism: 128 },
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
    {
      uid: 'orders',
      subtask: 1,
      splits: [
        {
          id: 'orders-1',
          topic: 'orders',
          topicId: 'qD3hCqkXR5u0mK3eZJz9Hg',
          partition: 1,
          position: '12',
          stop: '12',
        },
      ],
      endOfInput: true,
    },
    {
      uid: 'count',
      subtask: 0,
      keyed: {
        handle: { kind: 'inline', bytes: 'AAEC', size: 3 },
        keyGroups: [
          [0, 0, 1],
          [63, 1, 2],
        ],
      },
      operator: { kind: 'file', path: 'job/run/chk-17/count-0-operator', size: 70_000, crc32: 3_735_928_559 },
    },
    {
      uid: 'count',
      subtask: 1,
      keyed: {
        handle: { kind: 'topic', name: 'run/4/17/count-1-keyed', chunks: 2, size: 600_000, crc32: 7 },
        keyGroups: [[64, 0, 600_000]],
      },
    },
    {
      uid: 'totals',
      subtask: 0,
      committables: [
        {
          transactionalId: 'millrace.job.totals.0.2',
          producerId: '4611686018427387905',
          producerEpoch: 12,
          attempt: 4,
          n: 16,
          deadline: 1_767_226_500_000,
          ranges: [
            {
              topic: 'totals',
              topicId: 'b4mQw0p3S0uVd0Q7dF2s1A',
              partition: 3,
              firstOffset: '9007199254740995',
              lastOffset: '9007199254741000',
              count: 6,
              digest: '5f2a',
            },
          ],
        },
      ],
    },
    { uid: 'totals', subtask: 1 },
  ],
  confirmed: 15,
  stateBytes: 670_003,
}
