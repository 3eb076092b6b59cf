/**
 * Where a task's elements come from: a source reader, or a gate of channels. `step` handles one element and says what it was.
 */

import type { AlignmentInfo } from '../core/job-info.ts'

/** 'worked': more may follow at once. 'idle': nothing to do, wait for `wake`. 'held': the chain takes no records, wait for `wake`. */
export type StepResult = 'worked' | 'idle' | 'held'

export interface TaskInput {
  /** Before the first step. */
  start(): void | Promise<void>
  step(): StepResult | Promise<StepResult>
  /** Called between two steps when the coordinator triggers checkpoint n here (sources), or aborts it (all). */
  abortCheckpoint(n: number): void | Promise<void>
  close(): Promise<void>
  /** What keeps the watermark where it is: splits or upstream subtasks, for people. */
  watermarkHeldBackBy(): readonly string[]
  /** True while records wait here, or may, that can't be taken now. */
  waiting(): boolean
  /** False as long as no watermark can have come: then event time stands still because nobody makes any. */
  readonly hasEventTime: boolean
  /** The checkpoint that it aligns, if it does. */
  alignment(): AlignmentInfo | undefined
  /** What it waits for between two steps, for people. */
  describe(): string
}
