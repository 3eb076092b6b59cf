/**
 * Every option of Millrace, once. The loader, the command line, docs/configuration.md and the types of `config.get` are made from this table;
 * a new option is one new row. An option whose feature does not exist has no row, so that setting it is an error and never a silent no-op;
 * absent-options.ts names those of Flink's that people look for.
 */
import type { OptionSpec, ValueOfSpec } from './option-spec.ts'

const INT_MAX = 2_147_483_647
/** Key groups are numbered with 15 bits, as in Flink. */
const PARALLELISM_MAX = 32_768

/** The table of options, by key. */
export const OPTIONS = {
  'state.backend': {
    type: 'enum',
    values: ['jobmanager', 'filesystem', 'rocksdb', 'redis'],
    default: 'jobmanager',
    knownAs: ['state.backend.type', 'state.checkpoint-storage', 'execution.checkpointing.storage'],
    doc: 'Where keyed state is kept: `jobmanager` on the heap and in the checkpoint topic (at most 5 MB a subtask), `filesystem` on the heap and under `state.checkpoints.dir`, `rocksdb` on the local disk and under `state.checkpoints.dir`, `redis` in Redis.',
  },
  'state.backend.incremental': {
    type: 'boolean',
    default: 'false',
    knownAs: ['execution.checkpointing.incremental'],
    appliesWhen: { key: 'state.backend', is: ['filesystem', 'rocksdb', 'redis'] },
    doc: 'Checkpoints hold what changed since the last one. With `redis` they always do.',
  },
  'state.backend.local-recovery': {
    type: 'boolean',
    default: 'false',
    knownAs: ['execution.state-recovery.from-local', 'state.backend.local-recovery.enabled'],
    appliesWhen: { key: 'state.backend', is: 'rocksdb' },
    doc: 'Keep the state on the local disk when the process ends, and go on with it if it is what the checkpoint says. Every changed key is then written to the disk as well at each checkpoint.',
  },
  'taskmanager.state.local.root-dirs': {
    type: 'list',
    item: /^[^,]+$/,
    itemText: 'a folder',
    knownAs: ['state.backend.rocksdb.localdir', 'execution.state-recovery.local-dirs'],
    appliesWhen: { key: 'state.backend', is: 'rocksdb' },
    doc: 'Folders on the local disk for state, over which subtasks are spread; without it the folder for temporary files.',
  },
  'state.backend.cache.max-bytes': {
    type: 'size',
    default: '256 mb',
    min: '1 mb',
    appliesWhen: { key: 'state.backend', is: ['rocksdb', 'redis'] },
    doc: 'Keyed state that each subtask of an operator keeps on the heap, about; the rest is loaded when its keys come.',
  },
  'state.backend.async': {
    type: 'boolean',
    default: 'true',
    doc: 'Write snapshots while records go on. With `false` a subtask waits until its snapshot is stored; where a barrier overtook records it goes on all the same, since the others must go on before it is known what was in flight.',
  },
  'state.backend.fs.memory-threshold': {
    type: 'size',
    default: '1 kb',
    max: '1 mb',
    knownAs: ['state.storage.fs.memory-threshold', 'execution.checkpointing.data-inline-threshold'],
    doc: 'State smaller than this is kept in the metadata instead of a file of its own: of every savepoint, and of checkpoints under `state.checkpoints.dir`.',
  },
  'state.checkpoints.dir': {
    type: 'path',
    knownAs: ['execution.checkpointing.dir', 'state.backend.fs.checkpointdir'],
    appliesWhen: { key: 'state.backend', is: ['filesystem', 'rocksdb'] },
    doc: 'Folder of the checkpoints; every worker must reach it under this name.',
  },
  'state.checkpoints.num-retained': {
    type: 'int',
    default: '1',
    min: 1,
    max: 1_000,
    knownAs: ['execution.checkpointing.num-retained'],
    doc: 'Completed checkpoints to keep. The one before them is removed when the next one is completed.',
  },
  'state.savepoints.dir': {
    type: 'path',
    knownAs: ['execution.checkpointing.savepoint-dir'],
    doc: 'Folder in which savepoints are made that name none themselves. Whoever restores from one must reach it.',
  },
  'state.backend.redis.url': {
    type: 'string',
    secret: 'url-password',
    env: ['REDIS_URL'],
    knownAs: ['redis.url'],
    doc: 'Redis server that holds state with `state.backend` = `redis`: `redis://user:password@host:6379`, `rediss://` with TLS, `redis+sentinel://host:26379,host:26379/primary`, `redis+cluster://host:7000,host:7000`.',
  },
  'state.backend.redis.persistence': {
    type: 'enum',
    values: ['aof', 'replicas', 'aof-and-replicas', 'any'],
    default: 'aof',
    appliesWhen: { key: 'state.backend', is: 'redis' },
    doc: 'How safe state in Redis is when a checkpoint counts as stored: `aof` in the append-only file on disk, `replicas` in the memory of so many replicas, `aof-and-replicas` both, `any` whatever the server does, which may lose completed checkpoints in a crash.',
  },
  'state.backend.redis.replicas': {
    type: 'int',
    default: '1',
    min: 1,
    max: 100,
    appliesWhen: { key: 'state.backend.redis.persistence', is: ['replicas', 'aof-and-replicas'] },
    doc: 'Replicas that must have the state of a checkpoint.',
  },
  'state.backend.redis.timeout': {
    type: 'duration',
    default: '10 s',
    min: '100 ms',
    max: '10 min',
    appliesWhen: { key: 'state.backend', is: 'redis' },
    doc: 'A request to Redis that is not answered in this time, repeated tries included, fails.',
  },
  'state.backend.redis.sentinel.password': {
    type: 'string',
    secret: 'value',
    doc: 'Password of Sentinel itself, if it asks for one.',
  },
  'state.backend.redis.ssl.ca': {
    type: 'path',
    doc: 'PEM file of the authorities to trust with `rediss://`; those of Node.js without it.',
  },
  'execution.checkpointing.interval': {
    type: 'duration',
    default: '0 ms',
    doc: 'Time from the start of a checkpoint to the start of the next one, at least 10 ms; 0 turns checkpointing off.',
  },
  'execution.checkpointing.mode': {
    type: 'enum',
    values: ['EXACTLY_ONCE', 'AT_LEAST_ONCE'],
    default: 'EXACTLY_ONCE',
    doc: 'Whether barriers are aligned (`EXACTLY_ONCE`) or only counted (`AT_LEAST_ONCE`).',
  },
  'execution.checkpointing.timeout': {
    type: 'duration',
    default: '10 min',
    min: '10 ms',
    doc: 'A checkpoint that takes longer is aborted.',
  },
  'execution.checkpointing.min-pause': {
    type: 'duration',
    default: '0 ms',
    doc: 'Least time from the end of a checkpoint to the start of the next one. Above 0 only one checkpoint runs at a time.',
  },
  'execution.checkpointing.max-concurrent-checkpoints': {
    type: 'int',
    default: '1',
    min: 1,
    max: 1_000,
    doc: 'Checkpoints that may be in flight at a time.',
  },
  'execution.checkpointing.tolerable-failed-checkpoints': {
    type: 'int',
    default: '0',
    min: 0,
    max: INT_MAX,
    doc: 'Checkpoints that may fail one after another before the job fails.',
  },
  'execution.checkpointing.externalized-checkpoint-retention': {
    type: 'enum',
    values: ['DELETE_ON_CANCELLATION', 'RETAIN_ON_CANCELLATION'],
    default: 'DELETE_ON_CANCELLATION',
    doc: 'What becomes of the checkpoints when the job is cancelled. They are kept when it fails.',
  },
  'execution.checkpointing.unaligned': {
    type: 'boolean',
    default: 'false',
    knownAs: ['execution.checkpointing.unaligned.enabled'],
    doc: 'Let barriers overtake the records that wait in channels, and keep those in the checkpoint: under backpressure checkpoints do not wait for them. One checkpoint at a time; savepoints stay aligned.',
  },
  'execution.checkpointing.aligned-checkpoint-timeout': {
    type: 'duration',
    default: '0 ms',
    appliesWhen: { key: 'execution.checkpointing.unaligned', is: 'true' },
    doc: 'How long after its trigger a checkpoint is aligned before its barriers overtake; 0 = they overtake at once.',
  },
  'restart-strategy.type': {
    type: 'enum',
    values: ['exponential-delay', 'fixed-delay', 'failure-rate', 'none'],
    default: 'exponential-delay',
    knownAs: ['restart-strategy'],
    doc: 'How the job comes back after a failure.',
  },
  'restart-strategy.fixed-delay.attempts': {
    type: 'int',
    default: '1',
    min: 0,
    max: INT_MAX,
    appliesWhen: { key: 'restart-strategy.type', is: 'fixed-delay' },
    doc: 'Restarts before the job fails for good.',
  },
  'restart-strategy.fixed-delay.delay': {
    type: 'duration',
    default: '1 s',
    appliesWhen: { key: 'restart-strategy.type', is: 'fixed-delay' },
    doc: 'Wait before each restart.',
  },
  'restart-strategy.exponential-delay.initial-backoff': {
    type: 'duration',
    default: '1 s',
    min: '1 ms',
    appliesWhen: { key: 'restart-strategy.type', is: 'exponential-delay' },
    doc: 'Wait before the first restart.',
  },
  'restart-strategy.exponential-delay.max-backoff': {
    type: 'duration',
    default: '1 min',
    min: '1 ms',
    appliesWhen: { key: 'restart-strategy.type', is: 'exponential-delay' },
    doc: 'Longest wait before a restart.',
  },
  'restart-strategy.exponential-delay.backoff-multiplier': {
    type: 'number',
    default: '1.5',
    min: 1,
    max: 1_000,
    appliesWhen: { key: 'restart-strategy.type', is: 'exponential-delay' },
    doc: 'Each wait is the one before times this.',
  },
  'restart-strategy.exponential-delay.reset-backoff-threshold': {
    type: 'duration',
    default: '1 h',
    min: '1 ms',
    appliesWhen: { key: 'restart-strategy.type', is: 'exponential-delay' },
    doc: 'After running this long without a failure the wait is the initial one again.',
  },
  'restart-strategy.exponential-delay.jitter-factor': {
    type: 'number',
    default: '0.1',
    min: 0,
    max: 1,
    appliesWhen: { key: 'restart-strategy.type', is: 'exponential-delay' },
    doc: 'Part of the wait that chance adds or takes away.',
  },
  'restart-strategy.exponential-delay.attempts-before-reset-backoff': {
    type: 'int',
    min: 0,
    max: INT_MAX,
    appliesWhen: { key: 'restart-strategy.type', is: 'exponential-delay' },
    doc: 'Restarts before the job fails for good, counted anew when the wait is the initial one again; no limit without it.',
  },
  'restart-strategy.failure-rate.max-failures-per-interval': {
    type: 'int',
    default: '1',
    min: 1,
    max: INT_MAX,
    appliesWhen: { key: 'restart-strategy.type', is: 'failure-rate' },
    doc: 'Failures within the interval before the job fails for good.',
  },
  'restart-strategy.failure-rate.failure-rate-interval': {
    type: 'duration',
    default: '1 min',
    min: '1 ms',
    appliesWhen: { key: 'restart-strategy.type', is: 'failure-rate' },
    doc: 'Interval in which failures are counted.',
  },
  'restart-strategy.failure-rate.delay': {
    type: 'duration',
    default: '1 s',
    appliesWhen: { key: 'restart-strategy.type', is: 'failure-rate' },
    doc: 'Wait before each restart.',
  },
  'parallelism.default': {
    type: 'int',
    word: 'auto',
    default: 'auto',
    min: 1,
    max: PARALLELISM_MAX,
    doc: 'Subtasks of an operator that has no parallelism of its own; `auto` = as many as there are slots.',
  },
  'pipeline.max-parallelism': {
    type: 'int',
    default: '128',
    min: 1,
    max: PARALLELISM_MAX,
    doc: 'Number of key groups, the upper limit of parallelism. It cannot change once the job has state.',
  },
  'taskmanager.numberOfTaskSlots': {
    type: 'int',
    default: '1',
    min: 1,
    max: 1_024,
    doc: 'Slots that one worker offers.',
  },
  'on-fingerprint-mismatch': {
    type: 'enum',
    values: ['fail', 'wait'],
    default: 'fail',
    doc: 'What a worker does when the running job has another graph: end with an error, or wait until that job is gone.',
  },
  'kafka.brokers': {
    type: 'list',
    item: /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+):\d{1,5}$/i,
    itemText: 'host:port',
    env: ['KAFKA_BROKERS'],
    knownAs: [
      'bootstrap.servers',
      'kafka.bootstrap.servers',
      'kafka.bootstrap-servers',
      'properties.bootstrap.servers',
    ],
    doc: 'Brokers to begin with.',
  },
  'kafka.client-id': {
    type: 'string',
    default: 'millrace',
    knownAs: ['client.id'],
    doc: 'Name that brokers see in their logs and quotas.',
  },
  'kafka.ssl': {
    type: 'boolean',
    default: 'false',
    knownAs: ['security.protocol', 'kafka.security.protocol', 'kafka.tls'],
    doc: 'Use TLS.',
  },
  'kafka.ssl.ca': {
    type: 'path',
    doc: 'PEM file of the authorities to trust; those of Node.js without it.',
  },
  'kafka.ssl.cert': {
    type: 'path',
    doc: "PEM file of the client's certificate.",
  },
  'kafka.ssl.key': {
    type: 'path',
    doc: "PEM file of the client's private key.",
  },
  'kafka.sasl.mechanism': {
    type: 'enum',
    values: ['plain', 'scram-sha-256', 'scram-sha-512'],
    knownAs: ['sasl.mechanism', 'sasl.mechanisms'],
    doc: 'How the client authenticates; not at all without it.',
  },
  'kafka.sasl.username': {
    type: 'string',
    doc: 'User name for SASL.',
  },
  'kafka.sasl.password': {
    type: 'string',
    secret: 'value',
    doc: 'Password for SASL; better set in the environment than in a file.',
  },
  'kafka.request-timeout': {
    type: 'duration',
    default: '30 s',
    min: '100 ms',
    max: '1 h',
    knownAs: ['request.timeout.ms'],
    doc: 'A request that is not answered in this time is sent again.',
  },
  'kafka.fetch.max-bytes': {
    type: 'size',
    default: '1 mb',
    min: '1 kb',
    max: '1 gb',
    knownAs: ['max.partition.fetch.bytes'],
    doc: 'Most bytes of one partition in one fetch. A single larger record still comes through.',
  },
  'kafka.fetch.max-wait': {
    type: 'duration',
    default: '500 ms',
    max: '1 min',
    knownAs: ['fetch.max.wait.ms'],
    doc: 'How long a broker may hold a fetch back when there is nothing to read.',
  },
  'kafka.job-topics.replication-factor': {
    type: 'int',
    word: 'auto',
    default: 'auto',
    min: 1,
    max: 32_767,
    doc: 'Replicas of the topics that the job makes for itself; `auto` = 3, or the number of brokers if that is smaller.',
  },
  'schema.registry.url': {
    type: 'url',
    secret: 'url-password',
    env: ['SCHEMA_REGISTRY_URL'],
    doc: 'Schema registry for the avro, protobuf and jsonSchema serdes.',
  },
  'log.level': {
    type: 'enum',
    values: ['debug', 'info', 'warn', 'error'],
    default: 'info',
    doc: 'Least important lines to log.',
  },
  'log.format': {
    type: 'enum',
    values: ['auto', 'pretty', 'json'],
    default: 'auto',
    doc: 'Lines for people or for programs; `auto` = for people when stderr is a terminal.',
  },
} as const satisfies Record<string, OptionSpec>

/** The name of an option. */
export type OptionKey = keyof typeof OPTIONS

/** The type of an option's value. */
export type OptionValue<K extends OptionKey> = ValueOfSpec<(typeof OPTIONS)[K]>

/** All keys, in the order of the table. */
export const OPTION_KEYS = Object.keys(OPTIONS) as readonly OptionKey[]

/** The row of an option. */
export function specOf(key: OptionKey): OptionSpec {
  return OPTIONS[key]
}

/** True if the table has this key. */
export function isOptionKey(key: string): key is OptionKey {
  return Object.hasOwn(OPTIONS, key)
}

/** The variable that sets an option: `state.backend` → `MILLRACE_STATE_BACKEND`. */
export function variableOf(key: string): string {
  return `MILLRACE_${key.toUpperCase().replaceAll(/[.-]/g, '_')}`
}
