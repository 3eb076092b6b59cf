import { expect, test } from '@jest/globals'
import { OPTION_KEYS, specOf, variableOf } from '../../../src/config/option-table.ts'
import { optionsMarkdown } from '../../../src/config/options-markdown.ts'

const rows = optionsMarkdown()
  .split('\n')
  .filter((line) => line.startsWith('| `'))

test('each option has exactly one row with its default, its variables and its doc text', () => {
  expect(rows.map((row) => /^\| `([^`]+)`/.exec(row)![1]).sort()).toEqual([...OPTION_KEYS].sort())
  for (const key of OPTION_KEYS) {
    const row = rows.find((line) => line.startsWith(`| \`${key}\` `))!
    const spec = specOf(key)
    expect(row).toContain(`| ${spec.default === undefined ? '–' : `\`${spec.default}\``} |`)
    for (const name of [variableOf(key), ...(spec.env ?? [])]) expect(row).toContain(`\`${name}\``)
    expect(row).toContain(spec.doc)
  }
})

test('every row has the five cells of the table', () => {
  for (const row of rows) expect(row.split(/(?<!\\)\|/)).toHaveLength(7)
})

test('limits, accepted words, conditions and secrets are told', () => {
  const row = (key: string) => rows.find((line) => line.startsWith(`| \`${key}\` `))
  expect(row('parallelism.default')).toContain('`auto` or int 1 … 32768')
  expect(row('state.backend')).toContain('`jobmanager`, `filesystem`')
  expect(row('execution.checkpointing.timeout')).toContain('duration, ≥ 10 ms')
  expect(row('restart-strategy.fixed-delay.attempts')).toContain(
    'Only with `restart-strategy.type` = `fixed-delay`.',
  )
  expect(row('kafka.sasl.password')).toContain('Masked')
})
