/**
 * The state of a job and its legal moves, as in Flink's job life cycle.
 *
 *   CREATED ──▶ RUNNING ──▶ FINISHED
 *      ▲           │ ├──▶ CANCELLING ──▶ CANCELED       (SUSPENDED if the process must be gone before)
 *      │           │ └──▶ SUSPENDED
 *      │           ▼
 *      └─────── FAILING ──▶ RESTARTING ──▶ RUNNING
 *                  └──▶ FAILED
 */
import { JobStatus } from '../core/constants.ts'
import { IllegalTransitionError } from '../errors.ts'

/** Where a job may go from each state. Back to CREATED: this worker lost the job and stands by. */
export const JOB_MOVES: Readonly<Record<JobStatus, readonly JobStatus[]>> = {
  CREATED: ['RUNNING', 'FAILING', 'FINISHED', 'CANCELED', 'SUSPENDED', 'FAILED'],
  RUNNING: ['CREATED', 'FAILING', 'CANCELLING', 'CANCELED', 'FINISHED', 'SUSPENDED', 'FAILED'],
  FAILING: ['RESTARTING', 'FAILED', 'SUSPENDED', 'CANCELED'],
  RESTARTING: ['RUNNING', 'FAILING', 'CREATED', 'FINISHED', 'CANCELED', 'SUSPENDED', 'FAILED'],
  CANCELLING: ['CANCELED', 'FAILED', 'FAILING', 'CREATED', 'SUSPENDED'],
  FAILED: [],
  CANCELED: [],
  FINISHED: [],
  SUSPENDED: [],
}

export class JobState {
  #status: JobStatus = JobStatus.CREATED
  readonly #onMove: (from: JobStatus, to: JobStatus) => void

  constructor(onMove: (from: JobStatus, to: JobStatus) => void) {
    this.#onMove = onMove
  }

  get status(): JobStatus {
    return this.#status
  }

  /** Staying where it is is no move. @throws IllegalTransitionError */
  move(to: JobStatus): void {
    const from = this.#status
    if (from === to) return
    if (!JOB_MOVES[from].includes(to)) throw new IllegalTransitionError('job', from, to)
    this.#status = to
    this.#onMove(from, to)
  }

  /** True in a state that nothing leads out of. */
  get ended(): boolean {
    return JOB_MOVES[this.#status].length === 0
  }
}
