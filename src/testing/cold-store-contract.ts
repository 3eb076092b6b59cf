/**
 * What any ColdStore must do, as a suite for whatever test framework is handed in:
 *
 *   coldStoreContract('memory', { describe, test, expect }, () => scene)
 */
import type { ColdOrigin, ColdRecord, ColdStore, OpenColdStore } from '../state/cold-store.ts'
import type { ContractFramework } from './state-backend-contract.ts'

/** Where stores of one test are. */
export interface ColdStoreScene {
  /** Opens a store of one operator subtask with key groups 0–7. A store that was opened before is taken over, or was closed. */
  readonly open: OpenColdStore
  close(): Promise<void>
}

/** What not every store does. */
export interface ColdStoreContractOptions {
  /** False: a store that was sealed cannot be opened again. */
  readonly reopens?: boolean
}

const text = (bytes: Uint8Array | undefined): string | undefined =>
  bytes === undefined ? undefined : Buffer.from(bytes).toString('latin1')
const bytes = (value: string | undefined): Uint8Array | undefined =>
  value === undefined ? undefined : new Uint8Array(Buffer.from(value, 'latin1'))

const keyOf = (name: string) => ({ keyGroup: name.charCodeAt(0) % 8, key: bytes(name)! })
const record = (name: string, value?: string, timers?: string): ColdRecord => ({
  ...keyOf(name),
  value: bytes(value),
  timers: bytes(timers),
})

async function load(store: ColdStore, ...names: string[]): Promise<(string | undefined)[]> {
  return (await store.load(names.map(keyOf))).map(text)
}

/** All records as they are at a segment, by name. */
async function scan(store: ColdStore, segment: number): Promise<Record<string, (string | undefined)[]>> {
  const found: [string, (string | undefined)[]][] = []
  for (let keyGroup = 0; keyGroup < 8; keyGroup++)
    for await (const page of store.scan(keyGroup, segment))
      for (const row of page) found.push([text(row.key)!, [text(row.value), text(row.timers)]])
  return Object.fromEntries(found.sort(([a], [b]) => (a < b ? -1 : 1)))
}

async function timers(store: ColdStore): Promise<Record<string, string | undefined>> {
  const found: [string, string | undefined][] = []
  for await (const page of store.timers())
    for (const row of page) found.push([text(row.key)!, text(row.timers)])
  return Object.fromEntries(found.sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** Declares the suite. */
export function coldStoreContract(
  name: string,
  { describe, test, expect }: ContractFramework,
  makeScene: () => Promise<ColdStoreScene>,
  { reopens = true }: ColdStoreContractOptions = {},
): void {
  /** A test with an empty store, closed whatever happens. */
  const withStore = (
    title: string,
    work: (store: ColdStore, reopen: (...origins: ColdOrigin[]) => Promise<ColdStore>) => Promise<void>,
  ): void =>
    test(title, async () => {
      const scene = await makeScene()
      let store = (await scene.open([]))!
      try {
        await work(store, async (...origins) => {
          await store.close()
          store = (await scene.open(origins))!
          expect(store).not.toBe(undefined)
          return store
        })
      } finally {
        await store.close()
        await scene.close()
      }
    })

  describe(`the cold store of ${name}`, () => {
    withStore('gives the newest value of each key, in the order of the keys', async (store) => {
      await store.write(1, [record('a', 'a1'), record('b', 'b1')])
      await store.write(2, [record('b', 'b2')])
      expect(await load(store, 'c', 'b', 'a')).toEqual([undefined, 'b2', 'a1'])
      expect(await load(store)).toEqual([])
    })

    withStore('the last record of a key in a segment wins', async (store) => {
      await store.write(1, [record('a', 'first'), record('a', 'second')])
      await store.write(1, [record('a', 'third')])
      expect(await load(store, 'a')).toEqual(['third'])
    })

    withStore('a write to an older segment does not hide a newer one', async (store) => {
      await store.write(2, [record('a', 'newer')])
      await store.write(1, [record('a', 'older'), record('b', 'b1')])
      expect(await load(store, 'a', 'b')).toEqual(['newer', 'b1'])
      expect(await scan(store, 1)).toEqual({ a: ['older', undefined], b: ['b1', undefined] })
    })

    withStore('a record without value removes what was there', async (store) => {
      await store.write(1, [record('a', 'a1', 't1'), record('b', 'b1')])
      await store.seal(1, 1)
      await store.write(2, [record('a'), record('b', undefined, 't2')])
      expect(await load(store, 'a', 'b')).toEqual([undefined, undefined])
      expect(await timers(store)).toEqual({ b: 't2' })
      expect(await scan(store, 2)).toEqual({ b: [undefined, 't2'] })
      expect(await scan(store, 1)).toEqual({ a: ['a1', 't1'], b: ['b1', undefined] })
    })

    withStore('a scan shows a segment as it was, whatever is written later', async (store) => {
      await store.write(1, [record('a', 'a1', 't1')])
      await store.write(2, [record('a', 'a2'), record('b', 'b2')])
      await store.write(3, [record('a', 'a3'), record('c', 'c3')])
      expect(await scan(store, 2)).toEqual({ a: ['a2', undefined], b: ['b2', undefined] })
      expect(await timers(store)).toEqual({})
    })

    withStore('folding changes nothing that can be seen from its segment on', async (store) => {
      for (let segment = 1; segment <= 6; segment++) {
        await store.write(segment, [
          record('a', `a${segment}`, segment % 2 === 0 ? `t${segment}` : undefined),
          record(`x${segment}`, 'x'),
          ...(segment > 2 ? [record(`x${segment - 2}`)] : []),
        ])
        await store.seal(segment, segment)
      }
      const before = await scan(store, 6)
      const at5 = await scan(store, 5)
      await store.fold(5)
      await store.fold(5)
      expect(await scan(store, 6)).toEqual(before)
      expect(await scan(store, 5)).toEqual(at5)
      expect(await load(store, 'a', 'x1', 'x6')).toEqual(['a6', undefined, 'x'])
      expect(await timers(store)).toEqual({ a: 't6' })
    })

    withStore('loads that meet a fold see the newest values', async (store) => {
      const names = Array.from({ length: 50 }, (_, i) => `k${i}`)
      for (let segment = 1; segment <= 6; segment++) {
        await store.write(
          segment,
          names.map((each) => record(each, `${each}-${segment}`)),
        )
        await store.seal(segment, segment)
      }
      let folding = true
      const fold = store.fold(5).finally(() => {
        folding = false
      })
      do expect(await load(store, ...names)).toEqual(names.map((each) => `${each}-6`))
      while (folding)
      await fold
    })

    withStore('keeps binary keys and large values', async (store) => {
      const key = new Uint8Array([0, 255, 0, 1])
      const value = new Uint8Array(300_000).map((_, i) => i % 251)
      await store.write(1, [{ keyGroup: 7, key, value, timers: undefined }])
      const [found] = await store.load([{ keyGroup: 7, key }])
      expect(found?.length).toBe(value.length)
      expect(Buffer.from(found!).equals(value)).toBe(true)
    })

    if (!reopens) return

    withStore('what was sealed is there after a crash, and nothing else', async (store, reopen) => {
      await store.write(1, [record('a', 'a1', 't1'), record('b', 'b1')])
      await store.seal(1, 1)
      await store.write(2, [record('a', 'a2')])
      const sealed = await store.seal(2, 2)
      await store.write(3, [record('a', 'a3'), record('c', 'c3')])
      const again = await reopen({ range: [0, 7], sealed: JSON.parse(JSON.stringify(sealed)) })
      expect(await load(again, 'a', 'b', 'c')).toEqual(['a2', 'b1', undefined])
      expect(await timers(again)).toEqual({})
      await again.write(1, [record('b', 'new')])
      const next = await again.seal(1, 3)
      const last = await reopen({ range: [0, 7], sealed: next })
      expect(await scan(last, 0)).toEqual({ a: ['a2', undefined], b: ['new', undefined] })
    })

    withStore('a segment that no seal named counts for the next seal', async (store, reopen) => {
      await store.write(1, [record('a', 'a1')])
      await store.write(2, [record('b', 'b2')])
      const sealed = await store.seal(2, 2)
      expect(await scan(await reopen({ range: [0, 7], sealed }), 0)).toEqual({
        a: ['a1', undefined],
        b: ['b2', undefined],
      })
    })

    withStore('what was folded is there after a crash', async (store, reopen) => {
      let sealed: unknown
      for (let segment = 1; segment <= 6; segment++) {
        await store.write(segment, [record('a', `a${segment}`), record(`k${segment}`, 'k', 't')])
        sealed = await store.seal(segment, segment)
      }
      await store.fold(6)
      const again = await reopen({ range: [0, 7], sealed })
      expect(await load(again, 'a', 'k1', 'k6')).toEqual(['a6', 'k', 'k'])
      expect(Object.keys(await timers(again))).toEqual(['k1', 'k2', 'k3', 'k4', 'k5', 'k6'])
    })
  })
}
