import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import {
  barrels,
  compositionOffences,
  danglingImports,
  eagerExecution,
  eagerOptionalPackages,
  emptyNames,
  filesWithoutLayer,
  importCycles,
  impureImports,
  type Layer,
  layerOffences,
  longFiles,
  MAY_IMPORT,
  misplacedPackages,
  observerOffences,
  undeclaredPackages,
} from './import-rules.ts'
import { parseSource, ROOT, readSources, type SourceFile } from './source-file.ts'

/** Files that may be longer than the limit, each with the reason why splitting it would make it harder to read. */
const LONG_FILES: Readonly<Record<string, string>> = {
  'src/api/data-stream.ts': 'the types of streams refer to each other, and imports must not run in circles',
}
const LINE_LIMIT = 500

const src = readSources('src')
const everything = [...src, ...['test', 'scripts'].flatMap(readSources)]
const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const optional = Object.keys(manifest.optionalDependencies ?? {})
const declared = [...Object.keys(manifest.dependencies ?? {}), ...optional]

const sample = (files: Record<string, string>): SourceFile[] =>
  Object.entries(files).map(([path, text]) => parseSource(path, text))

describe('layers', () => {
  test('every file of src lies in a layer', () => {
    expect(filesWithoutLayer(src)).toEqual([])
  })

  for (const layer of Object.keys(MAY_IMPORT) as Layer[])
    test(`${layer} imports ${MAY_IMPORT[layer].join(', ') || 'nothing'} and itself, nothing else`, () => {
      expect(layerOffences(src, layer)).toEqual([])
    })

  test('core and checkpoint import neither node:* nor a package', () => {
    expect(impureImports(src)).toEqual([])
  })

  test('only runtime/deployment.ts picks the real Kafka cluster', () => {
    expect(compositionOffences(src)).toEqual([])
  })

  test('rest and cli see the job through JobClient and statistics', () => {
    expect(observerOffences(src)).toEqual([])
  })

  test('no import cycle, type imports included', () => {
    expect(importCycles(src)).toEqual([])
  })

  test('every relative import names a file that exists', () => {
    expect(danglingImports(src)).toEqual([])
  })

  test('importing the public API loads neither the composition root nor a client library', () => {
    expect(eagerExecution(src, 'src/index.ts')).toEqual([])
  })
})

describe('packages', () => {
  test('each client library is used in its own place only', () => {
    expect(misplacedPackages(src)).toEqual([])
  })

  test('optional packages are loaded when they are first needed', () => {
    expect(eagerOptionalPackages(src, optional)).toEqual([])
  })

  test('src uses only packages that are installed with millrace', () => {
    expect(undeclaredPackages(src, declared)).toEqual([])
  })
})

describe('files', () => {
  test('index.ts exists for the two entry points only', () => {
    expect(barrels(everything.map((file) => file.path))).toEqual([])
  })

  test('no file or folder is called utils, helpers, types or common', () => {
    expect(emptyNames(everything.map((file) => file.path))).toEqual([])
  })

  test(`a file over ${LINE_LIMIT} lines has a reason, and a reason has such a file`, () => {
    expect(longFiles(everything, LINE_LIMIT, LONG_FILES)).toEqual([])
  })
})

describe('the rules find offenders', () => {
  test('a file in a folder that no rule knows', () => {
    expect(filesWithoutLayer(sample({ 'src/misc/a.ts': '' }))).toHaveLength(1)
    expect(filesWithoutLayer(sample({ 'src/stray.ts': '' }))).toHaveLength(1)
  })

  test.each([
    ['errors', 'src/errors.ts', "import './core/element.ts'"],
    ['core', 'src/core/a.ts', "import type { Task } from '../runtime/task.ts'"],
    ['config', 'src/config.ts', "import './kafka/offsets.ts'"],
    ['api', 'src/api/a.ts', "await import('../runtime/deployment.ts')"],
    ['serdes', 'src/serdes/a.ts', "export { b } from '../kafka/b.ts'"],
    ['connectors', 'src/connectors/a.ts', "import '../kafka/b.ts'"],
    ['metrics', 'src/metrics/a.ts', "export * from '../rest/b.ts'"],
    ['checkpoint', 'src/checkpoint/a.ts', "let x: import('../state/b.ts').B"],
    ['state', 'src/state/a.ts', "import '../kafka/b.ts'"],
    ['kafka', 'src/kafka/kafkajs/a.ts', "import '../../state/b.ts'"],
    ['runtime', 'src/runtime/a.ts', "import type { C } from '../kafka/kafka-cluster.ts'"],
    ['rest', 'src/rest/a.ts', "import '../config.ts'"],
    ['deployment', 'src/runtime/deployment.ts', "import '../testing/simulation.ts'"],
    ['index', 'src/index.ts', "import './cli/main.ts'"],
    ['cli', 'src/cli/a.ts', "import '../testing/simulation.ts'"],
  ] as const)('an import that leaves the layer %s', (layer, path, text) => {
    const found = layerOffences(sample({ [path]: text }), layer)
    expect(found).toHaveLength(1)
    expect(found[0]).toMatch(new RegExp(`^${path}:1 imports '\\.`))
  })

  test('node:* and packages in pure code, with the line', () => {
    const files = sample({
      'src/core/a.ts': "// a\nimport { pino } from 'pino'\n",
      'src/checkpoint/b.ts': "\n\nimport type { x } from 'node:fs'\n",
      'src/kafka/c.ts': "import 'node:net'",
    })
    expect(impureImports(files).map((line) => line.split(':').slice(0, 2).join(':'))).toEqual([
      "src/core/a.ts:2 imports 'pino'",
      "src/checkpoint/b.ts:3 imports 'node",
    ])
  })

  test('a second place that picks the real cluster', () => {
    expect(
      compositionOffences(sample({ 'src/cli/a.ts': "import '../kafka/kafkajs/kafkajs-cluster.ts'" })),
    ).toHaveLength(1)
    expect(
      compositionOffences(
        sample({ 'src/runtime/deployment.ts': "import '../kafka/kafkajs/kafkajs-cluster.ts'" }),
      ),
    ).toEqual([])
  })

  test('a page that reads the coordinator', () => {
    const text = "import type { Coordinator } from '../checkpoint/coordinator.ts'"
    expect(observerOffences(sample({ 'src/rest/routes.ts': text }))).toHaveLength(1)
    expect(observerOffences(sample({ 'src/cli/list.ts': "import '../runtime/job-master.ts'" }))).toHaveLength(
      1,
    )
    expect(
      observerOffences(sample({ 'src/rest/a.ts': "import '../checkpoint/checkpoint-stats.ts'" })),
    ).toEqual([])
  })

  test('a cycle through a type import, named by its path', () => {
    const files = sample({
      'src/core/a.ts': "import './b.ts'",
      'src/core/b.ts': "import type { C } from './c.ts'",
      'src/core/c.ts': "import './a.ts'",
    })
    expect(importCycles(files)).toEqual(['src/core/a.ts → src/core/b.ts → src/core/c.ts → src/core/a.ts'])
  })

  test('an import of a file that is gone', () => {
    expect(danglingImports(sample({ 'src/core/a.ts': "import type { B } from './b.ts'" }))).toHaveLength(1)
  })

  test('an entry point that loads the composition root or a client through other files', () => {
    const files = sample({
      'src/index.ts': "import { a } from './api/a.ts'\nimport type { b } from './runtime/deployment.ts'",
      'src/api/a.ts':
        "import '../kafka/kafkajs/kafkajs-cluster.ts'\nawait import('../runtime/deployment.ts')",
      'src/kafka/kafkajs/kafkajs-cluster.ts': "import 'kafkajs'",
    })
    const found = eagerExecution(files, 'src/index.ts')
    expect(found).toHaveLength(2)
    expect(found[1]).toMatch('src/index.ts → src/api/a.ts → src/kafka/kafkajs/kafkajs-cluster.ts → kafkajs')
  })

  test('a client library outside its place, also when it is required', () => {
    const files = sample({
      'src/kafka/offsets.ts': "const load = createRequire(import.meta.url)\nload('kafkajs/src/protocol')",
      'src/runtime/a.ts': "import type Redis from 'ioredis'",
    })
    expect(misplacedPackages(files)).toHaveLength(2)
    expect(misplacedPackages(sample({ 'src/core/a.ts': "requireText('ioredis')" }))).toEqual([])
  })

  test('an optional package that loads at once', () => {
    expect(
      eagerOptionalPackages(sample({ 'src/kafka/a.ts': "import s from 'snappy'" }), ['snappy']),
    ).toHaveLength(1)
    expect(
      eagerOptionalPackages(sample({ 'src/kafka/a.ts': "import type s from 'snappy'" }), ['snappy']),
    ).toEqual([])
    expect(eagerOptionalPackages(sample({ 'src/kafka/a.ts': "await import('snappy')" }), ['snappy'])).toEqual(
      [],
    )
  })

  test('a package that is not in package.json', () => {
    expect(
      undeclaredPackages(sample({ 'src/rest/a.ts': "import '@scope/left-pad/x.js'" }), ['pino']),
    ).toEqual([
      "src/rest/a.ts:1 imports '@scope/left-pad/x.js': @scope/left-pad is not in dependencies or optionalDependencies",
    ])
  })

  test('barrels, empty names, and long files without a reason', () => {
    expect(barrels(['src/core/index.ts', 'src/index.ts', 'src/testing/index.ts'])).toHaveLength(1)
    expect(
      emptyNames(['src/core/utils.ts', 'test/helpers/a.ts', 'src/kafka/types.ts', 'test/types/a.ts']),
    ).toHaveLength(3)
    const long = sample({ 'src/core/a.ts': '//\n'.repeat(501), 'src/core/b.ts': '//\n'.repeat(500) })
    expect(longFiles(long, 500, {})).toHaveLength(1)
    expect(longFiles(long, 500, { 'src/core/a.ts': 'one table' })).toEqual([])
    expect(longFiles(long, 500, { 'src/core/a.ts': 'one table', 'src/core/b.ts': 'old' })).toHaveLength(1)
  })
})
