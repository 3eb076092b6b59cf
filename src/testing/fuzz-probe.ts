/** A look at a checkpoint in a fuzz: a backend of its own that restores it. */
import type { KeyedStateBackend } from '../core/state.ts'
import { RealTime } from './real-time.ts'

/** A look is tried so often, and so many ms apart. */
const TRIES = 5
const PAUSE_MS = 20

/**
 * The restored backend. `mayFold`: the backend that took the checkpoint may be folding it. A copy of a run is otherwise one of a run that is
 * dead; here what it folds meanwhile is not what was compared a moment ago, and then it is looked at again.
 */
export async function restoredCopy(
  open: () => KeyedStateBackend | Promise<KeyedStateBackend>,
  restore: (backend: KeyedStateBackend) => Promise<void>,
  mayFold: boolean,
): Promise<KeyedStateBackend> {
  for (let tries = 1; ; tries++) {
    const backend = await open()
    try {
      await restore(backend)
      return backend
    } catch (error) {
      if (!mayFold || tries === TRIES) throw error
      await backend.close()
      await new RealTime().sleep(PAUSE_MS)
    }
  }
}
