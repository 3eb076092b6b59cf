/** What a check before the start of a job found: `millrace doctor` prints it. JSON-safe. */
import { isMillraceError } from '../errors.ts'

export interface Diagnosis {
  /** What was looked at: `brokers`, `topic orders`. */
  readonly check: string
  /** `ok`; `fix`: the job would fail or lose something; `skipped`: it could not be looked at, which is no fault. */
  readonly status: 'ok' | 'fix' | 'skipped'
  readonly message: string
  /** For `fix`: what to do. */
  readonly remedy?: string
}

export const ok = (check: string, message: string): Diagnosis => ({ check, status: 'ok', message })

export const skipped = (check: string, message: string): Diagnosis => ({ check, status: 'skipped', message })

export const fix = (check: string, message: string, remedy: string): Diagnosis => ({
  check,
  status: 'fix',
  message,
  remedy,
})

/** What an error says about the thing that was looked at. */
export function diagnosisOf(check: string, error: unknown): Diagnosis {
  const message = error instanceof Error ? error.message : String(error)
  return fix(check, message, isMillraceError(error) ? error.remedy : 'See the message.')
}
