/** Every command of `millrace`: help, suggestions and shell completion are made from this table. */
import type { CommandShape } from './arguments.ts'
import { CHECKPOINTS_SHAPE, checkpoints } from './checkpoints.ts'
import { COMPLETION_SHAPE, completion } from './completion.ts'
import { DOCTOR_SHAPE, doctor } from './doctor.ts'
import { EVENTS_SHAPE, events } from './events.ts'
import { INFO_SHAPE, info } from './info.ts'
import { type JobVerb, jobVerb, verbShape } from './job-command.ts'
import { LIST_SHAPE, list } from './list.ts'
import { RUN_OPTIONS, type RunContext, run } from './run.ts'
import { STATE_SHAPE, state } from './state.ts'
import { TRANSACTIONS_SHAPE, transactions } from './transactions.ts'

/** One command. */
export interface Command {
  /** One line for the list of commands. */
  readonly doc: string
  readonly shape: CommandShape
  run(args: readonly string[], context: RunContext): Promise<void>
}

/** A command that the running job answers. */
function verb(name: JobVerb, doc: string): Command {
  return { doc, shape: verbShape(name), run: (args, context) => jobVerb(name, args, context) }
}

/** Commands by name, in the order in which they are listed. */
export const COMMANDS: Readonly<Record<string, Command>> = {
  run: { doc: 'Run a job module.', shape: { options: RUN_OPTIONS, operand: 'file' }, run },
  doctor: {
    doc: 'Check everything that a job needs, without starting it.',
    shape: DOCTOR_SHAPE,
    run: doctor,
  },
  list: { doc: 'List jobs.', shape: LIST_SHAPE, run: list },
  info: { doc: 'Show what a job does and what it waits for.', shape: INFO_SHAPE, run: info },
  events: { doc: "Show the events of a job's life, or follow them.", shape: EVENTS_SHAPE, run: events },
  cancel: verb('cancel', 'End a job without a last checkpoint.'),
  stop: verb('stop', 'End a job with a savepoint.'),
  savepoint: verb('savepoint', 'Take a savepoint.'),
  checkpoint: verb('checkpoint', 'Take a checkpoint now.'),
  checkpoints: {
    doc: 'Show the checkpoints of a job, or remove what crashes left.',
    shape: CHECKPOINTS_SHAPE,
    run: checkpoints,
  },
  state: { doc: 'Read the state in a savepoint or checkpoint.', shape: STATE_SHAPE, run: state },
  transactions: { doc: 'Show or end transactions of jobs.', shape: TRANSACTIONS_SHAPE, run: transactions },
  completion: {
    doc: 'Print the completion of a shell: bash, zsh or fish.',
    shape: COMPLETION_SHAPE,
    run: (args, context) => completion(args, context, COMMANDS),
  },
}
