import { expect, test } from '@jest/globals'
import type { SourceSplit } from '../../../src/core/connector.ts'
import { SplitDiscovery } from '../../../src/runtime/split-discovery.ts'
import { VirtualWorld } from './virtual-world.ts'

/** Answers of the source, one a look; an error is thrown. */
function discoveryOf(answers: (readonly SourceSplit[] | Error)[], discoveryIntervalMs?: number) {
  const virtual = new VirtualWorld()
  const found: string[] = []
  const discovery = new SplitDiscovery({
    uid: 'orders',
    world: virtual.world,
    enumerator: {
      ...(discoveryIntervalMs === undefined ? {} : { discoveryIntervalMs }),
      start: async () => [],
      discover: async () => {
        const answer = answers.shift() ?? []
        if (answer instanceof Error) throw answer
        return answer
      },
      close: async () => undefined,
    },
    onFound: (splits) => found.push(...splits.map(({ id }) => id)),
  })
  return { discovery, virtual, found, answers }
}

test('looks again after each interval and hands over what it found', async () => {
  const { discovery, virtual, found } = discoveryOf([[{ id: 'a' }], [], [{ id: 'b' }, { id: 'c' }]], 100)
  discovery.start()
  await virtual.run(virtual.time.sleep(99))
  expect(found).toEqual([])
  await virtual.run(virtual.time.sleep(300))
  expect(found).toEqual(['a', 'b', 'c'])
})

test('goes on after a look that failed, and says so', async () => {
  const { discovery, virtual, found } = discoveryOf([new Error('no broker'), [{ id: 'a' }]], 100)
  discovery.start()
  await virtual.run(virtual.time.sleep(250))
  expect(found).toEqual(['a'])
  expect(virtual.warnings()).toEqual(['looking for new partitions of orders failed; trying again'])
})

test('hands nothing over after it was stopped, and never looks again', async () => {
  const { discovery, virtual, found, answers } = discoveryOf([[{ id: 'a' }], [{ id: 'b' }]], 100)
  discovery.start()
  await virtual.run(virtual.time.sleep(150))
  discovery.stop()
  await virtual.run(virtual.time.sleep(500))
  expect(found).toEqual(['a'])
  expect(answers).toHaveLength(1)
})

test('does not look for splits of a source whose splits are fixed', async () => {
  const { discovery, virtual, answers } = discoveryOf([[{ id: 'a' }]])
  discovery.start()
  await virtual.run(virtual.time.sleep(1_000))
  expect(answers).toHaveLength(1)
})
