/** Mutants of fencing, of the commit point's outcome, and of what a new leader does. */
import { KafkaError } from '../../src/errors.ts'
import { JobTopics } from '../../src/kafka/job-topics.ts'
import { type KafkaCluster, KafkaCode, type TopicPartition } from '../../src/kafka/kafka-cluster.ts'
import { FencedProducer } from '../../src/kafka/topic-log.ts'
import { JobTransactions } from '../../src/kafka/transactions.ts'
import { SimulatedClient } from '../../src/testing/simulated-client.ts'
import { initialiseBare, isCoordinator, type Mutant, QUIET, replace, together } from './mutant.ts'

type Facts = Awaited<ReturnType<JobTopics['takeOver']>>

/** Changes what a new leader reads. */
function changeFacts(change: (facts: Facts) => Facts): () => void {
  return replace(
    JobTopics.prototype,
    'takeOver',
    (original) =>
      async function (this: JobTopics) {
        return change(await original.call(this))
      },
  )
}

/** Every rule of leadership and recovery that is broken. */
export const TAKE_OVER_MUTANTS: readonly Mutant[] = [
  {
    name: 'a take-over does not finish the commits of the latest checkpoint',
    rule: '2.6',
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
    rule: '2.6',
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
    name: 'a take-over neither fences its predecessor nor waits for what it has open',
    rule: '2.1',
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
    rule: '2.14',
    apply: () => initialiseBare(isCoordinator),
  },
  {
    name: 'ids of sinks are initialised whoever holds them',
    rule: '2.9',
    apply: () => initialiseBare((id) => !isCoordinator(id)),
  },
  {
    name: 'a commit point whose answer is lost counts as refused',
    rule: '3.7',
    scene: {
      job: 'keyed',
      scenario: QUIET,
      faults: [
        {
          trigger: { on: 'call', api: 'EndTxn', of: 'coordinator', nth: 8 },
          action: { kind: 'interception', what: 'drop-response' },
        },
      ],
    },
    apply: () =>
      replace(
        FencedProducer.prototype,
        'end',
        (original) =>
          async function (this: FencedProducer, result: 'commit' | 'abort', timeoutMs: number) {
            try {
              await original.call(this, result, result === 'commit' ? 0 : timeoutMs)
            } catch (error) {
              if (result === 'abort' || !(error instanceof KafkaError) || error.brokerCode !== -1) throw error
              const facts = {
                brokerCode: KafkaCode.INVALID_TXN_STATE,
                brokerError: 'INVALID_TXN_STATE',
                api: 'EndTxn',
              }
              throw new KafkaError(error.code, error.message, facts)
            }
          },
      ),
  },
  {
    name: 'attempts are counted from one again',
    rule: '1.1',
    apply: () =>
      changeFacts((facts) =>
        facts.attempt === undefined ? facts : { ...facts, attempt: { ...facts.attempt, attempt: 0 } },
      ),
  },
  {
    name: 'start positions are resolved again',
    rule: '3.1',
    apply: () => changeFacts((facts) => ({ ...facts, completed: facts.completed.filter(({ n }) => n > 0) })),
  },
  {
    name: 'a run that has ended is resumed',
    rule: '4.2',
    apply: () => changeFacts((facts) => ({ ...facts, job: undefined })),
  },
  {
    name: 'only the ids of the present parallelism are looked after',
    rule: '2.9',
    scene: {
      job: 'union',
      scenario: { ...QUIET, bounded: true, parallelism: [5, 1], partitions: 3 },
      faults: [{ trigger: { on: 'point', point: 'after-prepare', nth: 3 }, action: { kind: 'crash-after' } }],
    },
    apply: () =>
      together(
        replace(
          JobTransactions.prototype,
          'records',
          (original) =>
            function (this: JobTransactions) {
              return original.call(this, [])
            },
        ),
        replace(SimulatedClient.prototype, 'listTransactions', () => async () => []),
      ),
  },
]
