/**
 * For each option the tests that show what it does to a running job, and what sets it in a job's code. `npm run docs` puts it into
 * docs/configuration.md; a test checks that every option is here and that every test exists.
 */
import type { OptionKey } from '../src/config.ts'

/** Tests of one file, by their titles as they are written there. */
export interface EffectTests {
  readonly file: string
  readonly titles: readonly string[]
}

export interface Effect {
  /** What sets it in code, for people; absent: only its key does. */
  readonly code?: string
  readonly tests: readonly EffectTests[]
  /** The tests show it on a client of its own, without a job. */
  readonly withoutJob?: true
}

const inFile =
  (file: string) =>
  (...titles: string[]): EffectTests => ({ file, titles })

const timing = inFile('test/unit/settings/checkpoint-timing.test.ts')
const mode = inFile('test/unit/settings/checkpoint-mode.test.ts')
const restarts = inFile('test/unit/settings/restarts.test.ts')
const files = inFile('test/unit/settings/state-files.test.ts')
const heap = inFile('test/unit/settings/state-on-the-heap.test.ts')
const parallel = inFile('test/unit/settings/parallelism-and-kafka.test.ts')
const connection = inFile('test/unit/settings/kafka-connection.test.ts')
const tls = inFile('test/integration/kafka/tls-settings.test.ts')
const redis = inFile('test/integration/redis/redis-settings.test.ts')
const logs = inFile('test/unit/settings/logs.test.ts')

const checkpointConfig = (call: string): string => `env.getCheckpointConfig().${call}`
const RATE = 'RestartStrategies.failureRate(…)'
const FIXED = 'RestartStrategies.fixedDelay(…)'
const EXPONENTIAL = 'RestartStrategies.exponentialDelay(…)'

const fixedDelay = restarts('waits as long each time, and ends after so many attempts')
const backoff = restarts('begins with the initial wait, multiplies it, and stays at the longest')
const failureRate = restarts(
  'ends the job when more failures than allowed come within the interval',
  'forgets those that are older than the interval',
)
const sasl = connection('names the mechanism, then sends who it is: %s')
const clientCertificate = tls('kafka.ssl.cert and kafka.ssl.key: what the client shows of itself')

/** By key. */
export const EFFECTS: Readonly<Record<OptionKey, Effect>> = {
  'state.backend': {
    code: 'env.setStateBackend(…)',
    tests: [
      files('jobmanager writes nothing to the directory, filesystem and rocksdb write there'),
      redis('names the server that has the state of the job'),
    ],
  },
  'state.backend.incremental': {
    tests: [files('%s, %s: whether a checkpoint after 1 %% of the keys changed has only these')],
  },
  'state.backend.local-recovery': {
    tests: [files('state.backend.local-recovery %s: whether a restart needs the files of the checkpoint')],
  },
  'taskmanager.state.local.root-dirs': {
    tests: [files('taskmanager.state.local.root-dirs: subtasks are spread over the folders')],
  },
  'state.backend.cache.max-bytes': {
    tests: [heap('%s: whether keys beyond it are read from the disk when they come again')],
  },
  'state.backend.async': { tests: [heap('%s: whether records go on while a snapshot is stored')] },
  'state.backend.fs.memory-threshold': {
    tests: [
      inFile('test/unit/runtime/checkpoint-directory.test.ts')(
        'with a memory threshold of %s the state of %i keys is %s',
      ),
    ],
  },
  'state.checkpoints.dir': {
    tests: [
      files('jobmanager writes nothing to the directory, filesystem and rocksdb write there'),
      inFile('test/unit/runtime/restore-choice.test.ts')(
        'that was retained on cancellation goes on where it was, by its folder, and leaves it in place',
      ),
    ],
  },
  'state.checkpoints.num-retained': { tests: [files('%i: as many of the latest checkpoints are there')] },
  'state.savepoints.dir': {
    tests: [
      files('state.savepoints.dir: a savepoint that names no folder lies there'),
      inFile('test/unit/runtime/savepoints.test.ts')(
        'goes into the folder that was named; without any it is refused by code',
      ),
    ],
  },
  'state.backend.redis.url': {
    tests: [
      redis(
        'names the server that has the state of the job',
        'at which nothing listens is said before the job starts',
      ),
    ],
  },
  'state.backend.redis.persistence': {
    tests: [redis('aof refuses a server that writes no file; any takes it')],
  },
  'state.backend.redis.replicas': {
    tests: [redis('so many must have the state before a checkpoint completes')],
  },
  'state.backend.redis.timeout': {
    tests: [redis('%i ms: a server that hangs fails the checkpoint after it, and not the job')],
  },
  'state.backend.redis.sentinel.password': { tests: [redis('is what Sentinel asks for')] },
  'state.backend.redis.ssl.ca': { tests: [redis('names the authority to trust with rediss://')] },
  'execution.checkpointing.interval': {
    code: 'env.enableCheckpointing(ms)',
    tests: [
      timing(
        'is the time from the start of a checkpoint to the start of the next one',
        'that passes several times while a checkpoint is in flight gives one that starts when it ends',
        'of 0 takes none, and output is seen without waiting for any',
      ),
    ],
  },
  'execution.checkpointing.mode': {
    code: `env.enableCheckpointing(ms, mode), ${checkpointConfig('setCheckpointingMode(…)')}`,
    tests: [
      mode(
        'EXACTLY_ONCE: records behind a barrier wait for the other barriers, and count once after a failure',
        'AT_LEAST_ONCE: they wait for nothing, and count twice after a failure',
      ),
    ],
  },
  'execution.checkpointing.timeout': {
    code: checkpointConfig('setCheckpointTimeout(ms)'),
    tests: [
      timing(
        'ends a checkpoint that hangs; what it prepared is in the next one that completes, once',
        'that is longer lets it complete',
      ),
      files('what a checkpoint stored that was aborted is removed'),
    ],
  },
  'execution.checkpointing.min-pause': {
    code: checkpointConfig('setMinPauseBetweenCheckpoints(ms)'),
    tests: [
      timing(
        'is kept between the end of a checkpoint and the start of the next one',
        'leaves one checkpoint at a time, whatever else is set',
      ),
    ],
  },
  'execution.checkpointing.max-concurrent-checkpoints': {
    code: checkpointConfig('setMaxConcurrentCheckpoints(n)'),
    tests: [timing('%i: so many are in flight, each with its output prepared, and no more')],
  },
  'execution.checkpointing.tolerable-failed-checkpoints': {
    code: `${checkpointConfig('setTolerableCheckpointFailureNumber(n)')}, ${checkpointConfig('setFailOnCheckpointingErrors(…)')}`,
    tests: [
      timing(
        '%i in a row are tolerated, and the next one restarts the job',
        'setFailOnCheckpointingErrors %s: the last call decides whether the job restarts',
      ),
    ],
  },
  'execution.checkpointing.externalized-checkpoint-retention': {
    code: checkpointConfig('enableExternalizedCheckpoints(…)'),
    tests: [files('%s: what is there after a cancel', '%s: a job that FAILED keeps its checkpoint')],
  },
  'execution.checkpointing.unaligned': {
    code: checkpointConfig('enableUnalignedCheckpoints()'),
    tests: [
      mode('overtake at once: records behind a barrier wait for nothing, and count once after a failure'),
      inFile('test/unit/runtime/unaligned-job.test.ts')(
        'seed %i: parallelism %i, crash, then %i: each record counts once, in the order of its partition (overtaking after %i ms)',
      ),
    ],
  },
  'execution.checkpointing.aligned-checkpoint-timeout': {
    tests: [mode('with a time to align, records wait %s: %i ms')],
  },
  'restart-strategy.type': {
    code: 'env.setRestartStrategy(…)',
    tests: [
      restarts(
        'none: the first failure is the end',
        'decides which parameters count: those of the code are overridden with their strategy',
      ),
    ],
  },
  'restart-strategy.fixed-delay.attempts': { code: FIXED, tests: [fixedDelay] },
  'restart-strategy.fixed-delay.delay': { code: FIXED, tests: [fixedDelay] },
  'restart-strategy.exponential-delay.initial-backoff': { code: EXPONENTIAL, tests: [backoff] },
  'restart-strategy.exponential-delay.max-backoff': { code: EXPONENTIAL, tests: [backoff] },
  'restart-strategy.exponential-delay.backoff-multiplier': { code: EXPONENTIAL, tests: [backoff] },
  'restart-strategy.exponential-delay.reset-backoff-threshold': {
    code: EXPONENTIAL,
    tests: [restarts('begins anew after it ran without a failure for the threshold')],
  },
  'restart-strategy.exponential-delay.jitter-factor': {
    code: EXPONENTIAL,
    tests: [restarts('is moved by chance within the jitter')],
  },
  'restart-strategy.exponential-delay.attempts-before-reset-backoff': {
    code: EXPONENTIAL,
    tests: [restarts('ends after so many attempts, which are counted anew when the wait begins anew')],
  },
  'restart-strategy.failure-rate.max-failures-per-interval': { code: RATE, tests: [failureRate] },
  'restart-strategy.failure-rate.failure-rate-interval': { code: RATE, tests: [failureRate] },
  'restart-strategy.failure-rate.delay': { code: RATE, tests: [failureRate] },
  'parallelism.default': {
    code: 'env.setParallelism(n)',
    tests: [
      parallel(
        'auto is as many subtasks as there are slots',
        'the default is for operators that set none, whatever the slots',
      ),
    ],
  },
  'pipeline.max-parallelism': {
    code: 'env.setMaxParallelism(n)',
    tests: [
      parallel('above the max parallelism is refused before the job starts'),
      inFile('test/unit/runtime/restore-choice.test.ts')('is refused when the max parallelism changed'),
    ],
  },
  'taskmanager.numberOfTaskSlots': { tests: [parallel('auto is as many subtasks as there are slots')] },
  'on-fingerprint-mismatch': {
    tests: [
      inFile('test/unit/settings/fingerprint-mismatch.test.ts')(
        'fail: a job with another graph ends with an error while the running one goes on',
        'wait: a job with another graph stands by, and runs when the running one is gone',
      ),
      inFile('test/unit/kafka/group-member.test.ts')(
        'is refused by the broker, waited for as long as a dead worker may stay, then a conflict; the running ones notice nothing',
        'is waited for without end when that is asked for',
      ),
      inFile('test/integration/cases/ownership.test.ts')(
        'another graph is refused with both fingerprints, and the running job goes on undisturbed',
      ),
    ],
  },
  'kafka.brokers': {
    tests: [
      connection('the client id is in the head of requests'),
      inFile('test/integration/kafka/kafkajs-cluster.test.ts')(
        'one broker of the list that answers is enough',
      ),
    ],
  },
  'kafka.client-id': { withoutJob: true, tests: [connection('the client id is in the head of requests')] },
  'kafka.ssl': { withoutJob: true, tests: [connection('with TLS nothing is sent in the clear')] },
  'kafka.ssl.ca': {
    withoutJob: true,
    tests: [
      tls('kafka.ssl.ca: a broker is trusted whose certificate this authority has signed, and no other'),
    ],
  },
  'kafka.ssl.cert': { withoutJob: true, tests: [clientCertificate] },
  'kafka.ssl.key': { withoutJob: true, tests: [clientCertificate] },
  'kafka.sasl.mechanism': { withoutJob: true, tests: [sasl] },
  'kafka.sasl.username': { withoutJob: true, tests: [sasl] },
  'kafka.sasl.password': { withoutJob: true, tests: [sasl] },
  'kafka.request-timeout': {
    withoutJob: true,
    tests: [connection('a request that is not answered within the request time-out is sent again')],
  },
  'kafka.fetch.max-bytes': {
    tests: [parallel('bring at most so many bytes of a partition, and a larger batch whole')],
  },
  'kafka.fetch.max-wait': {
    tests: [parallel('are held back by the broker for so long while there is nothing to read')],
  },
  'kafka.job-topics.replication-factor': {
    tests: [
      parallel(
        'have the replicas that were asked for, which the brokers must have',
        'have as many replicas as there are brokers, up to three, when nobody asks',
      ),
    ],
  },
  'schema.registry.url': {
    tests: [
      inFile('test/unit/settings/schema-registry.test.ts')(
        'schema.registry.url: values are written with the schema that this registry has',
      ),
    ],
  },
  'log.level': { tests: [logs('log.level %s: which lines are left out')] },
  'log.format': {
    tests: [
      logs(
        'log.format json: each line is an object',
        'log.format pretty: time, level and message for people',
        'log.format auto: for programs, since nobody sits at a terminal',
      ),
    ],
  },
}
