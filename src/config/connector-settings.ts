/** What connectors take from a job's configuration: the same for a job that runs and for one that is only looked at. */
import type { Config } from '../config.ts'
import type { SerdeContext } from '../core/connector.ts'
import type { JobSettings } from '../core/job-settings.ts'

export interface ConnectorSettings {
  readonly fetchMaxBytes: number
  readonly fetchMaxWaitMs: number
  readonly serdes: SerdeContext
  /** What a sink promises that says nothing itself. */
  readonly exactlyOnceByDefault: boolean
}

export function connectorSettings(config: Config, { checkpointing }: JobSettings): ConnectorSettings {
  return {
    fetchMaxBytes: config.get('kafka.fetch.max-bytes'),
    fetchMaxWaitMs: config.get('kafka.fetch.max-wait'),
    serdes: { schemaRegistryUrl: config.get('schema.registry.url') },
    exactlyOnceByDefault: checkpointing.intervalMs !== undefined && checkpointing.mode === 'EXACTLY_ONCE',
  }
}
