/**
 * Named places in the checkpoint protocol where a fault test ends the process as `kill -9` would, or stops it. In the order of one checkpoint:
 *
 *   before-prepare  flush, prepare  after-prepare · before-freeze  freeze  after-freeze, then the barrier goes on
 *   → snapshot stored  before-ack  acknowledged  after-ack → before-commit-point  (one transaction)  after-commit-point
 *   → before-notify  tasks hear of it  after-notify · before-end-txn  output commits  after-end-txn
 *   → before-confirm: commits are done, nobody has noted it · after-confirm: confirmed(n) is durable
 *
 * And while lost output is written again, once for each piece: before-heal-end-txn · after-heal-end-txn (protocol §5.6).
 *
 * `MILLRACE_FAULT_POINT=name[:count[:stop|terminate]]` picks one; with a count the process dies when it comes by for the count-th time. With
 * `stop` it is stopped there as by SIGSTOP, and goes on from there when somebody continues it; with `terminate` it is asked to stop, as by
 * SIGTERM. Without the variable there is no hook at all, so that nothing is paid for it.
 */
import { ConfigError } from '../errors.ts'

/** Every place of a checkpoint, in the order in which it comes by. */
export const FAULT_POINTS = [
  'before-prepare',
  'after-prepare',
  'before-freeze',
  'after-freeze',
  'before-ack',
  'after-ack',
  'before-commit-point',
  'after-commit-point',
  'before-notify',
  'after-notify',
  'before-end-txn',
  'after-end-txn',
  'before-confirm',
  'after-confirm',
] as const

/** Places in healing, which no checkpoint comes by. */
export const HEALING_FAULT_POINTS = ['before-heal-end-txn', 'after-heal-end-txn'] as const

/** The name of a place. */
export type FaultPoint = (typeof FAULT_POINTS)[number] | (typeof HEALING_FAULT_POINTS)[number]

/** What the process is sent, by the word that asks for it. */
const SIGNALS = { kill: 'SIGKILL', stop: 'SIGSTOP', terminate: 'SIGTERM' } as const

/** A signal that a place may send. */
export type FaultSignal = (typeof SIGNALS)[keyof typeof SIGNALS]

/** Called at every place; at the chosen one the process dies, is stopped or is asked to stop. */
export type FaultHook = (point: FaultPoint) => void

/** The variable that picks a place. It is no option: it is not read from files and flags. */
export const FAULT_POINT_VARIABLE = 'MILLRACE_FAULT_POINT'

/**
 * The hook for `name[:count[:stop|terminate]]`, undefined without one. `send` gives this process the signal, at once.
 * @throws ConfigError MILLRACE_INVALID_OPTION for an unknown place.
 */
export function faultHook(
  chosen: string | undefined,
  send: (signal: FaultSignal) => void,
): FaultHook | undefined {
  if (chosen === undefined || chosen === '') return undefined
  const [name, times = '1', action = 'kill', ...rest] = chosen.split(':')
  const places = [...FAULT_POINTS, ...HEALING_FAULT_POINTS]
  const signal = Object.hasOwn(SIGNALS, action) ? SIGNALS[action as keyof typeof SIGNALS] : undefined
  let left = Number(times)
  const isKnown = places.some((point) => point === name) && rest.length === 0
  if (!isKnown || signal === undefined || !Number.isInteger(left) || left < 1)
    throw new ConfigError(
      'MILLRACE_INVALID_OPTION',
      `${FAULT_POINT_VARIABLE} cannot be '${chosen}': expected name[:count[:stop|terminate]] with one of ${places.join(', ')}`,
    )
  return (point) => {
    if (point === name && --left === 0) send(signal)
  }
}
