/** Opens RocksDB stores: a new one, or the one on this machine that a checkpoint names. The only place that loads the package. */
import type RocksDB from 'rocksdb-native'
import type { Logger } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'
import type { ColdStore, OpenColdStore } from './cold-store.ts'
import { type LocalFolder, type LocalFolderOptions, LocalFolders } from './local-recovery.ts'
import { type RocksdbSeal, RocksdbStore } from './rocksdb-store.ts'

const PACKAGE = 'rocksdb-native'
/** Two threads of RocksDB's own beside ours, for each subtask. */
const BACKGROUND_JOBS = 2
/** Rows gathered in memory before they become a file. */
const WRITE_BUFFER_BYTES = 32 << 20

export interface RocksdbStateOptions extends LocalFolderOptions {
  readonly operatorName: string
  /** The store outlives this process and can be opened again. */
  readonly localRecovery: boolean
  /** A name that no other folder has. */
  readonly uuid: () => string
}

/** Opens the stores of one operator subtask. */
export function rocksdbState(options: RocksdbStateOptions): OpenColdStore {
  const folders = new LocalFolders(options)
  return async (origins) => {
    const [origin] = origins
    if (origin !== undefined) return recover(options, folders, origin.sealed as RocksdbSeal)
    const folder = await folders.create(options.uuid())
    const db = await open(folder)
    return RocksdbStore.create(storeOptions(options, folder, db))
  }
}

/** The store that a checkpoint names; undefined if it cannot be used, which costs time and nothing else. */
async function recover(
  options: RocksdbStateOptions,
  folders: LocalFolders,
  seal: RocksdbSeal,
): Promise<ColdStore | undefined> {
  const folder = await folders.find(String(seal.id))
  if (folder === undefined) return undefined
  let db: RocksDB | undefined
  try {
    db = await open(folder)
    const store = await RocksdbStore.recover(storeOptions(options, folder, db), seal)
    options.logger.info(`operator '${options.operatorName}' goes on with its state on this machine`)
    return store
  } catch (error) {
    options.logger.warn(
      `operator '${options.operatorName}': its state on this machine is stale or damaged; the checkpoint is read instead`,
      { error },
    )
    if (db !== undefined) await closeQuietly(db, options.logger)
    await folder.remove()
    return undefined
  }
}

function storeOptions(options: RocksdbStateOptions, folder: LocalFolder, db: RocksDB) {
  const { operatorName, logger, localRecovery } = options
  let damaged = false
  return {
    db,
    id: folder.id,
    operatorName,
    logger,
    recoverable: localRecovery,
    damaged: () => {
      damaged = true
      return folder.markDamaged()
    },
    closed: () => (localRecovery && !damaged ? Promise.resolve() : folder.remove()),
  }
}

async function open(folder: LocalFolder): Promise<RocksDB> {
  const Database = await load()
  const db = new Database(folder.database, {
    maxBackgroundJobs: BACKGROUND_JOBS,
    writeBufferSize: WRITE_BUFFER_BYTES,
  })
  try {
    await db.ready()
  } catch (cause) {
    throw new MillraceError('MILLRACE_LOCAL_STATE', `The database in ${folder.database} cannot be opened`, {
      cause,
    })
  }
  return db
}

async function load(): Promise<typeof RocksDB> {
  try {
    return (await import(PACKAGE)).default
  } catch (cause) {
    throw new MillraceError(
      'MILLRACE_MISSING_PACKAGE',
      `state.backend is rocksdb, and the package ${PACKAGE} cannot be loaded`,
      { cause, remedy: `Install it: npm install ${PACKAGE}. On Linux it also needs the system's libatomic.` },
    )
  }
}

async function closeQuietly(db: RocksDB, logger: Logger): Promise<void> {
  try {
    await db.close()
  } catch (error) {
    logger.debug('a damaged database could not be closed', { error })
  }
}
