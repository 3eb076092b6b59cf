/** The text of docs/configuration.md, made from the option table. */
import type { OptionSpec } from './option-spec.ts'
import { OPTION_KEYS, type OptionKey, specOf, variableOf } from './option-table.ts'

const TITLES: Readonly<Record<string, string>> = {
  state: 'State and checkpoint storage',
  execution: 'Checkpoints',
  'restart-strategy': 'Restarts',
  parallelism: 'Parallelism',
  kafka: 'Kafka',
  schema: 'Schema registry',
  log: 'Logs',
}

/** Options that are told under the heading of another prefix. */
const SECTION_OF: Readonly<Record<string, string>> = {
  pipeline: 'parallelism',
  taskmanager: 'parallelism',
  'on-fingerprint-mismatch': 'restart-strategy',
}

const INTRODUCTION = `# Configuration

Settings come from six places; each beats those before it:

1. the defaults below,
2. the job's code, for example \`env.enableCheckpointing(1000)\`,
3. a file of Flink's that \`--conf\` names ([which keys](guide/cli.md#flinks-own-file)),
4. \`millrace.yaml\` in the working directory, or the file that \`--config\` names,
5. the environment: \`MILLRACE_\` and the key in capitals with \`_\` for dots and dashes; some options have a shared name such as \`KAFKA_BROKERS\` too, which \`MILLRACE_…\` beats,
6. flags: \`-D key=value\`.

The file may nest maps or write keys with dots, or both:

\`\`\`yaml
kafka:
  brokers: [broker-1:9092, broker-2:9092]
execution.checkpointing.interval: 1 s
\`\`\`

Durations are written \`500 ms\`, \`10 s\`, \`10 min\`, \`1 h\`, \`1 d\`; a plain number is milliseconds. Sizes are written \`100 bytes\`, \`1kb\`, \`64 mb\`, \`1 gb\`
(powers of 1024); a plain number is bytes. Lists are YAML lists, or values with commas between them. An unknown key is an error that names the nearest known one.
An empty variable counts as not set.
`

/** The whole page. Every option of the table is in it, so that a test can compare the two. */
export function optionsMarkdown(): string {
  const sections = new Map<string, OptionKey[]>()
  for (const key of OPTION_KEYS) {
    const prefix = key.split('.')[0]!
    const section = SECTION_OF[prefix] ?? prefix
    sections.set(section, [...(sections.get(section) ?? []), key])
  }
  const tables = [...sections].map(
    ([section, keys]) => `## ${TITLES[section] ?? section}\n\n${table(keys)}\n`,
  )
  return `${INTRODUCTION}\n${tables.join('\n')}`
}

function table(keys: readonly OptionKey[]): string {
  const rows = keys.map((key) => {
    const spec = specOf(key)
    const variables = [variableOf(key), ...(spec.env ?? [])].map((name) => `\`${name}\``).join('<br>')
    const cells = [
      `\`${key}\``,
      typeText(spec),
      spec.default === undefined ? '–' : `\`${spec.default}\``,
      variables,
      docText(spec),
    ]
    return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  })
  return ['| key | type | default | variable | meaning |', '|---|---|---|---|---|', ...rows].join('\n')
}

function typeText(spec: OptionSpec): string {
  switch (spec.type) {
    case 'enum':
      return spec.values.map((value) => `\`${value}\``).join(', ')
    case 'int':
    case 'number':
      return `${spec.word === undefined ? '' : `\`${spec.word}\` or `}${spec.type} ${spec.min} … ${spec.max}`
    case 'list':
      return `list of ${spec.itemText}`
    case 'duration':
    case 'size':
      return [spec.type, spec.min && `≥ ${spec.min}`, spec.max && `≤ ${spec.max}`].filter(Boolean).join(', ')
    case 'boolean':
    case 'string':
    case 'path':
    case 'url':
      return spec.type
  }
}

function docText(spec: OptionSpec): string {
  const condition =
    spec.appliesWhen === undefined
      ? ''
      : ` Only with \`${spec.appliesWhen.key}\` = \`${spec.appliesWhen.is}\`.`
  return `${spec.doc}${condition}${spec.secret === undefined ? '' : ' Masked in logs and errors.'}`
}
