/** The last section of docs/configuration.md: which test shows what each option does. */
import { OPTION_KEYS } from '../../src/config/option-table.ts'
import type { Effect } from '../../test/effects.ts'

/** The heading that begins the section. */
export const EFFECTS_HEADING = '## How each setting is tested'

/** One row an option, in the order of the option table. */
export function effectsMarkdown(effects: Readonly<Record<string, Effect>>): string {
  const rows = OPTION_KEYS.map((key) => {
    const { code, tests, withoutJob } = effects[key] ?? { tests: [] }
    const shown = tests.flatMap(({ file, titles }) =>
      titles.map((title) => `[${escaped(title)}](../${file})`),
    )
    return `| \`${key}\` | ${code === undefined ? '–' : `\`${code}\``} | ${shown.join('<br>')}${withoutJob === true ? ' ¹' : ''} |`
  })
  return `${EFFECTS_HEADING}

What sets an option in a job's code, and the tests that show its effect on a running job (\`%s\` and \`%i\` stand for the cases of a test). Types,
ranges, and what does not go together are checked before a job starts. ¹ Shown on the client of a connection, without a job.

| key | in code | tests |
|---|---|---|
${rows.join('\n')}
`
}

function escaped(text: string): string {
  return text.replaceAll(/[|[\]<>*_`]/g, '\\$&')
}
