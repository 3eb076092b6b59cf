/**
 * Which completed checkpoints are still needed. Older ones go only after a newer one is complete *and* confirmed (protocol §3.8). A savepoint
 * takes no checkpoint's place among the retained: its owner may move it, and incremental checkpoints build on the last one that is none. It is
 * forgotten as soon as a newer checkpoint is confirmed; its files stay.
 */
export class RetainedCheckpoints {
  readonly #numRetained: number
  readonly #savepoints: Set<number>
  /** Oldest first. */
  #retained: number[]

  constructor(numRetained: number, retained: readonly number[], savepoints: Iterable<number> = []) {
    this.#numRetained = numRetained
    this.#retained = [...retained]
    this.#savepoints = new Set(savepoints)
  }

  /** Checkpoint n, newer than all, is complete. */
  add(n: number, kind: 'checkpoint' | 'savepoint' | 'final'): void {
    this.#retained.push(n)
    if (kind === 'savepoint') this.#savepoints.add(n)
  }

  has(n: number): boolean {
    return this.#retained.includes(n)
  }

  /** Takes out what nobody needs any more, now that the output of all checkpoints up to `confirmed` is durable. */
  takeUnneeded(confirmed: number): number[] {
    const own = this.#retained.filter((n) => !this.#savepoints.has(n))
    const newest = own.filter((n) => n <= confirmed).at(-1) ?? -1
    const surplus = new Set(own.slice(0, Math.max(0, own.length - this.#numRetained)))
    const unneeded = this.#retained.filter((n) => n < newest && (surplus.has(n) || this.#savepoints.has(n)))
    this.#retained = this.#retained.filter((n) => !unneeded.includes(n))
    for (const n of unneeded) this.#savepoints.delete(n)
    return unneeded
  }
}
