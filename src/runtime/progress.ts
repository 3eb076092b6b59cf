/**
 * Tells how a running job gets on: a status line that is drawn once a second on a terminal, a log line twice a minute elsewhere.
 */
import type { Clock, Logger, TimerHandle, Timers } from '../core/ports.ts'
import type { StatusLine } from './status-line.ts'

/** What is known of the job at one moment. */
export interface ProgressSnapshot {
  /** State of the job, e.g. RUNNING, RESTARTING. */
  readonly state: string
  /** Records that the sources have read since the start. */
  readonly recordsIn: number
  /** Records not read yet over all splits; undefined while unknown, or when the source has no end to measure from. */
  readonly lag: bigint | undefined
  /** The latest completed checkpoint. */
  readonly checkpoint: { readonly id: number; readonly completedAt: number } | undefined
}

/** How progress is shown. */
export interface ProgressOptions {
  readonly read: () => ProgressSnapshot
  readonly screen: StatusLine
  readonly logger: Logger
  readonly clock: Clock
  readonly timers: Timers
  /** Time between drawings of the status line; 1 s unless told. */
  readonly redrawMs?: number
  /** Time between log lines where there is no terminal; 30 s unless told. */
  readonly logMs?: number
}

const REDRAW_MS = 1_000
const LOG_MS = 30_000

/** Begins to show progress; `stop` takes the status line away. Its timer does not keep the process alive. */
export function showProgress(options: ProgressOptions): { stop(): void } {
  const { read, screen, logger, clock, timers } = options
  const period = screen.isTTY ? (options.redrawMs ?? REDRAW_MS) : (options.logMs ?? LOG_MS)
  let last = { at: clock.now(), recordsIn: read().recordsIn }
  let timer: TimerHandle
  const tick = (): void => {
    const snapshot = read()
    const now = clock.now()
    // A restarted attempt counts from zero again; its records are all new.
    const records =
      snapshot.recordsIn >= last.recordsIn ? snapshot.recordsIn - last.recordsIn : snapshot.recordsIn
    const rate = now > last.at ? (records * 1_000) / (now - last.at) : 0
    last = { at: now, recordsIn: snapshot.recordsIn }
    if (screen.isTTY) screen.show(progressText(snapshot, rate, now))
    else logger.info(progressText(snapshot, rate, now))
    timer = timers.schedule(period, tick, true)
  }
  timer = timers.schedule(period, tick, true)
  return {
    stop() {
      timer.cancel()
      screen.show('')
    },
  }
}

/** One line: `RUNNING  12,300 records/s  lag 4,500  checkpoint 12, 3 s ago`. */
export function progressText(snapshot: ProgressSnapshot, recordsPerSecond: number, now: number): string {
  const { state, lag, checkpoint } = snapshot
  const parts = [state, `${grouped(Math.round(recordsPerSecond))} records/s`]
  if (lag !== undefined) parts.push(`lag ${grouped(lag)}`)
  parts.push(
    checkpoint === undefined
      ? 'no checkpoint yet'
      : `checkpoint ${checkpoint.id}, ${age(now - checkpoint.completedAt)} ago`,
  )
  return parts.join('  ')
}

const NUMBER = new Intl.NumberFormat('en-US')
const grouped = (value: number | bigint): string => NUMBER.format(value)

const MINUTE_S = 60
const HOUR_S = 60 * MINUTE_S

function age(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1_000))
  if (seconds < 2 * MINUTE_S) return `${seconds} s`
  return seconds < 2 * HOUR_S ? `${Math.floor(seconds / MINUTE_S)} min` : `${Math.floor(seconds / HOUR_S)} h`
}
