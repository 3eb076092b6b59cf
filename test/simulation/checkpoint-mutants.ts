/** Mutants of barriers, positions, state and the coordinator. */
import { type BarrierAction, BarrierHandler, type InputEvent } from '../../src/checkpoint/barrier-handler.ts'
import type { KeyGroupImage } from '../../src/core/state.ts'
import { KafkaSourceReader } from '../../src/kafka/kafka-source-reader.ts'
import { FencedProducer } from '../../src/kafka/topic-log.ts'
import { CheckpointDriver } from '../../src/runtime/checkpoint-driver.ts'
import { SubtaskCheckpointer } from '../../src/runtime/subtask-checkpointer.ts'
import { HeapKeyedStateBackend } from '../../src/state/heap-backend.ts'
import { SimulatedDirectory } from '../../src/testing/simulated-directory.ts'
import { type Mutant, QUIET, replace, together } from './mutant.ts'

/** Every rule of checkpoints that is broken. */
export const CHECKPOINT_MUTANTS: readonly Mutant[] = [
  {
    name: 'no alignment: the first barrier triggers the snapshot',
    rule: '3.2',
    apply: () => {
      const decided = new WeakMap<BarrierHandler, number>()
      return replace(
        BarrierHandler.prototype,
        'handle',
        (original) =>
          function (this: BarrierHandler, event: InputEvent): BarrierAction[] {
            if (event.type !== 'barrier')
              return event.type === 'channel-ended' ? [] : original.call(this, event)
            if (event.n <= (decided.get(this) ?? -1)) return []
            decided.set(this, event.n)
            return [{ type: 'trigger', n: event.n, kind: event.kind }]
          },
      )
    },
  },
  {
    name: 'positions are one too high',
    rule: '3.1',
    apply: () => shiftPositions(1n),
  },
  {
    name: 'positions are one too low',
    rule: '3.1',
    apply: () => shiftPositions(-1n),
  },
  {
    name: 'positions are taken after the barrier',
    rule: '3.2',
    apply: () =>
      replace(
        KafkaSourceReader.prototype,
        'snapshot',
        (original) =>
          function (this: KafkaSourceReader<unknown>, n: number) {
            const now = (): { position: string }[] => original.call(this, n)
            return now().map((split, i) => ({
              ...split,
              get position() {
                return now()[i]!.position
              },
            }))
          },
      ),
  },
  {
    name: 'the freeze is not exact: state is read when it is written',
    rule: '7.1',
    scene: {
      job: 'keyed',
      scenario: { ...QUIET, keys: 2, recordsPerPartition: 200, inputMs: 1_500, intervalMs: 50 },
      faults: [
        {
          trigger: { on: 'point', point: 'after-commit-point', nth: 8 },
          action: { kind: 'crash-after' },
        },
      ],
    },
    apply: () =>
      replace(
        HeapKeyedStateBackend.prototype,
        'freeze',
        (original) =>
          function (this: HeapKeyedStateBackend, n: number) {
            return {
              materialize: async (turn: () => Promise<void>): Promise<KeyGroupImage[]> => {
                for (let i = 0; i < 5; i++) await turn()
                const frozen = original.call(this, n) as {
                  materialize(turn: () => Promise<void>): Promise<KeyGroupImage[]>
                  release(): void
                }
                const images = await frozen.materialize(turn)
                frozen.release()
                return images
              },
              release: () => undefined,
            }
          },
      ),
  },
  {
    name: 'a key group is lost when state is restored',
    rule: '7.3',
    apply: () =>
      replace(
        HeapKeyedStateBackend.prototype,
        'restore',
        (original) =>
          function (this: HeapKeyedStateBackend, images: readonly KeyGroupImage[]) {
            return original.call(this, images.slice(1))
          },
      ),
  },
  {
    name: 'a subtask acknowledges what was aborted, and that counts for the next checkpoint',
    rule: '3.3',
    scene: {
      job: 'keyed',
      scenario: { ...QUIET, intervalMs: 400 },
      faults: [
        {
          trigger: { on: 'point', point: 'after-freeze', nth: 9 },
          action: { kind: 'slow-disk', ms: 700, forMs: 1_000 },
        },
      ],
    },
    apply: () =>
      together(
        replace(SubtaskCheckpointer.prototype, 'abort', () => () => undefined),
        replace(
          CheckpointDriver.prototype,
          'acknowledge',
          (original) =>
            function (this: CheckpointDriver, n: number, subtask: string, states) {
              const { inFlight } = this.coordinator
              const isPending = inFlight.some((pending) => pending.n === n)
              const next = inFlight.find(({ missing }) => missing.includes(subtask))
              return original.call(this, isPending ? n : (next?.n ?? n), subtask, states)
            },
        ),
      ),
  },
  {
    name: 'group offsets are not part of the commit point',
    rule: '3.7',
    apply: () => replace(FencedProducer.prototype, 'commitOffsets', () => async () => undefined),
  },
  {
    name: 'snapshots of two attempts have one name',
    rule: '1.2',
    scene: {
      job: 'keyed',
      scenario: QUIET,
      faults: [{ trigger: { on: 'point', point: 'before-ack', nth: 12 }, action: { kind: 'crash-before' } }],
    },
    apply: () =>
      replace(
        SimulatedDirectory.prototype,
        'view',
        (original) =>
          function (this: SimulatedDirectory, ...args) {
            const store = original.apply(this, args)
            return {
              ...store,
              put: (name: string, bytes: Uint8Array) => store.put(name.replace(/\/\d+\//, '/0/'), bytes),
            }
          },
      ),
  },
]

function shiftPositions(by: bigint): () => void {
  return replace(
    KafkaSourceReader.prototype,
    'snapshot',
    (original) =>
      function (this: KafkaSourceReader<unknown>, n: number) {
        return (original.call(this, n) as { position: string }[]).map((split) => {
          const position = BigInt(split.position) + by
          return { ...split, position: String(position < 0n ? 0n : position) }
        })
      },
  )
}
