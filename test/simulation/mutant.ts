/**
 * A mutant breaks one rule of the protocol, so that the simulation can prove that it would notice. It replaces methods of the product's
 * classes in this process; nothing in src knows of it.
 */
import type { KafkaCluster } from '../../src/kafka/kafka-cluster.ts'
import type { KafkaEnvironment } from '../../src/kafka/kafka-environment.ts'
import { KafkaSink } from '../../src/kafka/kafka-sink.ts'
import type { KafkaWriter } from '../../src/kafka/kafka-writer.ts'
import { SimulatedClient } from '../../src/testing/simulated-client.ts'
import type { Fault } from '../../src/testing/simulation-faults.ts'
import type { Scenario } from '../../src/testing/simulation-scenario.ts'

/** Circumstances in which a rule matters that few seeds come to: what is not said here, the seed draws. */
export interface Scene {
  readonly job: string
  readonly scenario: Partial<Scenario>
  readonly faults: readonly Fault[]
}

/** One broken rule. */
export interface Mutant {
  readonly name: string
  /** Section of docs/protocol.md that it breaks. */
  readonly rule: string
  /** Where it is looked for; undefined = anywhere. */
  readonly scene?: Scene
  /** Breaks it; the answer mends it again. */
  apply(): () => void
}

/** A quiet world, to begin a scene with: whatever happens in it is one of its faults. */
export const QUIET: Partial<Scenario> = {
  bounded: false,
  brokers: 1,
  partitions: 2,
  recordsPerPartition: 40,
  inputMs: 4_000,
  keys: 5,
  parallelism: [2],
  intervalMs: 200,
  timeoutMs: 500,
  minPauseMs: 0,
  maxConcurrent: 1,
  tolerableFailures: 1_000_000,
  transactionTimeoutMs: undefined,
  storage: 'directory',
  workers: 1,
  noise: 0,
  mode: 'EXACTLY_ONCE',
  transactional: true,
  startAt: 'earliest',
  ending: 'stop',
  newPartitions: 0,
  stateKind: 'heap',
  laterStateKind: 'heap',
  unalignedAfterMs: undefined,
  slowMs: 0,
  commands: 0,
}

/** Applies several changes as one. */
export function together(...changes: readonly (() => void)[]): () => void {
  return () => {
    for (const mend of changes) mend()
  }
}

export type Method = (this: any, ...args: any[]) => any

/** Replaces a method until the answer is called. */
export function replace(owner: object, name: string, make: (original: Method) => Method): () => void {
  const target = owner as Record<string, Method>
  const original = target[name]!
  target[name] = make(original)
  return () => {
    target[name] = original
  }
}

/** Changes every writer that sinks make; `cluster` is the one it writes through. */
export function changeWriters(
  change: (writer: KafkaWriter<unknown>, cluster: KafkaCluster) => void,
): () => void {
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
export function initialiseBare(matches: (id: string) => boolean): () => void {
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

export const isCoordinator = (id: string): boolean => id.endsWith('.coordinator')
