/**
 * Folders of state on this machine: `<root>/<job>/<operator uid>-<subtask>/<id>`, one a database. With local recovery they outlive the
 * process; a checkpoint names the id of the one that it can be recovered from. Others are removed when the next one is made, unless a
 * process that lives still owns them. In a container each process may have the same id: one of ours counts only with our start.
 */
import { mkdir, readdir, readFile, rm, rmdir, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { encodeJobName } from '../core/job-name.ts'
import type { Logger } from '../core/ports.ts'
import { MillraceError } from '../errors.ts'

/** Longest part of a path that is made of a name. */
const NAME_BYTES = 100
/** Holds the id of the process that uses the folder, and when it was started. */
const OWNER_FILE = 'owner'
/** Its presence says that the folder must not be used again. */
const DAMAGED_FILE = 'damaged'
const DATABASE = 'db'
/** Starts of one process that are further apart are those of two. */
const START_MS = 1_000

/** Whose folders. */
export interface LocalFolderOptions {
  /** Folders that may be used; empty: the system's folder for temporary files. Subtasks are spread over them. */
  readonly roots: readonly string[]
  readonly jobName: string
  readonly uid: string
  readonly subtask: number
  readonly logger: Logger
}

/** One folder. */
export interface LocalFolder {
  readonly id: string
  /** Where its database is, or is to be made. */
  readonly database: string
  /** It must never be used again. */
  markDamaged(): Promise<void>
  remove(): Promise<void>
}

/** The folders of one operator subtask. */
export class LocalFolders {
  readonly #base: string
  readonly #logger: Logger

  constructor({ roots, jobName, uid, subtask, logger }: LocalFolderOptions) {
    const spread = [...uid].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)!) >>> 0, subtask)
    const places = localPlaces(roots)
    const root = places[spread % places.length]!
    const operator = `${encodeJobName(uid, NAME_BYTES)}-${subtask}`
    this.#base = join(root, encodeJobName(jobName, NAME_BYTES), operator)
    this.#logger = logger
  }

  /** A new folder. @throws MILLRACE_LOCAL_STATE naming the place if it cannot be made */
  async create(id: string): Promise<LocalFolder> {
    await this.#removeOthers()
    const folder = this.#folder(id)
    try {
      await mkdir(join(this.#base, id), { recursive: true })
      await this.#own(id)
    } catch (cause) {
      throw new MillraceError(
        'MILLRACE_LOCAL_STATE',
        `The folder ${join(this.#base, id)} cannot be written`,
        { cause },
      )
    }
    return folder
  }

  /** The folder with that id; undefined, with the reason logged, if it is not there, not free, or known to be damaged. */
  async find(id: string): Promise<LocalFolder | undefined> {
    const reason = await this.#reasonAgainst(id)
    if (reason === undefined) {
      await this.#own(id)
      return this.#folder(id)
    }
    this.#logger.info(`the state on this machine is not used: ${reason}`)
    return undefined
  }

  async #reasonAgainst(id: string): Promise<string | undefined> {
    const path = join(this.#base, id)
    // An id comes out of a checkpoint: it must name a folder here and nothing else.
    if (!/^[\w-]+$/.test(id)) return 'the checkpoint does not name a folder'
    if (!(await exists(path))) return `${path} is not there`
    if (await exists(join(path, DAMAGED_FILE))) return `${path} is damaged`
    const owner = await this.#owner(id)
    return owner !== undefined && owner.pid !== process.pid && isAlive(owner)
      ? `${path} is in use by process ${owner.pid}`
      : undefined
  }

  /** Removes what no process uses. */
  async #removeOthers(): Promise<void> {
    for (const id of await this.#ids()) {
      const owner = await this.#owner(id)
      if (owner !== undefined && isAlive(owner)) continue
      await this.#remove(id)
    }
  }

  #ids(): Promise<string[]> {
    return foldersIn(this.#base)
  }

  #owner(id: string): Promise<Owner | undefined> {
    return ownerOf(join(this.#base, id), this.#logger)
  }

  async #own(id: string): Promise<void> {
    await writeFile(join(this.#base, id, OWNER_FILE), `${process.pid} ${ownStart()}`)
  }

  async #remove(id: string): Promise<void> {
    try {
      await rm(join(this.#base, id), { recursive: true, force: true })
    } catch (error) {
      this.#logger.warn(`the folder ${join(this.#base, id)} of local state could not be removed`, { error })
    }
  }

  #folder(id: string): LocalFolder {
    const path = join(this.#base, id)
    return {
      id,
      database: join(path, DATABASE),
      markDamaged: () => writeFile(join(path, DAMAGED_FILE), ''),
      remove: () => this.#remove(id),
    }
  }
}

/**
 * Removes what a job that is over left on this machine, in all its runs and of all its operators; what another process that lives uses stays.
 * @throws MILLRACE_LOCAL_STATE naming a folder that cannot be read
 */
export async function removeLocalState({
  roots,
  jobName,
  logger,
}: Pick<LocalFolderOptions, 'roots' | 'jobName' | 'logger'>): Promise<void> {
  for (const root of localPlaces(roots)) {
    const job = join(root, encodeJobName(jobName, NAME_BYTES))
    for (const operator of await foldersIn(job)) {
      for (const id of await foldersIn(join(job, operator))) {
        const path = join(job, operator, id)
        const owner = await ownerOf(path, logger)
        if (owner !== undefined && owner.pid !== process.pid && isAlive(owner)) continue
        await rm(path, { recursive: true, force: true })
      }
      await removeIfEmpty(join(job, operator))
    }
    await removeIfEmpty(job)
  }
}

/** The folders for state on this machine's disks: those of the option, or one for temporary files. */
export function localPlaces(roots: readonly string[]): readonly string[] {
  return roots.length === 0 ? [join(tmpdir(), 'millrace')] : roots
}

async function foldersIn(path: string): Promise<string[]> {
  try {
    return await readdir(path)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw new MillraceError('MILLRACE_LOCAL_STATE', `The folder ${path} cannot be read`, { cause })
  }
}

async function removeIfEmpty(path: string): Promise<void> {
  try {
    await rmdir(path)
  } catch (error) {
    if (!['ENOENT', 'ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

/** A process that uses a folder. */
interface Owner {
  readonly pid: number
  /** As `ownStart` told it; undefined: written by a release that did not say. */
  readonly start: number | undefined
}

/** When this process was started, ms since the machine was: the same in all its threads, whatever is done to the clock. */
function ownStart(): number {
  return Math.round(Number(process.hrtime.bigint()) / 1e6 - process.uptime() * 1_000)
}

/** The process that uses a folder. */
async function ownerOf(path: string, logger: Logger): Promise<Owner | undefined> {
  try {
    const [pid, start] = (await readFile(join(path, OWNER_FILE), 'utf8')).split(' ').map(Number)
    return Number.isSafeInteger(pid) && pid! > 0 ? { pid: pid!, start } : undefined
  } catch (error) {
    logger.debug('a folder of local state has no owner', { error })
    return undefined
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}

function isAlive({ pid, start }: Owner): boolean {
  if (pid === process.pid) return start !== undefined && Math.abs(start - ownStart()) < START_MS
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: it lives, and is somebody else's.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
