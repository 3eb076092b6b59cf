/**
 * Makes files visible: each is renamed from its hidden name to its own, then the folders are synced.
 *
 *   | hidden name   | visible name | meaning                                                        |
 *   | there         | free         | renamed now                                                    |
 *   | missing       | there        | was renamed before: by a commit whose end nobody saw           |
 *   | missing       | free         | lost, or taken away since: MILLRACE_FILE_LOST, or accepted     |
 *   | there         | taken        | the same bytes: was made visible before; others: MILLRACE_FILE_LOST, never overwritten |
 *
 * At take-over the bytes are checked as well: whoever wrote them may have died with its machine.
 */
import { dirname } from 'node:path'
import type { CommitPermit, Committer, CommitterContext } from '../core/connector.ts'
import { dueCommittables } from '../core/due-committables.ts'
import { isMillraceError, type MillraceError } from '../errors.ts'
import { checkFormat, type FileCommittable, lostFile, lostFiles, pathBelow } from './file-committable.ts'
import { checksumOf, makeFolder, moveFile, removeFile, sizeOf, syncFolder } from './file-disk.ts'

export class FileCommitter implements Committer<FileCommittable> {
  readonly #context: CommitterContext
  readonly #acceptLostFiles: boolean

  constructor(context: CommitterContext, acceptLostFiles: boolean) {
    this.#context = context
    this.#acceptLostFiles = acceptLostFiles
  }

  async commit(permit: CommitPermit, committables: readonly FileCommittable[]): Promise<void> {
    await this.#publishAll(dueCommittables(permit, committables), false)
  }

  async recover(permit: CommitPermit, committables: readonly FileCommittable[]): Promise<void> {
    await this.#publishAll(dueCommittables(permit, committables), true)
  }

  async #publishAll(committables: readonly FileCommittable[], thorough: boolean): Promise<void> {
    const losses: MillraceError[] = []
    const visible = new Set<string>()
    const hidden = new Set<string>()
    for (const committable of committables) {
      try {
        const { from, to } = pathsOf(committable)
        const moved = await publish(committable, thorough)
        // Also for what was renamed before: nobody has seen that it is durable.
        visible.add(dirname(to))
        if (moved) hidden.add(dirname(from))
      } catch (error) {
        if (!isMillraceError(error) || error.code !== 'MILLRACE_FILE_LOST') throw error
        losses.push(error)
      }
    }
    // The new name first: better two names than none.
    for (const folder of [...visible, ...hidden]) await syncFolder(folder)
    if (losses.length > 0 && !this.#acceptLostFiles) throw lostFiles(losses)
    for (const { message } of losses)
      this.#context.world.logger.error(`${message}; onLostFile is 'accept', so the job goes on`)
  }

  async close(): Promise<void> {}
}

/** True if the file was renamed now. */
async function publish(committable: FileCommittable, thorough: boolean): Promise<boolean> {
  checkFormat(committable)
  const { size, crc32, records, n } = committable
  const { from, to } = pathsOf(committable)
  const lost = (path: string, why: string): MillraceError =>
    lostFile(path, `${why}; checkpoint ${n} holds ${size} bytes of it, ${records} records`, { n, records })
  const staged = await sizeOf(from)
  if (staged === undefined) {
    const visible = await sizeOf(to)
    if (visible === undefined)
      throw lost(to, `is not there, and neither is '${from}' from which it was to come`)
    if (visible !== size) throw lost(to, `has ${visible} bytes`)
    return false
  }
  if (staged !== size) throw lost(from, `has ${staged} bytes`)
  if (thorough && (await checksumOf(from, size)) !== crc32) {
    // Another worker commits the same checkpoint and was faster.
    if ((await sizeOf(from)) === undefined) return publish(committable, thorough)
    throw lost(from, 'is damaged: its checksum is not that of the checkpoint')
  }
  await makeFolder(dirname(to))
  const taken = await sizeOf(to)
  if (taken === undefined) {
    return (await moveFile(from, to)) || publish(committable, thorough)
  }
  if (taken !== size || (await checksumOf(to, size)) !== crc32)
    throw lost(to, `is another file with ${taken} bytes, and '${from}' was to get this name`)
  await removeFile(from)
  return true
}

function pathsOf({ base, staged, path }: FileCommittable): { readonly from: string; readonly to: string } {
  return { from: pathBelow(base, staged), to: pathBelow(base, path) }
}
