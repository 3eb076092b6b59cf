import { describe, expect, test } from '@jest/globals'
import { HeapKeyedStateBackend } from '../../src/state/heap-backend.ts'
import { stateBackendContract } from '../../src/testing/state-backend-contract.ts'
import { fuzzStateBackend } from '../../src/testing/state-backend-fuzz.ts'

stateBackendContract(
  'the heap',
  { describe, test, expect },
  (options) => new HeapKeyedStateBackend({ ...options, entriesPerSlice: 3 }),
)

describe('the contract itself', () => {
  test('notices a backend that hands out frozen records without writing them first', async () => {
    class HandsOutFrozenRecords extends HeapKeyedStateBackend {
      protected override captureBeforeTouch(): void {}
    }
    const run = fuzzStateBackend(
      (options) => new HandsOutFrozenRecords({ ...options, entriesPerSlice: 3 }),
      1,
      250,
    )
    await expect(run).rejects.toThrow(/Seed 1, .*image and state at the freeze/)
  })

  test('notices a backend that loses timers', async () => {
    class LosesTimers extends HeapKeyedStateBackend {
      override timers() {
        const timers = super.timers()
        timers.deleteEventTimeTimer = () => {}
        return timers
      }
    }
    await expect(fuzzStateBackend((options) => new LosesTimers(options), 1, 1_000)).rejects.toThrow(/timers/)
  })
})
