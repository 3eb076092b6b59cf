/**
 * The table of docs/reliability.md: what a run tried, how often, and what came of it. Made from the lines that the suites wrote
 * (test/reliability-log.ts), between two marks of the page; everything else on the page is written by hand.
 */
import { existsSync, readFileSync } from 'node:fs'
import type { ReliabilityEntry } from '../../test/reliability-log.ts'

/** Where the page lies, relative to the repository. */
export const RELIABILITY_PAGE = 'docs/reliability.md'

const BEGIN = '<!-- The table is written by `scripts/test --write-reliability`. -->'
const END = '<!-- End of the table. -->'
const HEAD = '| suite | fault | where | times | records | outcome |\n|---|---|---|---:|---:|---|'
/** Written where a cell would be split by it. */
const BAR = '\\|'

/** What the suites wrote into the file; none if no suite wrote anything. */
export function readEntries(file: string): ReliabilityEntry[] {
  if (!existsSync(file)) return []
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as ReliabilityEntry)
}

/** One row for each suite, fault and place: counts and records are added up, and one wrong outcome makes the row wrong. Sorted. */
export function rowsOf(entries: readonly ReliabilityEntry[]): ReliabilityEntry[] {
  const rows = new Map<string, ReliabilityEntry>()
  for (const entry of entries) {
    const key = JSON.stringify([entry.suite, entry.fault, entry.where])
    const before = rows.get(key)
    rows.set(
      key,
      before === undefined
        ? entry
        : {
            ...entry,
            count: before.count + entry.count,
            records: before.records + entry.records,
            outcome: before.outcome === 'exact' ? entry.outcome : before.outcome,
          },
    )
  }
  return [...rows.values()].sort(
    (a, b) =>
      a.suite.localeCompare(b.suite) || a.fault.localeCompare(b.fault) || a.where.localeCompare(b.where),
  )
}

/** The rows as a table. */
export function tableOf(rows: readonly ReliabilityEntry[]): string {
  const lines = rows.map(({ suite, fault, where, count, records, outcome }) => {
    const cells = [
      suite,
      fault,
      where,
      count.toLocaleString('en'),
      records.toLocaleString('en'),
      outcome,
    ] as const
    return `| ${cells.map((cell) => cell.replaceAll('|', BAR)).join(' | ')} |`
  })
  return [HEAD, ...lines].join('\n')
}

/** The rows that a page holds. @throws Error when its marks are gone. */
export function rowsOfPage(page: string): ReliabilityEntry[] {
  const { table } = partsOf(page)
  return table.split('\n').flatMap((line) => {
    const cells = line.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll(BAR, '|'))
    const [, suite, fault, where, count, records, outcome] = cells
    if (outcome === undefined || suite === undefined || fault === undefined || where === undefined) return []
    const times = numberOf(count)
    // The head and the line below it hold no numbers.
    return Number.isNaN(times)
      ? []
      : [{ suite, fault, where, count: times, records: numberOf(records), outcome }]
  })
}

/** The page with the rows of this run; suites that did not run keep theirs. */
export function updatedPage(page: string, entries: readonly ReliabilityEntry[]): string {
  const suites = new Set(entries.map(({ suite }) => suite))
  const kept = rowsOfPage(page).filter(({ suite }) => !suites.has(suite))
  const { before, after } = partsOf(page)
  return `${before}${BEGIN}\n\n${tableOf(rowsOf([...kept, ...entries]))}\n\n${END}${after}`
}

function partsOf(page: string): { readonly before: string; readonly table: string; readonly after: string } {
  const begin = page.indexOf(BEGIN)
  const end = page.indexOf(END)
  if (begin < 0 || end < begin)
    throw new Error(`${RELIABILITY_PAGE} has lost the marks around its table: ${BEGIN} and ${END}`)
  return {
    before: page.slice(0, begin),
    table: page.slice(begin + BEGIN.length, end),
    after: page.slice(end + END.length),
  }
}

function numberOf(text: string | undefined): number {
  return text === undefined || !/^[\d,]+$/.test(text) ? Number.NaN : Number(text.replaceAll(',', ''))
}
