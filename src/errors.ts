/**
 * Every error that Millrace raises on purpose: a stable code, whose fault it is, whether trying again helps, and what to do.
 * docs/errors.md is checked against this table by test/consistency.
 */

/** Whose fault an error is: the job's code or settings, the world around the job, or Millrace itself. */
export type Fault = 'user' | 'external' | 'internal'

interface ErrorSpec {
  readonly fault: Fault
  /** True if the same action may succeed later without anybody changing anything. */
  readonly retriable: boolean
  /** What a person should do, in one or two sentences. */
  readonly remedy: string
}

/** The closed list of codes. A code is never renamed or reused. */
export const ERROR_CODES = {
  MILLRACE_INTERNAL: {
    fault: 'internal',
    retriable: false,
    remedy: 'This is a defect in Millrace. Please report it with the log around it.',
  },
  MILLRACE_ILLEGAL_TRANSITION: {
    fault: 'internal',
    retriable: false,
    remedy: 'A state machine was asked for an illegal move. Please report it with the log around it.',
  },
  MILLRACE_UNKNOWN_OPTION: {
    fault: 'user',
    retriable: false,
    remedy: 'Check the spelling of the key; docs/configuration.md lists every key.',
  },
  MILLRACE_INVALID_OPTION: {
    fault: 'user',
    retriable: false,
    remedy: 'Give the option a value of the type and range that docs/configuration.md names.',
  },
  MILLRACE_CONFIG_FILE: {
    fault: 'user',
    retriable: false,
    remedy: 'Correct the file at the line that the message names, or name another one with --config.',
  },
  MILLRACE_USAGE: {
    fault: 'user',
    retriable: false,
    remedy: 'millrace --help lists commands and options.',
  },
  MILLRACE_INVALID_GRAPH: {
    fault: 'user',
    retriable: false,
    remedy: 'Change the job as the message says; nothing was started.',
  },
  MILLRACE_UNSUPPORTED_NODE: {
    fault: 'user',
    retriable: false,
    remedy: 'Run the job with Node.js 22.18 or newer.',
  },
  MILLRACE_JOB_MODULE: {
    fault: 'user',
    retriable: false,
    remedy: 'Fix the job module: it must load without throwing and call env.execute() or env.executeAsync().',
  },
  MILLRACE_JOB_FAILED: {
    fault: 'user',
    retriable: false,
    remedy: 'See the cause; the job resumes from its latest completed checkpoint when it is started again.',
  },
  MILLRACE_USER_FUNCTION: {
    fault: 'user',
    retriable: false,
    remedy: 'A function of the job threw; fix it, or catch the error inside it.',
  },
  MILLRACE_ASYNC_TIMEOUT: {
    fault: 'external',
    retriable: true,
    remedy:
      'What asyncMap asks did not answer in time: raise timeoutMs, allow attempts with retry, or give an onTimeout that makes a result.',
  },
  MILLRACE_KEY_NOT_OWNED: {
    fault: 'user',
    retriable: false,
    remedy:
      'Use keyBy instead of reinterpretAsKeyedStream: the stream is not partitioned as keyBy would do it.',
  },
  MILLRACE_INVALID_KEY: {
    fault: 'user',
    retriable: false,
    remedy: 'Return a string, number, bigint, boolean, bytes, or an array of these from the key selector.',
  },
  MILLRACE_MISSING_TIMESTAMP: {
    fault: 'user',
    retriable: false,
    remedy: 'Give the source a WatermarkStrategy with a timestamp assigner, or use processing-time windows.',
  },
  MILLRACE_INVALID_STATE_VALUE: {
    fault: 'user',
    retriable: false,
    remedy: 'Keep plain structured values in state, or give the state descriptor a serde for the class.',
  },
  MILLRACE_STATE_ACCESS: {
    fault: 'user',
    retriable: false,
    remedy: 'Use state, timers and collectors only inside the call that they were given to.',
  },
  MILLRACE_STATE_TOO_LARGE: {
    fault: 'user',
    retriable: false,
    remedy: 'Set state.backend to filesystem, redis or rocksdb; jobmanager keeps at most 5 MB a subtask.',
  },
  MILLRACE_STATE_LOST: {
    fault: 'external',
    retriable: false,
    remedy:
      'State that a completed checkpoint names is missing or damaged; restore its storage, or start from another checkpoint.',
  },
  MILLRACE_STATE_NOT_RESTORED: {
    fault: 'user',
    retriable: false,
    remedy:
      'Give the operator the uid that the checkpoint names, or pass --allow-non-restored-state to drop that state.',
  },
  MILLRACE_STATE_INCOMPATIBLE: {
    fault: 'user',
    retriable: false,
    remedy:
      'Declare the state with the kind and serde that the checkpoint holds, or give the new state another name.',
  },
  MILLRACE_REDIS_UNAVAILABLE: {
    fault: 'external',
    retriable: true,
    remedy:
      'Check that the Redis server of state.backend.redis.url runs, is reachable and is the primary; the message has its own words.',
  },
  MILLRACE_REDIS_FULL: {
    fault: 'external',
    retriable: true,
    remedy: 'Raise maxmemory of the Redis server, or give it more room; no state was lost.',
  },
  MILLRACE_REDIS_REFUSED: {
    fault: 'user',
    retriable: false,
    remedy: 'Change the Redis server, its user or state.backend.redis.* as the message says.',
  },
  MILLRACE_REDIS_NOT_DURABLE: {
    fault: 'external',
    retriable: true,
    remedy:
      'The write is not as safe as state.backend.redis.persistence asks; check the disk and the replicas of the Redis server.',
  },
  MILLRACE_REDIS_WRITES_LOST: {
    fault: 'external',
    retriable: true,
    remedy:
      'The Redis server forgot writes after the last checkpoint (a restart, or a replica that lagged took over); the job resumes from that checkpoint.',
  },
  MILLRACE_CHECKPOINT_MISSING: {
    fault: 'user',
    retriable: false,
    remedy: 'See which checkpoints there are with: millrace checkpoints list JOB.',
  },
  MILLRACE_SAVEPOINT_DIRECTORY: {
    fault: 'user',
    retriable: false,
    remedy: 'Name a folder for the savepoint, or set state.savepoints.dir.',
  },
  MILLRACE_CHECKPOINT_STORAGE: {
    fault: 'external',
    retriable: true,
    remedy: 'Check that state.checkpoints.dir exists, is writable and has room, on every worker.',
  },
  MILLRACE_LOCAL_STATE: {
    fault: 'external',
    retriable: true,
    remedy:
      'Check that the folders in taskmanager.state.local.root-dirs exist, are writable and have room on this worker.',
  },
  MILLRACE_CHECKPOINT_FAILED: {
    fault: 'external',
    retriable: true,
    remedy:
      'See the cause; raise execution.checkpointing.timeout or tolerable-failed-checkpoints if checkpoints are slow.',
  },
  MILLRACE_KAFKA_UNREACHABLE: {
    fault: 'external',
    retriable: true,
    remedy:
      'Check kafka.brokers (or KAFKA_BROKERS), the network, TLS and SASL settings, and that the brokers run.',
  },
  MILLRACE_KAFKA_PROTOCOL: {
    fault: 'external',
    retriable: false,
    remedy: 'The broker refused a request; the message names the request and the broker error.',
  },
  MILLRACE_KAFKA_UNAUTHORIZED: {
    fault: 'user',
    retriable: false,
    remedy: 'Give the principal the ACL that the message names.',
  },
  MILLRACE_KAFKA_TOO_OLD: {
    fault: 'user',
    retriable: false,
    remedy: 'Use Apache Kafka 3.6 or newer; older brokers can leave hanging transactions.',
  },
  MILLRACE_KAFKA_NOT_CONFIGURED: {
    fault: 'user',
    retriable: false,
    remedy: 'Set kafka.brokers in millrace.yaml, with -D kafka.brokers=host:9092, or KAFKA_BROKERS.',
  },
  MILLRACE_TOPIC_MISSING: {
    fault: 'user',
    retriable: false,
    remedy: 'Create the topic, or correct its name in the job.',
  },
  MILLRACE_TRANSACTION_TIMEOUT: {
    fault: 'user',
    retriable: false,
    remedy: 'Lower transactionTimeoutMs, or raise transaction.max.timeout.ms on the brokers.',
  },
  MILLRACE_TRANSACTION_LOST: {
    fault: 'external',
    retriable: false,
    remedy:
      'Records of a completed checkpoint cannot be committed any more; decide with --accept-lost-transaction, or restore an older checkpoint.',
  },
  MILLRACE_TRANSACTION_FENCED: {
    fault: 'external',
    retriable: true,
    remedy:
      'Another producer took this transactional id; the attempt ends and the job recovers from its last checkpoint.',
  },
  MILLRACE_TRANSACTIONAL_ID_HELD: {
    fault: 'user',
    retriable: false,
    remedy: 'Two sinks or jobs use one transactional-id prefix; give each its own transactionalIdPrefix.',
  },
  MILLRACE_DATA_LOSS: {
    fault: 'external',
    retriable: false,
    remedy:
      "Records between the stored position and the log are gone; set onDataLoss to 'earliest' or 'latest' to go on without them.",
  },
  MILLRACE_DESERIALIZATION: {
    fault: 'user',
    retriable: false,
    remedy: "Fix the record's producer, or set onDeserializationError to 'skip' or deadLetter(topic).",
  },
  MILLRACE_SERIALIZATION: {
    fault: 'user',
    retriable: false,
    remedy: 'The sink could not turn a value into bytes; fix the value or the serde.',
  },
  MILLRACE_CORRUPT_BATCH: {
    fault: 'external',
    retriable: false,
    remedy:
      'The record batch on the broker is damaged; restore the partition from a replica or skip past it.',
  },
  MILLRACE_MISSING_PACKAGE: {
    fault: 'user',
    retriable: false,
    remedy: 'Install the optional package that the message names.',
  },
  MILLRACE_FILE_STORAGE: {
    fault: 'external',
    retriable: true,
    remedy:
      "Check that the file sink's folder exists on every worker, is one file system, is writable and has room.",
  },
  MILLRACE_FILE_LOST: {
    fault: 'external',
    retriable: false,
    remedy:
      "Output of a completed checkpoint is missing or damaged; bring the file back, or set the file sink's onLostFile to 'accept' to go on without it.",
  },
  MILLRACE_SCHEMA_REGISTRY_UNREACHABLE: {
    fault: 'external',
    retriable: true,
    remedy: 'Check schema.registry.url (or SCHEMA_REGISTRY_URL), the network, and that the registry runs.',
  },
  MILLRACE_SCHEMA_REGISTRY_REFUSED: {
    fault: 'user',
    retriable: false,
    remedy:
      'Check that schema.registry.url is the base address of the registry, and that the schema fits what the subject allows.',
  },
  MILLRACE_JOB_CONFLICT: {
    fault: 'user',
    retriable: false,
    remedy: 'Another job runs under this name; give this one another name, or stop the other first.',
  },
  MILLRACE_NO_SUCH_JOB: {
    fault: 'user',
    retriable: false,
    remedy: 'See which jobs there are with: millrace list.',
  },
  MILLRACE_COMMAND_UNANSWERED: {
    fault: 'external',
    retriable: true,
    remedy:
      "Look at the job's log; when its leader is hung, stop that process: another worker takes over, or the next start resumes.",
  },
  MILLRACE_CHECKPOINTING_REQUIRED: {
    fault: 'user',
    retriable: false,
    remedy: 'Call env.enableCheckpointing(intervalMs), or use another delivery guarantee.',
  },
  MILLRACE_ATTEMPT_LOST: {
    fault: 'external',
    retriable: true,
    remedy: 'This worker lost the job to another one; it rejoins as a standby.',
  },
  MILLRACE_TEST_DRIVER: {
    fault: 'user',
    retriable: false,
    remedy: 'Change the test as the message says; docs/testing.md shows how a test drives a job.',
  },
} as const satisfies Record<string, ErrorSpec>

/** A stable error code, e.g. `MILLRACE_TOPIC_MISSING`. */
export type ErrorCode = keyof typeof ERROR_CODES

/** Extra facts of an error that programs may read: topic, partition, offset, key and the like. */
export type ErrorDetails = Readonly<Record<string, unknown>>

/**
 * Base class of all errors that Millrace raises.
 * `message` names what and where; `remedy` says what to do; `cause` holds the error beneath, if any.
 */
export class MillraceError extends Error {
  readonly code: ErrorCode
  readonly fault: Fault
  readonly retriable: boolean
  readonly remedy: string
  readonly details: ErrorDetails

  constructor(
    code: ErrorCode,
    message: string,
    options: {
      cause?: unknown
      details?: ErrorDetails
      retriable?: boolean
      fault?: Fault
      remedy?: string
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = new.target.name
    this.code = code
    const spec: ErrorSpec = ERROR_CODES[code]
    this.fault = options.fault ?? spec.fault
    this.retriable = options.retriable ?? spec.retriable
    this.remedy = options.remedy ?? spec.remedy
    this.details = options.details ?? {}
  }
}

/** A setting that is unknown, of the wrong type, out of range, or at odds with another one. */
export class ConfigError extends MillraceError {}
/** A job graph that cannot run: two sinks with one prefix, a cycle, clashing uids. */
export class GraphError extends MillraceError {}
/** A user function threw; `cause` is its error. */
export class UserFunctionError extends MillraceError {}
/** State that a completed checkpoint names is missing or damaged. */
export class StateLostError extends MillraceError {}
/** A value that state cannot keep: the message names the state and the path inside the value. */
export class StateValueError extends MillraceError {}
/** Records that the job had not read yet are gone from the log. */
export class DataLossError extends MillraceError {}
/** A record that could not be decoded; details name topic, partition, offset and key. */
export class DeserializationError extends MillraceError {}
/** A value that could not be encoded. */
export class SerializationError extends MillraceError {}
/** A damaged record batch; details name topic, partition and offset. */
export class CorruptBatchError extends MillraceError {}
/**
 * The job ended FAILED; `cause` is the failure. Whoever waits for the job in vain gets it, and Node.js prints what nobody catches right below the
 * report that has told all of it: so it has no stack of its own, and what Node.js would print of it is short. `console.log` shows the causes.
 */
export class JobFailedError extends MillraceError {
  constructor(...[code, message, options]: ConstructorParameters<typeof MillraceError>) {
    super(code, message, options)
    this.stack = `${this.name}: ${message}`
    for (const key of ['fault', 'retriable', 'remedy', 'details'])
      Object.defineProperty(this, key, { enumerable: false })
    const cause = options?.cause
    if (cause !== undefined)
      Object.defineProperty(this, 'cause', { get: () => cause, enumerable: false, configurable: true })
  }

  [Symbol.for('nodejs.util.inspect.custom')](
    _depth: number,
    options: unknown,
    inspect: (value: unknown, options: unknown) => string,
  ): string {
    const why = this.cause === undefined ? '' : ` caused by ${inspect(this.cause, options)}`
    return `${this.stack} [${this.code}]${why}`
  }
}
/** A state machine was asked for a move that its table does not hold. */
export class IllegalTransitionError extends MillraceError {
  constructor(machine: string, state: string, event: string, checkpointId?: number) {
    super(
      'MILLRACE_ILLEGAL_TRANSITION',
      `${machine}: '${event}' is not legal in state ${state}${checkpointId === undefined ? '' : ` (checkpoint ${checkpointId})`}`,
      { details: { machine, state, event, checkpointId } },
    )
  }
}

/** The broker answered with an error code, or no broker could be reached (`brokerCode` -1). */
export class KafkaError extends MillraceError {
  /** Kafka's numeric error code; -1 when no answer was received. */
  readonly brokerCode: number
  /** Kafka's name of the error, e.g. `INVALID_PRODUCER_EPOCH`. */
  readonly brokerError: string
  /** The request, e.g. `EndTxn`. */
  readonly api: string

  constructor(
    code: ErrorCode,
    message: string,
    facts: { brokerCode: number; brokerError: string; api: string },
    options: { cause?: unknown; details?: ErrorDetails; retriable?: boolean } = {},
  ) {
    super(code, message, options)
    this.brokerCode = facts.brokerCode
    this.brokerError = facts.brokerError
    this.api = facts.api
  }
}

/** True for any Millrace error, also one made by another copy of the package. */
export function isMillraceError(error: unknown): error is MillraceError {
  return (
    typeof error === 'object' &&
    error !== null &&
    'code' in error &&
    typeof error.code === 'string' &&
    error.code.startsWith('MILLRACE_')
  )
}
