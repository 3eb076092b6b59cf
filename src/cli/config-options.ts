/** Options of every command that reads configuration. */
import type { ArgumentSpec } from './arguments.ts'

export const CONFIG_FILE_OPTIONS = {
  config: { value: 'FILE', doc: 'Read this file instead of millrace.yaml in the working directory.' },
  conf: {
    value: 'FILE',
    doc: "Also read Flink's flink-conf.yaml or config.yaml; weaker than millrace.yaml.",
  },
} as const satisfies Record<string, ArgumentSpec>
