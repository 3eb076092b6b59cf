/**
 * Forbids the real world while a simulation runs: real timers, clock and chance are no function of the seed.
 */
interface Replaced {
  readonly owner: Record<string, unknown>
  readonly name: string
  readonly original: unknown
}

/** Real timers, clocks and chance throw between `install` and the call of what it returns. `onUse` hears of each use, also when somebody catches the error. */
export function forbidRealWorld(onUse: (what: string) => void): () => void {
  const replaced: Replaced[] = []
  const forbid = (owner: object, ownerName: string, name: string): void => {
    const target = owner as Record<string, unknown>
    replaced.push({ owner: target, name, original: target[name] })
    target[name] = (): never => {
      const what = `${ownerName}${name}`
      const { stack } = new Error(what)
      onUse(`${what} was used${stack?.split('\n')[2]?.replace(/^ +/, ' ') ?? ''}`)
      throw new Error(`${what} is no part of a simulation`)
    }
  }
  for (const name of ['setTimeout', 'setInterval']) forbid(globalThis, '', name)
  forbid(Date, 'Date.', 'now')
  forbid(Math, 'Math.', 'random')
  return () => {
    for (const { owner, name, original } of replaced) owner[name] = original
  }
}

/** Sockets, files and threads that the process holds open. Real timers are forbidden, so those that count here are the test runner's. */
export function resources(): Map<string, number> {
  const counts = new Map<string, number>()
  for (const kind of process.getActiveResourcesInfo())
    if (kind !== 'Immediate' && kind !== 'Timeout') counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return counts
}
