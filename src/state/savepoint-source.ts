/** Opens a savepoint or a retained checkpoint by the path that a person names, wherever its folder lies by now. */
import { stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { CompletedCheckpoint } from '../checkpoint/completed-checkpoint.ts'
import { keptIn } from '../checkpoint/savepoint.ts'
import { StateLostError } from '../errors.ts'
import { METADATA_FILE } from './directory-storage.ts'
import { existsStored, lostFile, readStored } from './durable-file.ts'
import { decodeMetadata, type SnapshotKind } from './savepoint-metadata.ts'

/** A snapshot on disk. */
export interface StoredSnapshot {
  readonly kind: SnapshotKind
  /** The folder that holds `_metadata`, absolute. */
  readonly folder: string
  /** With handles that find their files from anywhere, and never delete them. */
  readonly checkpoint: CompletedCheckpoint
}

/**
 * `path` is the folder of a savepoint, `chk-<n>` of a checkpoint, or the file `_metadata` in it; a `file:` URL too.
 * @throws StateLostError naming the path, if nothing can be restored from there
 */
export async function openSnapshot(path: string): Promise<StoredSnapshot> {
  const place = resolve(path.startsWith('file:') ? fileURLToPath(path) : path)
  const folder = basename(place) === METADATA_FILE ? dirname(place) : place
  const file = join(folder, METADATA_FILE)
  if (!(await existsStored(file))) throw await notThere(folder)
  const { kind, checkpoint } = decodeMetadata(await readStored(file), file)
  // Files of a checkpoint are named from the root of all: <root>/<job>/<run>/chk-<n>; layers may lie in other checkpoints' folders.
  const root = kind === 'savepoint' ? folder : resolve(folder, '..', '..', '..')
  return { kind, folder, checkpoint: keptIn(checkpoint, root) }
}

async function notThere(folder: string): Promise<StateLostError> {
  const isFolder = await stat(folder).then(
    (found) => found.isDirectory(),
    () => false,
  )
  if (!isFolder) return lostFile(folder, 'is no folder: there is no savepoint or checkpoint')
  return new StateLostError(
    'MILLRACE_STATE_LOST',
    `'${folder}' has no ${METADATA_FILE}: it is no savepoint or checkpoint, or was never completed`,
    {
      remedy: 'Name a folder savepoint-… or chk-…: millrace checkpoints list JOB shows those of a job.',
      details: { path: folder },
    },
  )
}
