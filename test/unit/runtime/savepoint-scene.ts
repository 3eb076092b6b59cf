/** Jobs of a keyed count that run in this process, with savepoints in a folder of the test. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { StreamExecutionEnvironment } from 'millrace'
import type { BlobStore } from '../../../src/checkpoint/checkpoint-storage.ts'
import { jobSettings } from '../../../src/config/job-settings.ts'
import { settingsOfCode } from '../../../src/config/setting.ts'
import { resolveConfig } from '../../../src/config.ts'
import { buildJobGraph } from '../../../src/core/graph/job-graph-builder.ts'
import type { RestoreChoice } from '../../../src/core/job-settings.ts'
import type { Logger } from '../../../src/core/ports.ts'
import { MetricRegistry } from '../../../src/metrics/metrics.ts'
import { createMaster } from '../../../src/runtime/deployment.ts'
import type { JobMaster } from '../../../src/runtime/job-master.ts'
import { LocalLeadership } from '../../../src/runtime/local-leadership.ts'
import { MemoryCheckpointStore } from '../../../src/runtime/memory-checkpoint-store.ts'
import { realWorld } from '../../../src/runtime/real-world.ts'
import { plainStorage, type StateStorage } from '../../../src/runtime/state-storage.ts'
import { JobDirectory } from '../../../src/state/job-directory.ts'
import type { KeyedBackendSettings } from '../../../src/state/keyed-backends.ts'
import { MemoryBlobStore } from '../../../src/state/memory-blob-store.ts'
import { STATE_CODEC } from '../../../src/state/operator-state-codec.ts'
import { SavepointFolders, withFolders } from '../../../src/state/savepoint-folders.ts'
import { RecordingExecutor } from '../api/recording-executor.ts'

export interface SceneJob {
  readonly declare: (env: StreamExecutionEnvironment) => void
  readonly config?: Readonly<Record<string, string | number | boolean>> | undefined
  readonly restoreFrom?: RestoreChoice
  readonly allowNonRestoredState?: boolean
  readonly fresh?: boolean
  readonly noSavepointDirectory?: boolean
  readonly storage?: ((storage: StateStorage) => StateStorage) | undefined
  /** The job's state in Redis, with `state.backend` redis. */
  readonly redis?: KeyedBackendSettings['redis']
}

/** What all starts of one job share: its store, its folders. */
export class SavepointScene {
  readonly folder: string
  readonly logged: string[] = []
  /** Paths of the files that were written into the checkpoint directory. */
  readonly stored: string[] = []
  readonly #blobs = new MemoryBlobStore()
  readonly store = new MemoryCheckpointStore(this.#blobs)
  /** Of the job that was started last. */
  metrics = new MetricRegistry()
  readonly #masters: JobMaster[] = []

  private constructor(folder: string) {
    this.folder = folder
  }

  static async open(): Promise<SavepointScene> {
    return new SavepointScene(await mkdtemp(join(tmpdir(), 'millrace-savepoints-')))
  }

  get checkpoints(): string {
    return join(this.folder, 'checkpoints')
  }

  get savepoints(): string {
    return join(this.folder, 'savepoints')
  }

  /** Where checkpoints and savepoints go under these settings. */
  #storage(config: ReturnType<typeof resolveConfig>): StateStorage {
    const root = ['filesystem', 'rocksdb'].includes(config.get('state.backend'))
      ? this.checkpoints
      : undefined
    const memoryThreshold = config.get('state.backend.fs.memory-threshold')
    const folders = new SavepointFolders({ job: 'job', root, memoryThreshold })
    if (root === undefined) return withFolders(plainStorage(this.#blobs, STATE_CODEC), folders)
    const directory = new JobDirectory({ root, job: 'job', memoryThreshold })
    return withFolders(
      {
        codec: STATE_CODEC,
        get: (handle) => directory.get(handle),
        discard: (handle) => directory.discard(handle),
        discardMetadata: (run, n) => directory.discardMetadata(run, n),
        begin: async (run, attempt) => {
          const own = await directory.begin(run, attempt)
          return { ...own, blobs: (n) => this.#noting(own.blobs(n)) }
        },
      },
      folders,
    )
  }

  #noting(blobs: BlobStore): BlobStore {
    return {
      ...blobs,
      put: async (name, bytes) => {
        const handle = await blobs.put(name, bytes)
        if (handle.kind === 'file') this.stored.push(handle.path)
        return handle
      },
    }
  }

  async start(job: SceneJob): Promise<JobMaster> {
    const executor = new RecordingExecutor()
    const env = StreamExecutionEnvironment.getExecutionEnvironment({
      ...(job.noSavepointDirectory === true ? {} : { 'state.savepoints.dir': this.savepoints }),
      'state.checkpoints.dir': this.checkpoints,
      'restart-strategy.type': 'none',
      'execution.checkpointing.interval': '1 h',
      ...job.config,
    })
    job.declare(env)
    await env.executeAsync('job')
    const config = resolveConfig(settingsOfCode(executor.last.settings.config))
    const note =
      (level: string) =>
      (message: string): void =>
        void this.logged.push(`${level} ${message}`)
    const logger: Logger = {
      debug: () => undefined,
      info: note('info'),
      warn: note('warn'),
      error: note('error'),
      child: () => logger,
    }
    const storage = this.#storage(config)
    this.metrics = new MetricRegistry()
    const world = realWorld(logger, this.metrics)
    const master = createMaster(
      {
        leadership: new LocalLeadership(),
        store: this.store,
        storage: job.storage?.(storage) ?? storage,
        transactions: undefined,
        close: async () => undefined,
      },
      {
        jobName: 'job',
        graph: buildJobGraph(executor.last.graph, {
          jobName: 'job',
          defaultParallelism: 1,
          maxParallelism: config.get('pipeline.max-parallelism'),
        }),
        settings: jobSettings(config),
        world,
        incarnation: 'worker',
        start: {
          fresh: job.fresh ?? false,
          allowNonRestoredState: job.allowNonRestoredState ?? false,
          acceptLostTransactions: [],
          restoreFrom: job.restoreFrom,
        },
        fault: undefined,
        keyedState: {
          backend: config.get('state.backend'),
          incremental: config.get('state.backend.incremental'),
          localRecovery: config.get('state.backend.local-recovery'),
          localRoots: [join(this.folder, 'local')],
          cacheMaxBytes: config.get('state.backend.cache.max-bytes'),
          world,
          redis: job.redis,
        },
      },
    )
    this.#masters.push(master)
    return master
  }

  async close(): Promise<void> {
    await Promise.all(this.#masters.map((master) => master.cancel()))
    await rm(this.folder, { recursive: true, force: true })
  }
}
