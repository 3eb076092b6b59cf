/** Where a job's state is kept, from its configuration. */
import { readFile } from 'node:fs/promises'
import type { Config } from '../config.ts'
import type { OptionValue } from './option-table.ts'

/** The settings of keyed state, whatever keeps it. */
export interface StateSettings {
  readonly backend: OptionValue<'state.backend'>
  readonly incremental: boolean
  readonly localRecovery: boolean
  /** Folders of this machine; empty: the system's folder for temporary files. */
  readonly localRoots: readonly string[]
  /** Of one subtask of an operator. */
  readonly cacheMaxBytes: number
}

/** How to reach Redis, and what to ask of it. */
export interface RedisSettings {
  readonly url: string
  readonly timeoutMs: number
  readonly persistence: OptionValue<'state.backend.redis.persistence'>
  readonly replicas: number
  /** PEM text of the authorities to trust. */
  readonly ca?: string
  readonly sentinelPassword?: string
}

export function stateSettings(config: Config): StateSettings {
  return {
    backend: config.get('state.backend'),
    incremental: config.get('state.backend.incremental'),
    localRecovery: config.get('state.backend.local-recovery'),
    localRoots: config.get('taskmanager.state.local.root-dirs') ?? [],
    cacheMaxBytes: config.get('state.backend.cache.max-bytes'),
  }
}

/** The folder that checkpoints go to; undefined: the job's topic. */
export function checkpointRoot(config: Config): string | undefined {
  const backend = config.get('state.backend')
  return backend === 'filesystem' || backend === 'rocksdb' ? config.get('state.checkpoints.dir') : undefined
}

/** Undefined when state is kept elsewhere. A URL is there when it is in Redis: a rule of the options. */
export async function redisSettings(config: Config): Promise<RedisSettings | undefined> {
  const url = config.get('state.backend.redis.url')
  if (config.get('state.backend') !== 'redis' || url === undefined) return undefined
  const ca = config.get('state.backend.redis.ssl.ca')
  const sentinelPassword = config.get('state.backend.redis.sentinel.password')
  return {
    url,
    timeoutMs: config.get('state.backend.redis.timeout'),
    persistence: config.get('state.backend.redis.persistence'),
    replicas: config.get('state.backend.redis.replicas'),
    ...(ca === undefined ? {} : { ca: await readFile(ca, 'utf8') }),
    ...(sentinelPassword === undefined ? {} : { sentinelPassword }),
  }
}
