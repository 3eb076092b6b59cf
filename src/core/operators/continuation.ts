/**
 * Going on after a value that may or may not be a promise. Everything stays synchronous until somebody really asks to wait.
 */

/** True for any promise-like object, also one made in another realm or by another library. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
  )
}

/** Runs `next` after `first`: at once if there is nothing to wait for. */
export function andThen(first: void | Promise<void>, next: () => void | Promise<void>): void | Promise<void> {
  return first === undefined ? next() : first.then(next)
}

/** Waits for both; undefined if neither asks to wait. Rejects with the first failure. */
export function both(a: void | Promise<void>, b: void | Promise<void>): Promise<void> | undefined {
  if (a === undefined) return b === undefined ? undefined : b
  if (b === undefined) return a
  return Promise.all([a, b]).then(nothing)
}

/** Calls `step` for 0 … count-1 in order, each one after the promise of the one before. */
export function inOrder(count: number, step: (index: number) => void | Promise<void>): void | Promise<void> {
  for (let i = 0; i < count; i++) {
    const wait = step(i)
    if (wait !== undefined) return inOrderAfter(wait, i + 1, count, step)
  }
}

async function inOrderAfter(
  first: Promise<void>,
  from: number,
  count: number,
  step: (index: number) => void | Promise<void>,
): Promise<void> {
  await first
  for (let i = from; i < count; i++) await step(i)
}

/**
 * Keeps the rejection of a promise that nobody waits for from being reported a second time: another error, which came first, is thrown
 * in its stead.
 */
export function overshadowed(wait: void | Promise<void>): void {
  if (wait !== undefined) wait.catch(nothing)
}

function nothing(): void {}
