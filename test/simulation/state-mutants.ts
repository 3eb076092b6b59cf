/** Mutants of keyed state behind a cache, of layers and stores outside, of records in flight, and of runs that begin with a snapshot. */
import type { StateHandle } from '../../src/checkpoint/checkpoint-storage.ts'
import type { RecoveryFacts } from '../../src/checkpoint/checkpoint-store.ts'
import { type CompletedCheckpoint, handlesOf } from '../../src/checkpoint/completed-checkpoint.ts'
import { CheckpointCoordinator, type CoordinatorEffect } from '../../src/checkpoint/coordinator.ts'
import { SharedStateRegistry } from '../../src/checkpoint/shared-state-registry.ts'
import { JobTopics } from '../../src/kafka/job-topics.ts'
import { InFlightCapture } from '../../src/runtime/in-flight-capture.ts'
import { CachedKeyedStateBackend } from '../../src/state/cached-backend.ts'
import { CacheFreezes } from '../../src/state/cached-freeze.ts'
import { OrderedWrites } from '../../src/state/cached-parts.ts'
import { SimulatedDirectory } from '../../src/testing/simulated-directory.ts'
import type { Fault } from '../../src/testing/simulation-faults.ts'
import { type Mutant, QUIET, replace, together } from './mutant.ts'

const crashAt = (point: 'after-commit-point' | 'after-ack', nth: number): Fault => ({
  trigger: { on: 'point', point, nth },
  action: { kind: 'crash-after' },
})

/** A store that a crash loses, with a cache that holds next to nothing. */
const COLD = { ...QUIET, stateKind: 'local', incremental: true, localRecovery: false, cacheBytes: 1 } as const

/** Every rule of state and snapshots that is broken. */
export const STATE_MUTANTS: readonly Mutant[] = [
  {
    name: 'a layer is deleted when its checkpoint is aborted',
    rule: '3.4',
    scene: {
      job: 'keyed',
      scenario: { ...QUIET, stateKind: 'layers' },
      faults: [
        {
          trigger: { on: 'point', point: 'after-freeze', nth: 9 },
          action: { kind: 'slow-disk', ms: 700, forMs: 1_000 },
        },
      ],
    },
    apply: () =>
      replace(
        CheckpointCoordinator.prototype,
        'handle',
        (original) =>
          function (this: CheckpointCoordinator, event): CoordinatorEffect[] {
            const effects = original.call(this, event) as CoordinatorEffect[]
            return effects.map((effect) =>
              effect.type !== 'DiscardStates'
                ? effect
                : {
                    ...effect,
                    states: effect.states.flatMap((state) =>
                      state.keyed?.kind !== 'incremental'
                        ? [state]
                        : state.keyed.layers.map((keyed) => ({ ...state, keyed })),
                    ),
                  },
            )
          },
      ),
  },
  {
    name: 'a shared layer goes with the older checkpoint',
    rule: '3.8',
    scene: { job: 'keyed', scenario: { ...QUIET, stateKind: 'layers' }, faults: [] },
    apply: () =>
      replace(
        SharedStateRegistry.prototype,
        'forget',
        (original) =>
          function (this: SharedStateRegistry, checkpoint: CompletedCheckpoint): StateHandle[] {
            original.call(this, checkpoint)
            return handlesOf(checkpoint)
          },
      ),
  },
  {
    name: 'state outside is folded beyond the oldest checkpoint that is retained',
    rule: '3.8',
    scene: {
      job: 'keyed',
      scenario: { ...QUIET, stateKind: 'outside', retained: 2, cacheBytes: 1 },
      faults: [],
    },
    apply: () => {
      const newest = new WeakMap<CachedKeyedStateBackend, number>()
      return together(
        replace(
          CachedKeyedStateBackend.prototype,
          'freeze',
          (original) =>
            function (this: CachedKeyedStateBackend, n: number) {
              newest.set(this, n)
              return original.call(this, n)
            },
        ),
        replace(
          CachedKeyedStateBackend.prototype,
          'retainedFrom',
          (original) =>
            function (this: CachedKeyedStateBackend, oldest: number) {
              original.call(this, newest.get(this) ?? oldest)
            },
        ),
      )
    },
  },
  {
    name: 'a changed record is evicted without being written',
    rule: '7.2',
    scene: { job: 'keyed', scenario: COLD, faults: [] },
    apply: () => replace(OrderedWrites.prototype, 'write', () => async () => undefined),
  },
  {
    name: 'a checkpoint lacks what was evicted since the one before',
    rule: '7.2',
    scene: { job: 'keyed', scenario: COLD, faults: [crashAt('after-commit-point', 6)] },
    apply: () => replace(CacheFreezes.prototype, 'noteEvicted', () => () => undefined),
  },
  {
    name: 'records that a barrier overtook are not part of the checkpoint',
    rule: '3.10',
    scene: {
      job: 'keyed',
      scenario: { ...QUIET, unalignedAfterMs: 0, slowMs: 40, timeoutMs: 20_000, inputMs: 500 },
      faults: [crashAt('after-commit-point', 2)],
    },
    apply: () =>
      replace(
        InFlightCapture.prototype,
        'start',
        (original) =>
          function (this: InFlightCapture) {
            original.call(this, [])
          },
      ),
  },
  {
    name: 'a checkpoint that was abandoned for a savepoint is the latest one again',
    rule: '4.7',
    scene: {
      job: 'keyed',
      scenario: { ...QUIET, inputMs: 12_000, ending: 'back-to-savepoint', endAfterMs: 3_000 },
      // The new run is young by then: its checkpoints have smaller numbers.
      faults: [crashAt('after-commit-point', 26)],
    },
    apply: () => {
      // Their records are told apart by their numbers only, and nothing of them is removed.
      const written = new Map<number, CompletedCheckpoint>()
      return together(
        replace(JobTopics.prototype, 'forget', () => async () => undefined),
        replace(
          SimulatedDirectory.prototype,
          'view',
          (original) =>
            function (this: SimulatedDirectory, ...args) {
              return { ...original.apply(this, args), discard: async () => undefined }
            },
        ),
        replace(
          JobTopics.prototype,
          'commitPoint',
          (original) =>
            function (this: JobTopics, checkpoint: CompletedCheckpoint, ...rest) {
              written.set(checkpoint.n, checkpoint)
              return original.call(this, checkpoint, ...rest)
            },
        ),
        replace(
          JobTopics.prototype,
          'takeOver',
          (original) =>
            async function (this: JobTopics) {
              const facts = (await original.call(this)) as RecoveryFacts
              const { attempt, completed } = facts
              if (attempt === undefined) {
                written.clear()
                return facts
              }
              const last = completed.at(-1)?.n ?? 0
              const later = [...written.values()].filter(({ n }) => n > last).sort((a, b) => a.n - b.n)
              return {
                ...facts,
                completed: [...completed, ...later.map((each) => ({ ...each, run: attempt.run }))],
              }
            },
        ),
      )
    },
  },
]
