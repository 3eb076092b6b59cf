import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { rocksdbState } from '../../src/state/rocksdb-state.ts'
import { coldStoreContract } from '../../src/testing/cold-store-contract.ts'
import { recordingLogger } from '../../src/testing/recorded-log.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'
import { SimulatedColdDisk, SimulatedColdStore } from '../../src/testing/simulated-cold-store.ts'

coldStoreContract('the simulation', { describe, test, expect }, async () => {
  const disk = new SimulatedColdDisk()
  const random = new SeededRandom(1)
  return {
    open: async (origins) => new SimulatedColdStore({ disk, random }, origins),
    close: async () => undefined,
  }
})

coldStoreContract('rocksdb', { describe, test, expect }, async () => {
  const root = await mkdtemp(join(tmpdir(), 'millrace-test-'))
  return {
    open: rocksdbState({
      roots: [root],
      jobName: 'contract',
      uid: 'count',
      subtask: 0,
      operatorName: 'count',
      localRecovery: true,
      uuid: randomUUID,
      logger: recordingLogger([], { now: () => 0 }),
    }),
    close: () => rm(root, { recursive: true, force: true }),
  }
})
