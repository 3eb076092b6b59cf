/**
 * A sink of one's own that is exactly once: rows of a SQLite table, by node:sqlite. docs/guide/own-connector.md goes through it.
 *
 *   write ─► rows in memory ──barrier n──► batch, staged in a table of the sink (durable) ──commit n──► rows in the table; the batch is gone
 *
 * Staging a batch and moving it are transactions of SQLite. That a batch was moved is noted in the same transaction that moves it, so a
 * commit that is repeated after a crash does nothing. A database with prepared transactions of its own would keep them in place of the
 * staged rows; most sinks have no such thing and stage, as this one does.
 */
import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import {
  type CommitPermit,
  type Committer,
  type CommitterContext,
  type RecordVector,
  type SinkWriterContext,
  StateLostError,
  type TwoPhaseCommittingSink,
  type TwoPhaseSinkWriter,
} from 'millrace'

/** What a checkpoint holds: JSON, and enough to commit from another process. */
export interface StagedBatch {
  readonly file: string
  readonly table: string
  readonly batch: string
  readonly rows: number
  /** The checkpoint that it was prepared for. */
  readonly n: number
}

export interface SqliteSinkOptions<T> {
  /** Path of the database file, on a disk that all workers see. */
  readonly file: string
  /** It must exist, with the columns that `row` names. */
  readonly table: string
  /** Values of a row by column; every row must have the same columns. */
  readonly row: (value: T) => Readonly<Record<string, SQLInputValue>>
}

/** Milliseconds that a statement waits for another process. */
const BUSY_MS = 10_000

/** Rows of a SQLite table, exactly once. */
export function sqliteSink<T>(options: SqliteSinkOptions<T>): TwoPhaseCommittingSink<T, StagedBatch> {
  const { file, table } = options
  return {
    kind: 'sqlite',
    twoPhase: true,
    // Part of the job's fingerprint: another table is another job.
    describe: () => ({ file, table }),
    createWriter: (context) => new SqliteWriter(options, context),
    createCommitter: (context) => new SqliteCommitter(context),
  }
}

class SqliteWriter<T> implements TwoPhaseSinkWriter<T, StagedBatch> {
  readonly #options: SqliteSinkOptions<T>
  readonly #context: SinkWriterContext
  #database: DatabaseSync | undefined
  #rows: string[] = []
  /** Staged and undecided. */
  #staged: StagedBatch[] = []

  constructor(options: SqliteSinkOptions<T>, context: SinkWriterContext) {
    this.#options = options
    this.#context = context
  }

  /** What earlier attempts staged for checkpoints that never completed is read and staged again. Those that did complete are committed by now. */
  open(): void {
    const { attempt, subtaskIndex, parallelism } = this.#context.info
    this.#database = openDatabase(this.#options.file)
    // A subtask of an earlier attempt is looked after by exactly one of this one, at any parallelism. Later attempts are not touched.
    this.#database
      .prepare('DELETE FROM millrace_staged WHERE sink = ? AND attempt < ? AND subtask % ? = ?')
      .run(sinkOf(this.#context.info), attempt, parallelism, subtaskIndex)
  }

  write({ values }: RecordVector<T>): void {
    for (const value of values) this.#rows.push(JSON.stringify(this.#options.row(value)))
    this.#context.recordsOut.inc(values.length)
  }

  /** Nothing is outside before the barrier: `prepareCommit` writes it. */
  flush(): void {}

  prepareCommit(n: number): readonly StagedBatch[] {
    if (this.#rows.length > 0) {
      const { file, table } = this.#options
      const { info, world } = this.#context
      const batch = world.random.uuid()
      const rows = this.#rows
      inTransaction(this.#database as DatabaseSync, (database) => {
        const insert = database.prepare('INSERT INTO millrace_staged VALUES (?, ?, ?, ?, ?)')
        for (const row of rows) insert.run(sinkOf(info), info.attempt, info.subtaskIndex, batch, row)
      })
      this.#staged.push({ file, table, batch, rows: rows.length, n })
      this.#rows = []
    }
    // Those of aborted checkpoints as well: what they hold is not read again.
    return [...this.#staged]
  }

  notifyCheckpointComplete(n: number): void {
    this.#staged = this.#staged.filter((batch) => batch.n > n)
  }

  close(): void {
    this.#database?.close()
    this.#database = undefined
  }
}

class SqliteCommitter implements Committer<StagedBatch> {
  readonly #context: CommitterContext
  readonly #databases = new Map<string, DatabaseSync>()

  constructor(context: CommitterContext) {
    this.#context = context
  }

  /** Runs as each checkpoint completes, and again in the next process for what that cannot know to be done. */
  async commit(permit: CommitPermit, batches: readonly StagedBatch[]): Promise<void> {
    for (const batch of batches) if (batch.n > permit.confirmed) this.#move(batch)
  }

  async close(): Promise<void> {
    for (const database of this.#databases.values()) database.close()
    this.#databases.clear()
  }

  #move({ file, table, batch, rows, n }: StagedBatch): void {
    const known = this.#databases.get(file) ?? openDatabase(file)
    this.#databases.set(file, known)
    inTransaction(known, (database) => {
      const done = database.prepare('SELECT 1 FROM millrace_committed WHERE batch = ?').get(batch)
      if (done !== undefined) return
      const staged = database
        .prepare('SELECT row FROM millrace_staged WHERE batch = ? ORDER BY rowid')
        .all(batch)
      if (staged.length !== rows)
        throw new StateLostError(
          'MILLRACE_STATE_LOST',
          `'${file}' holds ${staged.length} of the ${rows} rows that checkpoint ${n} of job '${this.#context.jobName}' staged for table ${table}`,
        )
      for (const { row } of staged) {
        const columns = Object.entries(JSON.parse(row as string) as Record<string, SQLInputValue>)
        const names = columns.map(([name]) => quoted(name)).join(', ')
        const places = columns.map(() => '?').join(', ')
        database
          .prepare(`INSERT INTO ${quoted(table)} (${names}) VALUES (${places})`)
          .run(...columns.map(([, value]) => value))
      }
      database.prepare('DELETE FROM millrace_staged WHERE batch = ?').run(batch)
      // Kept for ever: a few bytes a checkpoint, and a commit may be repeated after any time.
      database.prepare('INSERT INTO millrace_committed VALUES (?)').run(batch)
    })
  }
}

/** The database with the sink's own tables. */
function openDatabase(file: string): DatabaseSync {
  mkdirSync(dirname(file), { recursive: true })
  const database = new DatabaseSync(file, { timeout: BUSY_MS })
  // What is prepared must survive the machine: FULL syncs each transaction.
  database.exec(`
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS millrace_staged (sink TEXT, attempt INTEGER, subtask INTEGER, batch TEXT, row TEXT);
    CREATE INDEX IF NOT EXISTS millrace_staged_batch ON millrace_staged (batch);
    CREATE TABLE IF NOT EXISTS millrace_committed (batch TEXT PRIMARY KEY) WITHOUT ROWID;
  `)
  return database
}

/** IMMEDIATE: a transaction that reads first and then finds another writer could not wait for it. */
function inTransaction(database: DatabaseSync, work: (database: DatabaseSync) => void): void {
  database.exec('BEGIN IMMEDIATE')
  try {
    work(database)
    database.exec('COMMIT')
  } catch (error) {
    database.exec('ROLLBACK')
    throw error
  }
}

/** Whose rows are staged: two jobs, or two sinks of one job, may share a database. */
function sinkOf({ jobName, uid }: { readonly jobName: string; readonly uid: string }): string {
  return JSON.stringify([jobName, uid])
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
