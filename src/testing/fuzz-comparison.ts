/** Comparing a backend with its model in a fuzz. */

/** Compares what a backend and its model say; an array element by element. @throws Error showing the first differences */
export function expectEqual(actual: unknown, expected: unknown, what: string): void {
  const a = linesOf(actual)
  const b = linesOf(expected)
  const different = Array.from({ length: Math.max(a.length, b.length) }, (_, i) => i).filter(
    (i) => a[i] !== b[i],
  )
  if (different.length === 0) return
  const lines = different.slice(0, 3).map((i) => `\n  backend: ${a[i]}\n  model:   ${b[i]}`)
  throw new Error(`${what} differ in ${different.length} places:${lines.join('')}`)
}

function linesOf(value: unknown): (string | undefined)[] {
  return (Array.isArray(value) ? value : [value]).map((item) => JSON.stringify(item, plain))
}

function plain(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return `${value}n`
  return ArrayBuffer.isView(value) ? `bytes ${String(value)}` : value
}
