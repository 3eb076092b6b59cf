import { expect, test } from '@jest/globals'
import { ValueStateDescriptor } from '../../../src/core/state.ts'
import { type ErrorCode, MillraceError } from '../../../src/errors.ts'
import { CachedKeyedStateBackend } from '../../../src/state/cached-backend.ts'
import type { ColdStore } from '../../../src/state/cold-store.ts'
import { MemoryBlobStore } from '../../../src/state/memory-blob-store.ts'

/** A backend whose checkpoint 1 is complete, and whose store fails its first fold; checkpoint 2 was frozen before, if `freezes`. */
async function afterFold(failure: Error, freezes = false) {
  const warnings: string[] = []
  const logger = {
    debug() {},
    info() {},
    warn: (message: string) => void warnings.push(message),
    error() {},
    child: () => logger,
  }
  const failures = [failure]
  const store: ColdStore = {
    bytes: 0,
    load: async (keys) => keys.map(() => undefined),
    write: async () => undefined,
    seal: async () => ({}),
    fold: async () => {
      const error = failures.pop()
      if (error !== undefined) throw error
    },
    async *timers() {},
    async *scan() {},
    close: async () => undefined,
  }
  const backend = new CachedKeyedStateBackend({
    range: { start: 0, end: 3 },
    maxParallelism: 4,
    operatorName: 'count',
    clock: { now: () => 0 },
    durableAs: 'redis',
    localCopy: false,
    incremental: true,
    cacheMaxBytes: 1_000,
    logger,
    openStore: async () => store,
  })
  const blobs = new MemoryBlobStore()
  await backend.restoreFrom([], blobs)
  const state = backend.getState(new ValueStateDescriptor<string>('value'))
  for (const key of ['a', 'b', 'c', 'd']) {
    await backend.prefetch([key])
    backend.setCurrentKey(key)
    state.update('x'.repeat(500))
  }
  await backend.prefetch(['e'])
  await backend.freeze(1).store({ n: 1, blobs, name: 's1', pause: () => Promise.resolve() })
  const frozen = freezes ? backend.freeze(2) : undefined
  backend.retainedFrom(1)
  await new Promise((resolve) => setImmediate(resolve))
  return { backend, warnings, frozen }
}

test.each<ErrorCode>([
  'MILLRACE_STATE_LOST',
  'MILLRACE_REDIS_WRITES_LOST',
  'MILLRACE_ATTEMPT_LOST',
  'MILLRACE_REDIS_REFUSED',
])(
  'a fold that ends with %s ends the attempt: no checkpoint is taken any more, no key loaded',
  async (code) => {
    const { backend, warnings } = await afterFold(new MillraceError(code, 'gone'))
    expect(warnings).toEqual([])
    expect(() => backend.freeze(2)).toThrow(expect.objectContaining({ code }))
    await expect(backend.prefetch(['never seen'])).rejects.toMatchObject({ code })
    await backend.close()
  },
)

test('what was frozen before the fold failed is not stored', async () => {
  const { backend, frozen } = await afterFold(new MillraceError('MILLRACE_STATE_LOST', 'gone'), true)
  const target = { n: 2, blobs: new MemoryBlobStore(), name: 's2', pause: () => Promise.resolve() }
  await expect(frozen!.store(target)).rejects.toMatchObject({ code: 'MILLRACE_STATE_LOST' })
  await backend.close()
})

test.each([
  new MillraceError('MILLRACE_REDIS_UNAVAILABLE', 'away'),
  new MillraceError('MILLRACE_REDIS_FULL', 'full'),
  new MillraceError('MILLRACE_REDIS_NOT_DURABLE', 'not synced'),
  new Error('the local disk'),
])('a fold that fails for what passes is warned of, and made up for ($message)', async (failure) => {
  const { backend, warnings } = await afterFold(failure)
  expect(warnings).toEqual(["Operator 'count': old state could not be folded"])
  await backend.freeze(2).store({ n: 2, blobs: new MemoryBlobStore(), name: 's2', pause: async () => {} })
  backend.retainedFrom(2)
  await backend.prefetch(['never seen'])
  await backend.close()
  expect(warnings).toHaveLength(1)
})
