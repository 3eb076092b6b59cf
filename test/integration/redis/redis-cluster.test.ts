import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { RedisState } from '../../../src/state/redis-state.ts'
import { RedisProcess, SAFE, until } from './redis-process.ts'
import { everything, RedisScene, record, storeOf, timersOf, values } from './redis-scene.ts'

const SLOTS = 16_384
const nodes: RedisProcess[] = []
const scene = new RedisScene()
let state: RedisState

beforeAll(async () => {
  for (let i = 0; i < 3; i++) nodes.push(await RedisProcess.start({ ...SAFE, 'cluster-enabled': 'yes' }))
  const [first] = nodes as [RedisProcess]
  for (const [i, node] of nodes.entries()) {
    const from = Math.ceil((i * SLOTS) / 3)
    await node.ask('CLUSTER', 'ADDSLOTSRANGE', from, Math.ceil(((i + 1) * SLOTS) / 3) - 1)
    await node.ask('CLUSTER', 'SET-CONFIG-EPOCH', i + 1)
    if (node !== first) await node.ask('CLUSTER', 'MEET', '127.0.0.1', first.port)
  }
  await until('the cluster is whole', async () => {
    const infos = await Promise.all(nodes.map((node) => node.ask('CLUSTER', 'INFO')))
    return infos.every((info) => /cluster_state:ok[\s\S]*cluster_known_nodes:3/.test(String(info)))
  })
  state = await scene.state(`redis+cluster://127.0.0.1:${first.port}`, { timeoutMs: 20_000 })
}, 60_000)
afterAll(async () => {
  await scene.close()
  for (const node of nodes) await node.stop()
})

describe('state in a cluster of three', () => {
  const names = Array.from({ length: 600 }, (_, i) => `key-${i}`)

  test('is spread by key group, and written, folded, restored and discarded like elsewhere', async () => {
    const range = [0, 3] as const
    const store = await storeOf(state, 1, [], { range })
    await store.write(
      1,
      names.map((name) => record(name, 'v1', 't')),
    )
    await store.seal(1, 1)
    await store.write(
      2,
      names.slice(0, 300).map((name) => record(name, 'v2')),
    )
    const handle = await store.seal(2, 2)
    await store.fold(1)
    const expected = names.map((_, i) => (i < 300 ? 'v2' : 'v1'))
    expect(await values(store, names)).toEqual(expected)
    const next = await storeOf(state, 2, [handle], { range })
    expect(await values(next, names)).toEqual(expected)
    expect(Object.keys(await timersOf(next))).toHaveLength(300)
    expect(Object.keys(await everything(next, 0))).toHaveLength(600)
    await expect(store.write(3, [record('key-0', 'zombie')])).rejects.toMatchObject({
      code: 'MILLRACE_ATTEMPT_LOST',
    })
    const holders = await Promise.all(nodes.map((node) => node.keys()))
    expect(holders.filter((keys) => keys.length > 0).length).toBeGreaterThan(1)
    await state.discard()
    expect((await Promise.all(nodes.map((node) => node.keys()))).flat()).toEqual([])
  }, 60_000)

  test('survives a node that is killed and comes back', async () => {
    const store = await storeOf(state, 1, [], { run: 'run-2' })
    await store.write(
      1,
      names.map((name) => record(name, 'v1')),
    )
    await store.seal(1, 1)
    await nodes[1]!.kill()
    const writing = store.write(
      2,
      names.map((name) => record(name, 'v2')),
    )
    await nodes[1]!.restart()
    await writing
    const handle = await store.seal(2, 2)
    const next = await storeOf(state, 2, [handle], { run: 'run-2' })
    expect(new Set(await values(next, names))).toEqual(new Set(['v2']))
  }, 60_000)
})
