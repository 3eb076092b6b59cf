/**
 * Named places in the checkpoint protocol where a fault test ends the process as `kill -9` would. In the order of one checkpoint:
 *
 *   before-prepare  flush, prepare  after-prepare · before-freeze  freeze  after-freeze, then the barrier goes on
 *   → snapshot stored  before-ack → before-commit-point  (one transaction)  after-commit-point
 *   → before-notify  tasks hear of it · before-end-txn  output commits  after-end-txn
 *   → before-confirm: commits are done, nobody has noted it · after-confirm: confirmed(n) is durable
 *
 * `MILLRACE_FAULT_POINT=name[:count]` picks one; with a count the process dies when it comes by for the count-th time. Without the variable
 * there is no hook at all, so that nothing is paid for it.
 */
import { ConfigError } from '../errors.ts'

/** Every place, in the order in which one checkpoint comes by. */
export const FAULT_POINTS = [
  'before-prepare',
  'after-prepare',
  'before-freeze',
  'after-freeze',
  'before-ack',
  'before-commit-point',
  'after-commit-point',
  'before-notify',
  'before-end-txn',
  'after-end-txn',
  'before-confirm',
  'after-confirm',
] as const

/** The name of a place. */
export type FaultPoint = (typeof FAULT_POINTS)[number]

/** Called at every place; does not return from the chosen one. */
export type FaultHook = (point: FaultPoint) => void

/** The variable that picks a place. It is no option: it is not read from files and flags. */
export const FAULT_POINT_VARIABLE = 'MILLRACE_FAULT_POINT'

/** The hook for `name[:count]`, undefined without one. `die` must not return. @throws ConfigError MILLRACE_INVALID_OPTION for an unknown place. */
export function faultHook(chosen: string | undefined, die: () => void): FaultHook | undefined {
  if (chosen === undefined || chosen === '') return undefined
  const [name, times = '1', ...rest] = chosen.split(':')
  let left = Number(times)
  if (!FAULT_POINTS.some((point) => point === name) || !Number.isInteger(left) || left < 1 || rest.length > 0)
    throw new ConfigError(
      'MILLRACE_INVALID_OPTION',
      `${FAULT_POINT_VARIABLE} cannot be '${chosen}': expected name[:count] with one of ${FAULT_POINTS.join(', ')}`,
    )
  return (point) => {
    if (point === name && --left === 0) die()
  }
}
