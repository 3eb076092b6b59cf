import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { parseSettings, settingsOfFile } from '../../../src/config/config-file.ts'

const read = async (text: string) =>
  (await parseSettings(text, 'm.yaml')).map(({ key, input, source }) => [key, input, source])

describe('text', () => {
  test('nested maps and flat keys mean the same, also mixed', async () => {
    const text = `
state:
  backend: filesystem
  backend.fs:
    memory-threshold: 2kb
# checkpoints
state.checkpoints.dir: /data
`
    expect(await read(text)).toEqual([
      ['state.backend', 'filesystem', 'm.yaml:3'],
      ['state.backend.fs.memory-threshold', '2kb', 'm.yaml:5'],
      ['state.checkpoints.dir', '/data', 'm.yaml:7'],
    ])
  })

  test('values are read as they were written, so digits and booleans keep their form', async () => {
    const text = 'kafka.sasl.password: 007\nstate.backend.async: True\na: 10 min\nb: "12"\nc: 0x10\nd: 1_000'
    expect((await read(text)).map(([, input]) => input)).toEqual([
      '007',
      'True',
      '10 min',
      '12',
      '0x10',
      '1_000',
    ])
  })

  test('lists are block, flow or text', async () => {
    expect(await read('kafka:\n  brokers:\n    - a:1\n    - b:2')).toEqual([
      ['kafka.brokers', ['a:1', 'b:2'], 'm.yaml:2'],
    ])
    expect(await read('kafka.brokers: [a:1, "b:2"]')).toEqual([['kafka.brokers', ['a:1', 'b:2'], 'm.yaml:1']])
    expect(await read('kafka.brokers: a:1,b:2')).toEqual([['kafka.brokers', 'a:1,b:2', 'm.yaml:1']])
  })

  test('anchors and aliases are followed', async () => {
    expect(await read('a: &x {k: 1}\nb: *x')).toEqual([
      ['a.k', '1', 'm.yaml:1'],
      ['b.k', '1', 'm.yaml:1'],
    ])
  })

  test.each(['', '# nothing\n', '---\n'])('%j sets nothing', async (text) => {
    expect(await read(text)).toEqual([])
  })

  test.each([
    ['a: 1\nb: [', /^m\.yaml:2: /],
    ['a: 1\na: 2', /^m\.yaml:2: .*unique/],
    ['a:\n  b: 1\na.b: 2', /^m\.yaml:3: 'a\.b' was set before, at m\.yaml:2$/],
    ['a: 1\nb:\n', /^m\.yaml:2: 'b' has no value$/],
    ['a: [[1]]', /^m\.yaml:1: 'a' is not a list of plain values$/],
    ['- a\n- b', /^m\.yaml:1: expected a map/],
    ['just text', /^m\.yaml:1: expected a map/],
  ])('%j is refused with its line', async (text, message) => {
    await expect(parseSettings(text, 'm.yaml')).rejects.toMatchObject({
      code: 'MILLRACE_CONFIG_FILE',
      message: expect.stringMatching(message),
    })
  })
})

describe('files', () => {
  let folder: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-config-'))
  })
  afterEach(() => rm(folder, { recursive: true }))

  test('millrace.yaml is read from the folder if it is there', async () => {
    expect(await settingsOfFile(undefined, folder)).toEqual([])
    await writeFile(join(folder, 'millrace.yaml'), 'log.level: warn\n')
    expect(await settingsOfFile(undefined, folder)).toMatchObject([
      { key: 'log.level', source: 'millrace.yaml:1' },
    ])
  })

  test('a named file must exist, and is read instead', async () => {
    await writeFile(join(folder, 'millrace.yaml'), 'log.level: warn\n')
    await writeFile(join(folder, 'other.yaml'), 'log.level: error\n')
    expect(await settingsOfFile('other.yaml', folder)).toMatchObject([
      { input: 'error', source: 'other.yaml:1' },
    ])
    await expect(settingsOfFile('missing.yaml', folder)).rejects.toMatchObject({
      code: 'MILLRACE_CONFIG_FILE',
      message: expect.stringContaining(`${join(folder, 'missing.yaml')} (ENOENT)`),
    })
  })
})
