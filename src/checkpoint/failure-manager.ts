/**
 * Counts checkpoint failures in a row and says when they fail the job (Flink's CheckpointFailureManager).
 * Time-outs and declines count; a completed checkpoint resets the count; subsumed ones do not count.
 */
export type CheckpointFailureReason = 'timeout' | 'declined' | 'refused' | 'subsumed' | 'cancelled'

export class CheckpointFailureManager {
  readonly #tolerable: number
  #inRow = 0

  /** `tolerable`: failures in a row that are forgiven; Infinity = all of them. */
  constructor(tolerable: number) {
    this.#tolerable = tolerable
  }

  get failuresInRow(): number {
    return this.#inRow
  }

  completed(): void {
    this.#inRow = 0
  }

  /** Returns true when the job must fail. */
  failed(reason: CheckpointFailureReason): boolean {
    if (reason === 'subsumed' || reason === 'cancelled') return false
    this.#inRow++
    return this.#inRow > this.#tolerable
  }
}
