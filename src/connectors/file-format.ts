/**
 * What a file sink needs of a file format. `fileFormats` has those that come with Millrace; users may bring their own.
 *
 *   encoder:  (file begins) ─► add* ─► take ─► add* ─► take ─► … ─► finish (file ends)
 */

/** Turns values into the bytes of one file. Synchronous: nothing else is done to the file meanwhile. */
export interface FileEncoder<T> {
  /** Adds a value behind the others. When it throws, nothing of the value may be in the file. */
  add(value: T): void
  /** Bytes that are held back, or an estimate for values that have no bytes yet. */
  readonly size: number
  /**
   * Removes and returns the bytes that are ready; valid until the next call. Unless files are whole, all that was added must be in the bytes
   * returned so far, because a checkpoint may cut the file here.
   */
  take(): Uint8Array
  /** The last bytes of the file, those that `take` would return included. */
  finish(): Uint8Array
}

/** A file format. */
export interface FileFormat<T> {
  /** For messages and the job's graph, e.g. 'csv'. */
  readonly name: string
  /** Ends the names of files, with its dot. */
  readonly extension: string
  /** True: a file can be read only when it has its end, so no file stays open over a checkpoint. */
  readonly wholeFiles: boolean
  /** True if `compression: 'gzip'` makes sense: a reader unpacks the file, then finds the format. */
  readonly compressible: boolean
  /** Called once in each subtask before any encoder is made, e.g. to load a package. */
  open?(): void | Promise<void>
  /** For a new file. */
  createEncoder(): FileEncoder<T>
  /** Type check only. */
  readonly __type?: (value: T) => void
}
