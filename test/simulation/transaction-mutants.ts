/** Mutants of the sinks' transactions: writers, committers and healing. */
import type { CommitPermit } from '../../src/core/connector.ts'
import { JobTopics } from '../../src/kafka/job-topics.ts'
import { identityOf, type KafkaCommittable } from '../../src/kafka/kafka-committable.ts'
import { KafkaCommitter } from '../../src/kafka/kafka-committer.ts'
import { KafkaWriter } from '../../src/kafka/kafka-writer.ts'
import { TransactionSlots } from '../../src/kafka/transaction-slots.ts'
import { JobTransactions } from '../../src/kafka/transactions.ts'
import { WorkerGroup } from '../../src/kafka/worker-group.ts'
import { changeWriters, type Mutant, QUIET, replace, together } from './mutant.ts'

/** Every rule of transactions that is broken. */
export const TRANSACTION_MUTANTS: readonly Mutant[] = [
  {
    name: 'output is committed when it is prepared',
    rule: '3.8',
    apply: () =>
      changeWriters((writer, cluster) => {
        const prepare = writer.prepareCommit.bind(writer)
        writer.prepareCommit = (n) => {
          const committables = prepare(n)
          for (const committable of committables)
            cluster.endTxn(identityOf(committable), 'commit').catch(() => undefined)
          return committables
        }
      }),
  },
  {
    name: 'an epoch serves a second transaction',
    rule: '3.5',
    apply: () =>
      replace(
        TransactionSlots.prototype,
        'complete',
        () =>
          function (this: TransactionSlots, n: number) {
            for (const slot of this.prepared) {
              if (slot.n > n) continue
              slot.state = 'Free'
              slot.n = -1
              slot.heldBy.clear()
            }
          },
      ),
  },
  {
    name: 'aborting a checkpoint aborts the transaction that was prepared for it',
    rule: '3.4',
    apply: () =>
      changeWriters((writer, cluster) => {
        let prepared: readonly KafkaCommittable[] = []
        const prepare = writer.prepareCommit.bind(writer)
        const aborted = writer.notifyCheckpointAborted.bind(writer)
        writer.prepareCommit = (n) => {
          prepared = prepare(n)
          return prepared
        }
        writer.notifyCheckpointAborted = (n) => {
          for (const committable of prepared)
            if (committable.n === n) cluster.endTxn(identityOf(committable), 'abort').catch(() => undefined)
          aborted(n)
        }
      }),
  },
  {
    name: 'a prepared transaction is opened again though a checkpoint that holds it may still complete',
    rule: '3.5',
    apply: () =>
      replace(
        TransactionSlots.prototype,
        'reopen',
        () =>
          function (this: TransactionSlots) {
            const newest = this.prepared.at(-1)
            if (newest === undefined) return undefined
            newest.state = 'Open'
            newest.n = -1
            return newest
          },
      ),
  },
  {
    name: 'commits are reported before they are done',
    rule: '3.8',
    apply: () =>
      replace(
        KafkaCommitter.prototype,
        'commit',
        (original) =>
          async function (this: KafkaCommitter, ...args) {
            ;(original.apply(this, args) as Promise<void>).catch(() => undefined)
          },
      ),
  },
  {
    name: 'an id is initialised again before its commit is confirmed',
    rule: '3.5',
    apply: () =>
      replace(
        KafkaWriter.prototype,
        'notifyCheckpointComplete',
        (original) =>
          function (this: KafkaWriter<unknown>, n: number) {
            original.call(this, n)
            this.notifyCheckpointConfirmed(n)
          },
      ),
  },
  {
    name: 'a prepared transaction is never opened again',
    rule: '3.5',
    scene: {
      job: 'keyed',
      scenario: { ...QUIET, inputMs: 8_000 },
      faults: [
        {
          trigger: { on: 'point', point: 'after-freeze', nth: 9 },
          action: { kind: 'slow-disk', ms: 1_500, forMs: 5_000 },
        },
      ],
    },
    apply: () => replace(TransactionSlots.prototype, 'reopen', () => () => undefined),
  },
  {
    name: 'records are not flushed before their transaction is prepared',
    rule: '3.2',
    apply: () => replace(KafkaWriter.prototype, 'flush', () => async () => undefined),
  },
  {
    name: 'what was committed in line is committed again',
    rule: '5.2',
    apply: () =>
      replace(
        KafkaCommitter.prototype,
        'commit',
        (original) =>
          function (this: KafkaCommitter, permit: CommitPermit, committables: readonly KafkaCommittable[]) {
            return original.call(this, { ...permit, confirmed: -1 }, committables)
          },
      ),
  },
  {
    name: 'a healer does not know what one before it wrote',
    rule: '5.6',
    scene: {
      job: 'etl',
      scenario: { ...QUIET, transactionTimeoutMs: 6_000 },
      faults: [
        {
          trigger: { on: 'point', point: 'after-commit-point', nth: 4 },
          action: { kind: 'blackout', ms: 25_000 },
        },
        { trigger: { on: 'point', point: 'after-heal-end-txn', nth: 1 }, action: { kind: 'crash-after' } },
      ],
    },
    apply: () => replace(JobTopics.prototype, 'progress', () => () => new Map()),
  },
  {
    // Its own silence would keep a worker that stood still from it as well, so that is not asked either.
    name: 'a stop aborts open transactions without proving that it leads',
    rule: '2.16',
    scene: {
      job: 'etl',
      scenario: { ...QUIET, inputMs: 30_000, intervalMs: 1_000, ending: 'cancel', endAfterMs: 3_000 },
      faults: [],
    },
    apply: () =>
      together(
        replace(WorkerGroup.prototype, 'silentFor', () => () => 0),
        replace(
          JobTransactions.prototype,
          'abortOpen',
          (original) =>
            function (this: JobTransactions, { keep } = {}) {
              return original.call(this, keep === undefined ? {} : { keep })
            },
        ),
      ),
  },
]
