/** What a fuzz of a state backend lets fail on cue. */
import type { BlobStore } from '../checkpoint/checkpoint-storage.ts'
import type { Serde } from '../core/connector.ts'
import { MemoryBlobStore } from '../state/memory-blob-store.ts'
import type { SeededRandom } from './seeded-random.ts'
import { TOTAL_SERDE, type Total } from './state-backend-model.ts'

/** Blobs in memory; storing one fails with that chance. */
export function failingBlobs(random: SeededRandom, chance: number): BlobStore {
  const blobs = new MemoryBlobStore()
  return {
    put: async (name, bytes) => {
      if (random.chance(chance)) throw new Error('put failed on cue')
      return blobs.put(name, bytes)
    },
    get: (handle) => blobs.get(handle),
    discard: (handle) => blobs.discard(handle),
  }
}

/** The serde of the value state; writing a value fails with that chance, without a draw if it is undefined. */
export function failingSerde(random: SeededRandom, chance: number | undefined): Serde<Total> {
  return {
    ...TOTAL_SERDE,
    serialize: (total) => {
      if (chance !== undefined && random.chance(chance)) throw new Error('serde failed on cue')
      return TOTAL_SERDE.serialize(total)
    },
  }
}
