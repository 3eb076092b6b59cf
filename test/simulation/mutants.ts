/**
 * Proves that the simulation can fail: each mutant breaks one rule of the protocol, and some seed must find it.
 *
 *   npm run -s test:simulation:mutants -- [--seeds N] [--mutant NAME]
 *
 * Not here: whatever only makes one leader abort what another has open (ids initialised without comparing the holder, a stop that aborts
 * transactions without asking whose they are). The attempt fails and healing writes the output again: slow, but exact.
 *
 * Mutants are made by replacing methods of the product's classes in this process; nothing in src knows of them.
 */
import { parseArgs } from 'node:util'
import { type BarrierAction, BarrierHandler, type InputEvent } from '../../src/checkpoint/barrier-handler.ts'
import type { KeyGroupImage } from '../../src/core/state.ts'
import { JobTopics } from '../../src/kafka/job-topics.ts'
import type { KafkaCluster, TopicPartition } from '../../src/kafka/kafka-cluster.ts'
import { identityOf, type KafkaCommittable } from '../../src/kafka/kafka-committable.ts'
import { KafkaCommitter } from '../../src/kafka/kafka-committer.ts'
import type { KafkaEnvironment } from '../../src/kafka/kafka-environment.ts'
import { KafkaSink } from '../../src/kafka/kafka-sink.ts'
import { KafkaSourceReader } from '../../src/kafka/kafka-source-reader.ts'
import type { KafkaWriter } from '../../src/kafka/kafka-writer.ts'
import { FencedProducer } from '../../src/kafka/topic-log.ts'
import { TransactionSlots } from '../../src/kafka/transaction-slots.ts'
import { HeapKeyedStateBackend } from '../../src/state/heap-backend.ts'
import { SimulatedClient } from '../../src/testing/simulated-client.ts'
import { Simulation } from '../../src/testing/simulation.ts'
import { JOBS } from './jobs.ts'

/** One broken rule. */
export interface Mutant {
  readonly name: string
  /** Breaks it; the answer mends it again. */
  apply(): () => void
}

type Method = (this: any, ...args: any[]) => any

/** Replaces a method until the answer is called. */
function replace(owner: object, name: string, make: (original: Method) => Method): () => void {
  const target = owner as Record<string, Method>
  const original = target[name]!
  target[name] = make(original)
  return () => {
    target[name] = original
  }
}

/** Changes every writer that sinks make; `cluster` is the one it writes through. */
function changeWriters(change: (writer: KafkaWriter<unknown>, cluster: KafkaCluster) => void): () => void {
  return replace(
    KafkaSink.prototype,
    'createWriter',
    (original) =>
      function (this: { environment: KafkaEnvironment }, ...args) {
        const writer = original.apply(this, args) as KafkaWriter<unknown>
        change(writer, this.environment.cluster)
        return writer
      },
  )
}

/** Forgets the expected holder in InitProducerId of matching ids: what was a compare-and-set fences whoever holds the id. */
function initialiseBare(matches: (id: string) => boolean): () => void {
  return replace(
    SimulatedClient.prototype,
    'initProducerId',
    (original) =>
      function (
        this: SimulatedClient,
        request: { transactionalId: string; transactionTimeoutMs: number },
        options,
      ) {
        const { transactionalId, transactionTimeoutMs } = request
        return original.call(
          this,
          matches(transactionalId) ? { transactionalId, transactionTimeoutMs } : request,
          options,
        )
      },
  )
}

const isCoordinator = (id: string): boolean => id.endsWith('.coordinator')

/** Every rule that is broken. */
export const MUTANTS: readonly Mutant[] = [
  {
    name: 'no alignment: the first barrier triggers the snapshot',
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
    name: 'output is committed when it is prepared',
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
    name: 'positions are one too high',
    apply: () => shiftPositions(1n),
  },
  {
    name: 'positions are one too low',
    apply: () => shiftPositions(-1n),
  },
  {
    name: 'positions are taken after the barrier',
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
    name: 'an epoch serves a second transaction',
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
    name: 'the freeze is not exact: state is read when it is written',
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
    name: 'a take-over does not finish the commits of the latest checkpoint',
    apply: () =>
      replace(
        JobTopics.prototype,
        'takeOver',
        (original) =>
          async function (this: JobTopics) {
            const facts = await original.call(this)
            return { ...facts, confirmed: facts.completed.at(-1)?.n ?? facts.confirmed }
          },
      ),
  },
  {
    name: 'a take-over finishes the commits of the latest checkpoint only',
    apply: () =>
      replace(
        JobTopics.prototype,
        'takeOver',
        (original) =>
          async function (this: JobTopics) {
            const facts = await original.call(this)
            return { ...facts, completed: facts.completed.slice(-1) }
          },
      ),
  },
  {
    name: 'aborting a checkpoint aborts the transaction that was prepared for it',
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
    name: 'a take-over neither fences its predecessor nor waits for what it has open',
    apply: () => {
      const mendFence = replace(
        FencedProducer,
        'fence',
        (original) =>
          async function (
            this: typeof FencedProducer,
            cluster: KafkaCluster,
            id: string,
            topic: string,
            world,
            timeoutMs,
          ) {
            const [held] = await cluster.describeTransactions([id])
            if (held === undefined || held.errorCode !== 0)
              return original.call(this, cluster, id, topic, world, timeoutMs)
            const { producerId, producerEpoch } = held
            const make = this as unknown as new (...args: unknown[]) => FencedProducer
            return new make(cluster, topic, world, timeoutMs, {
              transactionalId: id,
              producerId,
              producerEpoch,
            })
          },
      )
      const mendEnd = replace(
        SimulatedClient.prototype,
        'listOffsets',
        (original) =>
          function (this: SimulatedClient, partitions: readonly TopicPartition[], at, isolation, options) {
            const own = partitions[0]?.topic.endsWith('.checkpoints') === true
            return original.call(this, partitions, at, own ? 'read_committed' : isolation, options)
          },
      )
      return () => {
        mendFence()
        mendEnd()
      }
    },
  },
  {
    name: 'the coordinator initialises its id bare before each transaction',
    apply: () => initialiseBare(isCoordinator),
  },
  {
    name: 'a prepared transaction is opened again though a checkpoint that holds it may still complete',
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
    name: 'an abort does not unblock the channels',
    apply: () =>
      replace(
        BarrierHandler.prototype,
        'handle',
        (original) =>
          function (this: BarrierHandler, event: InputEvent): BarrierAction[] {
            const actions = original.call(this, event) as BarrierAction[]
            return event.type === 'abort' ? actions.filter(({ type }) => type !== 'resume-all') : actions
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

async function firstViolation(seed: number): Promise<string | undefined> {
  const { violations } = await new Simulation({ seed, job: JOBS[seed % JOBS.length]!, small: true }).run()
  return violations[0]
}

/** The first seed that finds the mutant, and how; undefined when none of them does. A seed that fails without the mutant proves nothing. */
export async function hunt(
  mutant: Mutant,
  seeds: number,
): Promise<{ readonly seed: number; readonly violation: string } | undefined> {
  for (let seed = 1; seed <= seeds; seed++) {
    const mend = mutant.apply()
    const violation = await firstViolation(seed).finally(mend)
    if (violation !== undefined && (await firstViolation(seed)) === undefined) return { seed, violation }
  }
  return undefined
}

if (process.argv[1]?.endsWith('mutants.ts')) {
  const { values: flags } = parseArgs({
    options: { seeds: { type: 'string', default: '2000' }, mutant: { type: 'string' } },
  })
  const chosen = MUTANTS.filter(({ name }) => flags.mutant === undefined || name.includes(flags.mutant))
  let survivors = 0
  for (const mutant of chosen) {
    const found = await hunt(mutant, Number(flags.seeds))
    if (found === undefined) survivors++
    process.stdout.write(
      found === undefined
        ? `SURVIVED  ${mutant.name}\n`
        : `seed ${String(found.seed).padStart(4)} ${mutant.name}\n          ${found.violation.slice(0, 200)}\n`,
    )
  }
  process.stdout.write(`${chosen.length - survivors} mutants found, ${survivors} survived\n`)
  process.exitCode = survivors === 0 ? 0 : 1
}
