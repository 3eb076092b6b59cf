/** Random operations on the async map of a key and on its model side by side; the part of the state backend fuzz that waits. */
import type { AsyncMapState } from '../core/state.ts'
import { expectEqual } from './fuzz-comparison.ts'
import type { SeededRandom } from './seeded-random.ts'
import { allOf, type Total } from './state-backend-model.ts'

/** One operation, drawn by `random`; `action` is a number from 0 to 9. @throws Error at a difference */
export async function fuzzAsyncMap(
  map: AsyncMapState<string | number, Total>,
  model: Map<string | number, Total>,
  random: SeededRandom,
  action: number,
): Promise<void> {
  const anyKey = (): string | number =>
    random.chance(0.5) ? random.integer(0, 150) : `${random.integer(0, 150)}`
  const some = (most: number) => Array.from({ length: random.integer(1, most) }, anyKey)
  if (action <= 2) {
    const mapKey = anyKey()
    const total = await map.get(mapKey)
    expectEqual(total ?? null, model.get(mapKey) ?? null, 'asyncMap.get')
    const changed = total ?? { count: random.integer(0, 1_000), tags: [] }
    changed.count++
    changed.tags.push(`t${changed.count}`)
    model.set(mapKey, structuredClone(changed))
    map.put(mapKey, changed)
  } else if (action <= 4) {
    for (const mapKey of some(random.chance(0.2) ? 100 : 4)) {
      const made = { count: random.integer(0, 1_000), tags: [] }
      map.put(mapKey, made)
      model.set(mapKey, structuredClone(made))
    }
  } else if (action === 5) {
    for (const mapKey of some(random.chance(0.3) ? 150 : 4)) {
      map.remove(mapKey)
      model.delete(mapKey)
    }
  } else if (action === 6) {
    const keys = some(20)
    const found = await map.getAll(keys)
    expectEqual(
      keys.map((each) => found.get(each) ?? null),
      keys.map((each) => model.get(each) ?? null),
      'asyncMap.getAll',
    )
    expectEqual(await map.contains(keys[0]!), model.has(keys[0]!), 'asyncMap.contains')
  } else if (action === 7) {
    const byKey = ([a]: [unknown, unknown], [b]: [unknown, unknown]) =>
      `${typeof a}${a}` < `${typeof b}${b}` ? -1 : 1
    expectEqual((await allOf(map.entries())).sort(byKey), [...model].sort(byKey), 'asyncMap.entries')
  } else if (action === 8) {
    expectEqual((await allOf(map.keys())).length, model.size, 'number of asyncMap.keys')
    expectEqual(await map.isEmpty(), model.size === 0, 'asyncMap.isEmpty')
  } else if (random.chance(0.5)) {
    await map.clear()
    model.clear()
  } else {
    // Entries are removed while they are shown.
    for await (const [mapKey] of map.entries()) {
      if (random.chance(0.3)) continue
      map.remove(mapKey)
      model.delete(mapKey)
    }
  }
}
