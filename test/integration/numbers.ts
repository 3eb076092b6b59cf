/** Input and output of the copying job. */

/** `from` to `to` (not included), as the job reads them. */
export function numbers(from: number, to: number): string[] {
  return Array.from({ length: to - from }, (_, i) => String(from + i))
}

/** Output as numbers in order, whatever partition they lie on. */
export function sorted(values: readonly (string | null)[]): number[] {
  return values.map(Number).sort((a, b) => a - b)
}

/** What `sorted` gives when all of `from` to `to` are there once. */
export function exactly(from: number, to: number): number[] {
  return numbers(from, to).map(Number)
}
