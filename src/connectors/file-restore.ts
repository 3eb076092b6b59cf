/**
 * What earlier attempts left in a sink's hidden folder, seen by one subtask of the attempt that goes on. Old subtask i is looked after by new
 * subtask i mod the parallelism, so that each file has exactly one owner at any parallelism.
 *
 *   named by the restored checkpoint, visible already   nothing to do: the checkpoint is an old one, and its run went on
 *   named by the restored checkpoint                    its beginning is finished under a name of this attempt; it stays until a checkpoint of
 *                                                       this attempt is complete, because until then the next attempt may need it, too
 *   not named                                           an orphan of a failed attempt: removed. Files of later attempts are never touched.
 *
 * A job without Kafka begins at attempt 1 in each process, and nothing fences another one that writes to the same path: what a killed process
 * left has numbers that are not lower, and stays.
 */
import { basename, dirname, join } from 'node:path'
import type { SinkWriterContext } from '../core/connector.ts'
import type { MillraceError } from '../errors.ts'
import {
  checkFormat,
  FILE_FORMAT,
  type FileCommittable,
  lostFile,
  lostFiles,
  type OpenPart,
  pathBelow,
} from './file-committable.ts'
import { checksumOf, copyStart, makeFolder, namesIn, removeFile, sizeOf } from './file-disk.ts'
import { parseStagedName, stagedName } from './file-staging.ts'

export interface LeftPartsOptions {
  /** The sink's path today. */
  readonly base: string
  /** The sink's hidden folder, relative to it. */
  readonly staging: string
  readonly context: SinkWriterContext
  /** Output that is lost is told and passed over. */
  readonly acceptLostFiles: boolean
}

export class LeftParts {
  readonly #options: LeftPartsOptions
  /** Of all subtasks. */
  readonly #restored: readonly OpenPart[]

  constructor(options: LeftPartsOptions) {
    this.#options = options
    this.#restored = (options.context.restoredState ?? []) as readonly OpenPart[]
    for (const part of this.#restored) checkFormat(part)
  }

  /** Removes this subtask's share of what failed attempts left and the restored checkpoint does not name. */
  async removeOrphans(): Promise<void> {
    const named = new Set(this.#restored.map(({ path }) => basename(path)))
    await this.#remove(({ part }) => !named.has(part))
  }

  /** Files of this attempt with the bytes that the restored checkpoint names. @throws MILLRACE_FILE_LOST naming all that are gone */
  async finishRestored(): Promise<Omit<FileCommittable, 'n'>[]> {
    const { acceptLostFiles, context } = this.#options
    const finished: Omit<FileCommittable, 'n'>[] = []
    const losses: MillraceError[] = []
    for (const part of this.#restored) {
      if (!this.#owns(part.subtask)) continue
      const file = await this.#finish(part)
      if (file === 'visible') continue
      if (file === undefined)
        losses.push(
          lostFile(
            pathBelow(part.base, part.staged),
            `is missing or damaged; checkpoint ${context.restoredCheckpointId} holds its first ${part.length} bytes, ${part.records} records for '${part.path}'`,
            { records: part.records },
          ),
        )
      else finished.push(file)
    }
    if (losses.length > 0 && !acceptLostFiles) throw lostFiles(losses)
    for (const { message } of losses)
      context.logger.error(`${message}; onLostFile is 'accept', so the job goes on`)
    return finished
  }

  /** The restored checkpoint is not needed any more, nor are the files that it named. */
  async removeRestored(): Promise<void> {
    const own = new Set(
      this.#restored.filter(({ subtask }) => this.#owns(subtask)).map(({ path }) => basename(path)),
    )
    if (own.size === 0) return
    try {
      await this.#remove(({ part }) => own.has(part), 'whoever owns it')
    } catch (error) {
      // The next attempt removes them: they are orphans by then.
      this.#options.context.logger.warn('could not remove files of an earlier attempt', { error })
    }
  }

  async #finish(part: OpenPart): Promise<Omit<FileCommittable, 'n'> | 'visible' | undefined> {
    const { info } = this.#options.context
    const expected = { length: part.length, crc32: part.crc32 }
    const visible = pathBelow(part.base, part.path)
    if ((await sizeOf(visible)) !== undefined)
      return (await checksumOf(visible, part.length)) === part.crc32 ? 'visible' : undefined
    const by = { attempt: info.attempt, subtask: info.subtaskIndex }
    const folder = dirname(part.staged)
    const staged = join(folder, stagedName(by, basename(part.path)))
    await makeFolder(pathBelow(part.base, folder))
    for (const candidate of await this.#copiesOf(part)) {
      if ((await checksumOf(candidate, part.length)) !== part.crc32) continue
      if (!(await copyStart(candidate, pathBelow(part.base, staged), expected))) continue
      const { base, path, records } = part
      const facts = { size: part.length, crc32: part.crc32, records }
      return { format: FILE_FORMAT, base, staged, path, ...facts, ...by }
    }
    return undefined
  }

  /** Where the bytes may be: under the name that the checkpoint says, or in what a later attempt made of it. */
  async #copiesOf(part: OpenPart): Promise<string[]> {
    const folder = dirname(pathBelow(part.base, part.staged))
    const first = basename(part.staged)
    const own = this.#options.context.info.attempt
    const others = (await namesIn(folder)).filter((name) => {
      const parsed = parseStagedName(name)
      return name !== first && parsed?.part === basename(part.path) && parsed.attempt < own
    })
    return [first, ...others].map((name) => join(folder, name))
  }

  async #remove(
    isUnneeded: (staged: { readonly part: string }) => boolean,
    whose: 'own' | 'whoever owns it' = 'own',
  ): Promise<void> {
    const { base, staging, context } = this.#options
    const folders = new Set([
      join(base, staging),
      ...this.#restored.map((part) => dirname(pathBelow(part.base, part.staged))),
    ])
    for (const folder of folders)
      for (const name of await namesIn(folder)) {
        const staged = parseStagedName(name)
        if (staged === undefined || staged.attempt >= context.info.attempt) continue
        if (whose === 'own' && !this.#owns(staged.subtask)) continue
        if (isUnneeded(staged)) await removeFile(join(folder, name))
      }
  }

  #owns(subtask: number): boolean {
    const { subtaskIndex, parallelism } = this.#options.context.info
    return subtask % parallelism === subtaskIndex
  }
}
