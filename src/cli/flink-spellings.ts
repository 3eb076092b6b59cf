/** What Flink's command line spells in another way, so that whoever types it from memory is told how it is said here. */

/** By command: an option of Flink's, without dashes → what to do here. */
type Spellings = Readonly<Record<string, string>>

const BROKERS = 'a job is reached through Kafka: -D kafka.brokers=HOST:PORT'
const NO_CLAIM = 'a savepoint is never claimed or deleted here: leave it out'
const REMOVED = 'a savepoint is self-contained: remove its folder'

const OF_EVERY_COMMAND: Spellings = { m: BROKERS, jobmanager: BROKERS }

const PARALLELISM = 'the parallelism is set with -D parallelism.default=N'
const DETACHED = 'a job runs in the process of millrace run; start that as a service, or in the background'
const NO_CLASS = 'a job module is its own entry: leave it out'

const BY_COMMAND: Readonly<Record<string, Spellings>> = {
  run: {
    p: PARALLELISM,
    parallelism: PARALLELISM,
    d: DETACHED,
    detached: DETACHED,
    c: NO_CLASS,
    class: NO_CLASS,
    rm: NO_CLAIM,
    restoreMode: NO_CLAIM,
    claimMode: NO_CLAIM,
  },
  list: {
    a: 'all jobs are listed anyway; -r lists those that run',
    all: 'all jobs are listed anyway; -r lists those that run',
    s: 'no job is scheduled here; -r lists those that run',
  },
  savepoint: { d: REMOVED, dispose: REMOVED },
  stop: { d: 'that is --drain here' },
  cancel: { s: 'a job that is to end with a savepoint is stopped: millrace stop JOB [-p DIR]' },
}

const COMMANDS: Spellings = {
  logs: "'millrace events JOB --follow' shows what happens to a job; its log is the stderr of its process",
  'run-application': "that is 'millrace run job.ts'",
}

/** How an option of a Flink command is said here; undefined if Flink has none of that name, or it has the same one here. */
export function optionHere(command: string, option: string): string | undefined {
  const own = BY_COMMAND[command]
  if (own !== undefined && Object.hasOwn(own, option)) return own[option]
  return Object.hasOwn(OF_EVERY_COMMAND, option) ? OF_EVERY_COMMAND[option] : undefined
}

/** The same for a command. */
export function commandHere(command: string): string | undefined {
  return Object.hasOwn(COMMANDS, command) ? COMMANDS[command] : undefined
}
