/** What a job master works with. */
import type { CheckpointStore, OutputTransactions } from '../checkpoint/checkpoint-store.ts'
import type { Leadership } from '../checkpoint/leadership.ts'
import type { SubtaskInfo } from '../core/connector.ts'
import type { JobGraph } from '../core/graph/job-graph.ts'
import type { JobControl } from '../core/job-control.ts'
import type { JobSettings, StartOptions } from '../core/job-settings.ts'
import type { World } from '../core/ports.ts'
import type { KeyedStateBackend, KeyGroupRange } from '../core/state.ts'
import type { FaultHook } from './fault-points.ts'
import type { StateStorage } from './state-storage.ts'

export interface JobMasterOptions {
  readonly jobName: string
  readonly graph: JobGraph
  readonly world: World
  readonly settings: JobSettings
  readonly start: StartOptions
  readonly incarnation: string
  readonly leadership: Leadership
  readonly store: CheckpointStore
  readonly storage: StateStorage
  readonly transactions: OutputTransactions | undefined
  readonly createBackend: (options: {
    run: string
    range: KeyGroupRange
    maxParallelism: number
    info: SubtaskInfo
  }) => KeyedStateBackend
  readonly fault?: FaultHook | undefined
  /** How people and tools reach the job; absent for a job without Kafka. */
  readonly control?: JobControl | undefined
}
