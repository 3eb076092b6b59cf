import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import type { RunContext } from '../../src/cli/run.ts'
import { state } from '../../src/cli/state.ts'
import { readKept } from '../../src/state/kept-file.ts'
import { type StoredKey, storedKeys } from '../../src/state/savepoint-reader.ts'
import { openSnapshot } from '../../src/state/savepoint-source.ts'
import { writeGolden } from './savepoint/format-1.ts'

const GOLDEN = join(import.meta.dirname, 'savepoint', 'format-1')

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-compat-'))
})
afterEach(() => rm(folder, { recursive: true }))

async function keysIn(path: string): Promise<StoredKey[]> {
  const { checkpoint } = await openSnapshot(path)
  const found: StoredKey[] = []
  for await (const record of storedKeys(checkpoint, 'count', readKept)) found.push(record)
  return found
}

describe('a savepoint of format 1', () => {
  test('is read for ever, from wherever it lies', async () => {
    const moved = join(folder, 'moved')
    await cp(GOLDEN, moved, { recursive: true })
    expect(await keysIn(moved)).toEqual([
      {
        keyGroup: 3,
        key: 'user-17',
        values: [
          {
            state: 'total',
            kind: 'value',
            namespace: '',
            serde: null,
            value: {
              count: 2,
              sum: 12_345_678_901_234_567_890n,
              since: new Date('2026-01-02T03:04:05.006Z'),
            },
          },
          {
            state: 'seen',
            kind: 'list',
            namespace: '',
            serde: null,
            value: ['a', null, Number.NaN, -0, new Uint8Array([0, 255])],
          },
          {
            state: 'by-day',
            kind: 'map',
            namespace: 1_767_225_600_000,
            serde: null,
            value: new Map<unknown, unknown>([
              ['mon', 1],
              [7, new Set(['x'])],
              [8n, true],
            ]),
          },
        ],
        timers: [
          { domain: 'event', namespace: 1_767_225_600_000, time: 1_767_225_659_999 },
          { domain: 'processing', namespace: '', time: 1_767_225_700_000 },
        ],
      },
      {
        keyGroup: 3,
        key: ['tuple', 5n, false],
        values: [
          {
            state: 'total',
            kind: 'value',
            namespace: '',
            serde: null,
            value: { count: 1, sum: 1n, since: new Date(0) },
          },
        ],
        timers: [],
      },
      {
        keyGroup: 90,
        key: 42,
        values: [
          { state: 'last', kind: 'reducing', namespace: '', serde: null, value: 'recent' },
          {
            state: 'raw',
            kind: 'aggregating',
            namespace: '',
            serde: 'bytes',
            value: new Uint8Array([1, 2, 3]),
          },
        ],
        timers: [],
      },
    ])
  })

  test('is written as it was, file by file', async () => {
    const path = await writeGolden(folder)
    const names = (await readdir(GOLDEN)).sort()
    expect((await readdir(path)).sort()).toEqual(names)
    for (const name of names)
      expect((await readFile(join(path, name))).toString('base64')).toBe(
        (await readFile(join(GOLDEN, name))).toString('base64'),
      )
  })

  test('is shown as one JSON object a line, with every value readable', async () => {
    let text = ''
    const context: RunContext = {
      folder,
      environment: {},
      stdout: { write: (part: string) => (text += part) },
      stderr: { write: () => undefined },
      setExitCode: () => undefined,
    }
    await state(['read', GOLDEN, '--json'], context)
    expect(text).toBe(await readFile(join(GOLDEN, '..', 'format-1.jsonl'), 'utf8'))
  })
})

test('the metadata of a later format is refused by its number', async () => {
  const path = join(folder, 'later')
  await cp(GOLDEN, path, { recursive: true })
  const file = join(path, '_metadata')
  await writeFile(
    file,
    (await readFile(file, 'utf8')).replace('millrace-savepoint 1 ', 'millrace-savepoint 2 '),
  )
  await expect(openSnapshot(path)).rejects.toMatchObject({
    code: 'MILLRACE_STATE_LOST',
    message: `'${file}' has format 2; this version reads up to 1`,
  })
})
