import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { checkpoints } from '../../../src/cli/checkpoints.ts'
import type { RunContext } from '../../../src/cli/run.ts'
import { state } from '../../../src/cli/state.ts'
import { JobDirectory } from '../../../src/state/job-directory.ts'
import { completed } from '../state/completed-checkpoint.ts'

const GOLDEN = join(import.meta.dirname, '..', '..', 'compat', 'savepoint', 'format-1')

let folder: string
let out: string
let told: string
let code: number
let context: RunContext
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-cli-'))
  out = told = ''
  code = 0
  context = {
    folder,
    environment: {},
    stdout: { write: (text: string) => (out += text) },
    stderr: { write: (text: string) => (told += text) },
    setExitCode: (exit) => {
      code = exit
    },
  }
})
afterEach(() => rm(folder, { recursive: true }))

describe('millrace checkpoints, over a directory', () => {
  beforeEach(async () => {
    const directory = new JobDirectory({ root: folder, job: 'etl', memoryThreshold: 0 })
    const attempt = await directory.begin('run', 3)
    const operator = await attempt.blobs(8).put('count-0-operator', Buffer.from('state'))
    const shape = { uid: 'count', name: 'Count', parallelism: 1, maxParallelism: 128 }
    const states = [{ uid: 'count', subtask: 0, operator, splits: [{ id: 'in-0', position: '7' }] }]
    await attempt.writeMetadata(
      completed({ n: 8, attempt: 3, completedAt: 2_000, operators: [shape], states }),
    )
    await attempt.writeMetadata(completed({ n: 9, attempt: 3, completedAt: 3_000 }))
  })

  test('lists them, oldest first', async () => {
    await checkpoints(['list', 'etl', '--dir', folder], context)
    const [head, first, second] = out.split('\n')
    expect(head).toMatch(/^N {2}KIND {8}RUN/)
    expect(first).toMatch(new RegExp(`^8 .* 1970-01-01T00:00:02.000Z .*${folder}/etl/run/chk-8$`))
    expect(second).toMatch(/^9 /)
  })

  test('as JSON, too, one a line', async () => {
    await checkpoints(['list', 'etl', '--dir', folder, '--json'], context)
    expect(
      out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).n),
    ).toEqual([8, 9])
  })

  test('shows one by its number, the latest without one', async () => {
    await checkpoints(['show', 'etl', '8', '--dir', folder], context)
    expect(out).toContain("subtask 0  position { id: 'in-0', position: '7' }")
    expect(out).toContain('operator state: 5 bytes')
    out = ''
    await checkpoints(['show', 'etl', '--dir', folder, '--json'], context)
    expect(JSON.parse(out)).toMatchObject({ n: 9 })
  })

  test('says what is not there, with exit code 3', async () => {
    await checkpoints(['show', 'etl', '77', '--dir', folder], context)
    expect(told).toContain('no completed checkpoint 77 of etl')
    expect(code).toBe(3)
  })
})

describe('millrace state', () => {
  test('lists operators with their states, and reads one key of one operator', async () => {
    await state(['list', GOLDEN, '--json'], context)
    const lines = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines).toMatchObject([
      { uid: 'orders', keys: 0, positions: 1 },
      {
        uid: 'count',
        keys: 3,
        timers: 2,
        states: expect.arrayContaining([expect.objectContaining({ name: 'total', entries: 2 })]),
      },
    ])
    out = ''
    await state(['read', GOLDEN, '--operator', 'Count per user', '--key', '42'], context)
    expect(out).toBe(
      "count  key 42  last (reducing)  'recent'\ncount  key 42  raw (aggregating, bytes of serde bytes)  Uint8Array(3) [ 1, 2, 3 ]\n",
    )
  })

  test.each([
    ['text', 'user-17', "'user-17'"],
    ['text as JSON', '"user-17"', "'user-17'"],
    ['a tuple as JSON', '["tuple", {"$bigint":"5"}, false]', "[ 'tuple', 5n, false ]"],
  ])('finds a key that is typed as %s', async (_how, typed, shown) => {
    await state(['read', GOLDEN, '--key', typed], context)
    expect(out.split('\n')[0]).toContain(`key ${shown}`)
  })

  test.each([
    [['--operator', 'none'], 'there are orders (Source: orders), count (Count per user)'],
    [['--key', 'nobody'], 'no state of key nobody'],
  ])('%j that is not there is exit code 3', async (options, message) => {
    await state(['read', GOLDEN, ...options], context)
    expect(told).toContain(message)
    expect(code).toBe(3)
  })

  test('names the damaged file, the operator and its key groups', async () => {
    const damaged = join(folder, 'damaged')
    await cp(GOLDEN, damaged, { recursive: true })
    await rm(join(damaged, 'count-0-keyed'))
    await expect(state(['read', damaged], context)).rejects.toMatchObject({
      code: 'MILLRACE_STATE_LOST',
      message: `State of operator count, key groups 3–90, is lost: '${damaged}/count-0-keyed' does not exist`,
    })
  })

  test.each([[['read']], [['dump', GOLDEN]], [['list', GOLDEN, 'more']]])(
    '%j is wrong usage',
    async (args) => {
      await expect(state(args, context)).rejects.toMatchObject({ code: 'MILLRACE_USAGE' })
    },
  )
})

test.each([
  ['checkpoints', checkpoints],
  ['state', state],
])('millrace %s --help has examples', async (name, command) => {
  await command(['--help'], context)
  expect(out).toMatch(new RegExp(`^Usage: millrace ${name} `))
  expect(out).toContain('Examples:\n  millrace')
})
