/** What a job logs while a test drives it. */
import type { Clock, LogFields, Logger } from '../core/ports.ts'

/** A line of the log. */
export interface LogLine {
  /** Epoch ms of the test's clock. */
  readonly at: number
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly message: string
  readonly fields: LogFields
}

/** A logger that adds its lines to `lines`. */
export function recordingLogger(lines: LogLine[], clock: Clock, own: LogFields = {}): Logger {
  const log =
    (level: LogLine['level']) =>
    (message: string, fields: LogFields = {}): void => {
      lines.push({ at: clock.now(), level, message, fields: { ...own, ...fields } })
    }
  return {
    debug: log('debug'),
    info: log('info'),
    warn: log('warn'),
    error: log('error'),
    child: (fields) => recordingLogger(lines, clock, { ...own, ...fields }),
  }
}
