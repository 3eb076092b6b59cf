/** Which keyed state backend a job gets, by `state.backend` and what belongs to it. */
import type { SubtaskInfo } from '../core/connector.ts'
import type { World } from '../core/ports.ts'
import type { KeyedStateBackend, KeyGroupRange } from '../core/state.ts'
import { MillraceError } from '../errors.ts'
import { CachedKeyedStateBackend } from './cached-backend.ts'
import type { OpenColdStore } from './cold-store.ts'
import { HeapKeyedStateBackend } from './heap-backend.ts'
import { rocksdbState } from './rocksdb-state.ts'

/** Whose keyed state. */
export interface KeyedBackendOptions {
  readonly run: string
  readonly range: KeyGroupRange
  readonly maxParallelism: number
  readonly info: SubtaskInfo
}

/** The job's settings of keyed state. */
export interface KeyedBackendSettings {
  readonly backend: 'jobmanager' | 'filesystem' | 'rocksdb' | 'redis'
  readonly incremental: boolean
  readonly localRecovery: boolean
  readonly localRoots: readonly string[]
  /** Of one subtask of an operator. */
  readonly cacheMaxBytes: number
  readonly world: World
  /** A store on this machine in place of RocksDB. */
  readonly local?: { storeOf(info: SubtaskInfo): OpenColdStore } | undefined
  /** The job's state in Redis; with `redis` only. */
  readonly redis?: { storeOf(subtask: RedisSubtask): OpenColdStore } | undefined
}

/** What tells one store in Redis from the next. */
interface RedisSubtask {
  readonly run: string
  readonly attempt: number
  readonly operator: string
  readonly range: KeyGroupRange
}

/** Makes the keyed state of one operator subtask. */
export function keyedBackends(
  settings: KeyedBackendSettings,
): (options: KeyedBackendOptions) => KeyedStateBackend {
  const { backend, incremental, localRecovery, cacheMaxBytes, world } = settings
  return (options) => {
    const { range, maxParallelism, info } = options
    const common = { range, maxParallelism, operatorName: info.operatorName, clock: world.clock }
    const cached = {
      ...common,
      logger: world.logger,
      metrics: world.metrics.group({ operator: info.operatorName, subtask: String(info.subtaskIndex) }),
    }
    switch (backend) {
      case 'jobmanager':
        return new HeapKeyedStateBackend(common)
      case 'filesystem':
        if (!incremental) return new HeapKeyedStateBackend(common)
        return new CachedKeyedStateBackend({
          ...cached,
          durableAs: undefined,
          localCopy: false,
          incremental: true,
          cacheMaxBytes: Number.POSITIVE_INFINITY,
          openStore: undefined,
        })
      case 'rocksdb':
        return new CachedKeyedStateBackend({
          ...cached,
          durableAs: undefined,
          localCopy: localRecovery,
          incremental,
          cacheMaxBytes,
          openStore: settings.local?.storeOf(info) ?? rocksdbOf(settings, info),
        })
      case 'redis':
        return new CachedKeyedStateBackend({
          ...cached,
          durableAs: 'redis',
          localCopy: false,
          incremental: true,
          cacheMaxBytes,
          openStore: redisOf(settings, options),
        })
    }
  }
}

function rocksdbOf(
  { localRecovery, localRoots, world }: KeyedBackendSettings,
  info: SubtaskInfo,
): OpenColdStore {
  return rocksdbState({
    roots: localRoots,
    jobName: info.jobName,
    uid: info.uid,
    subtask: info.subtaskIndex,
    operatorName: info.operatorName,
    localRecovery,
    uuid: () => world.random.uuid(),
    logger: world.logger,
  })
}

function redisOf({ redis }: KeyedBackendSettings, { run, range, info }: KeyedBackendOptions): OpenColdStore {
  if (redis === undefined)
    throw new MillraceError('MILLRACE_INTERNAL', 'state.backend is redis, but no connection was made')
  return redis.storeOf({ run, attempt: info.attempt, operator: info.uid, range })
}
