/**
 * A source of one's own: the rows of a SQLite table in the order of a column that only grows. docs/guide/own-connector.md goes through it.
 *
 * It has one split, the table, whose position is the last id that was read. The position is in each checkpoint, so a job that is started
 * again reads on from there: that is all that exactly once asks of a source.
 */
import { DatabaseSync } from 'node:sqlite'
import {
  type RecordVector,
  recordVector,
  type Source,
  type SourceReader,
  type SourceReaderContext,
  type SourceSplit,
  type SplitRecords,
} from 'millrace'

/** JSON: it is stored in checkpoints as it is. */
export interface TableSplit extends SourceSplit {
  /** Id of the last row that was read. */
  readonly after: number
  /** Id of the last row to read; the source is bounded. */
  readonly last: number
}

export interface SqliteSourceOptions {
  readonly file: string
  readonly table: string
  /** A whole-number column that only grows; 0 lies before its first value. */
  readonly id: string
}

/** The rows that a table has at the first start, in the order of `id`. */
export function sqliteSource<T>(options: SqliteSourceOptions): Source<T, TableSplit> {
  const { file, table, id } = options
  return {
    kind: 'sqlite',
    bounded: true,
    describe: () => ({ file, table }),
    createEnumerator: () => ({
      // Restored splits are kept as they are: where the table ended at the first start is not asked again.
      start: async (restored) => restored ?? [{ id: table, after: 0, last: lastId(options) }],
      close: async () => undefined,
    }),
    createReader: (context) => new TableReader<T>(options, id, context),
  }
}

class TableReader<T> implements SourceReader<T, TableSplit> {
  readonly #context: SourceReaderContext
  readonly #id: string
  readonly #database: DatabaseSync
  readonly #rows: ReturnType<DatabaseSync['prepare']>
  readonly #splits = new Map<string, TableSplit>()

  constructor({ file, table }: SqliteSourceOptions, id: string, context: SourceReaderContext) {
    this.#context = context
    this.#id = id
    this.#database = new DatabaseSync(file, { readOnly: true })
    this.#rows = this.#database.prepare(
      `SELECT * FROM "${table}" WHERE "${id}" > ? AND "${id}" <= ? ORDER BY "${id}" LIMIT ?`,
    )
  }

  start(): void {}

  addSplits(splits: readonly TableSplit[]): void {
    for (const split of splits) this.#splits.set(split.id, split)
  }

  /** After it returns, the split's position lies just past the rows that it returned. */
  poll(): SplitRecords<T> | undefined {
    for (const split of this.#splits.values()) {
      if (split.after >= split.last) continue
      const rows = this.#rows.all(split.after, split.last, this.#context.vectorSize)
      const after = rows.length === 0 ? split.last : Number(rows.at(-1)?.[this.#id])
      this.#splits.set(split.id, { ...split, after })
      if (rows.length === 0) continue
      this.#context.recordsIn.inc(rows.length)
      return { splitId: split.id, vector: withoutTimes(rows.map((row) => ({ ...row }) as T)) }
    }
    return undefined
  }

  /** Rows are at hand at all times. */
  async available(): Promise<void> {}

  /** Also true for a subtask that has no split. */
  isFinished(): boolean {
    return [...this.#splits.values()].every(({ after, last }) => after >= last)
  }

  snapshot(): readonly TableSplit[] {
    return [...this.#splits.values()]
  }

  async close(): Promise<void> {
    this.#database.close()
  }
}

/** NaN: no event time. */
function withoutTimes<T>(values: readonly T[]): RecordVector<T> {
  return recordVector(
    values,
    values.map(() => Number.NaN),
  )
}

function lastId({ file, table, id }: SqliteSourceOptions): number {
  const database = new DatabaseSync(file, { readOnly: true })
  try {
    return Number(
      database.prepare(`SELECT coalesce(max("${id}"), 0) AS last FROM "${table}"`).get()?.['last'],
    )
  } finally {
    database.close()
  }
}
