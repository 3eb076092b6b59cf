/** Reads files of savepoints and of checkpoints that somebody started from. */
import type { StateHandle } from '../checkpoint/checkpoint-storage.ts'
import { StateLostError } from '../errors.ts'
import { pathBelow, readVerified } from './durable-file.ts'
import { inlineBytes } from './inline-handle.ts'

/** The verified bytes of a file that belongs to a person. @throws StateLostError if it is missing or damaged */
export async function readKept(handle: StateHandle): Promise<Uint8Array> {
  if (handle.kind === 'inline') return inlineBytes(handle)
  if (handle.kind === 'kept') return readVerified(pathBelow(handle.folder, handle.path), handle)
  throw new StateLostError(
    'MILLRACE_STATE_LOST',
    `state in '${handle.kind === 'topic' ? handle.name : handle.path}' is not in the folder of the snapshot`,
    { remedy: 'Restore from the job itself (--from-checkpoint latest), or take a savepoint.' },
  )
}
