/** Pages of docs/ that are made from tables in src, so that they cannot fall behind. */
import { join } from 'node:path'
import { optionsMarkdown } from '../../src/config/options-markdown.ts'
import { ERROR_CODES } from '../../src/errors.ts'
import { EFFECTS } from '../../test/effects.ts'
import { effectsMarkdown } from './effects-markdown.ts'

/** The repository's root folder. */
export const ROOT = join(import.meta.dirname, '..', '..')

/** A page: where it lies, and what it must say. */
export interface ReferencePage {
  readonly path: string
  readonly text: string
}

/** One row of an error table. */
export interface ErrorEntry {
  readonly fault: string
  readonly retriable: boolean
  readonly remedy: string
}

const NOTICE = (source: string) => `<!-- Made from ${source} by \`npm run docs\`. Change it there. -->`

/** The page of error codes, sorted as in the table. */
export function errorsPage(codes: Readonly<Record<string, ErrorEntry>>): string {
  const faults: Readonly<Record<string, string>> = {
    user: "the job's code or settings",
    external: 'something that the job depends on',
    internal: 'Millrace itself',
  }
  const sections = Object.entries(codes).map(
    ([code, entry]) =>
      `## ${code}\n\nCause: ${faults[entry.fault] ?? entry.fault}. ` +
      `${entry.retriable ? 'Trying again may help' : 'Trying again does not help'}.\n\n${entry.remedy}\n`,
  )
  return `${NOTICE('src/errors.ts')}
# Errors

Every error that Millrace raises on purpose is a \`MillraceError\` with one of these codes in \`code\`. \`fault\` says whose fault it is
(\`user\`, \`external\` or \`internal\`), \`retriable\` whether the same action may succeed later, \`remedy\` what to do, \`details\` holds
facts for programs, and \`cause\` the error beneath. A code is never renamed or given another meaning.

${sections.join('\n')}`
}

/** All pages, as they must be now. */
export function referencePages(): ReferencePage[] {
  return [
    { path: 'docs/errors.md', text: errorsPage(ERROR_CODES) },
    {
      path: 'docs/configuration.md',
      text: `${NOTICE('src/config/option-table.ts and test/effects.ts')}\n${optionsMarkdown()}\n${effectsMarkdown(EFFECTS)}`,
    },
  ]
}
