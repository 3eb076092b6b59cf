/** Finds the name that somebody probably meant. */

/** Edits (insert, remove, replace, swap of two neighbours) that turn `a` into `b`. */
export function editDistance(a: string, b: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let cost = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + (same ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, beforeLast[j - 2]! + 1)
      row.push(cost)
    }
    beforeLast = last
    last = row
  }
  return last[b.length]!
}

/** A name in the form in which two spellings of it are equal: lower case, every separator a dot. */
const plain = (name: string): string => name.toLowerCase().replaceAll(/[-_]/g, '.')

/**
 * The candidate nearest to `name`, undefined if none is near enough to be meant.
 * A candidate that ends with the whole name (its prefix was left out) counts as near; a name of another thing must not be offered.
 */
export function nearestName(name: string, candidates: Iterable<string>): string | undefined {
  const wanted = plain(name)
  if (wanted === '') return undefined
  let best: { readonly candidate: string; readonly distance: number } | undefined
  for (const candidate of candidates) {
    const known = plain(candidate)
    const distance = known.endsWith(`.${wanted}`) ? 1 : editDistance(wanted, known)
    if (best === undefined || distance < best.distance) best = { candidate, distance }
  }
  const limit = Math.min(wanted.length - 1, Math.max(1, Math.floor(wanted.length / 3)))
  return best !== undefined && best.distance <= limit ? best.candidate : undefined
}
