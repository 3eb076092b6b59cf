/**
 * The dependency rules of src, as data and pure checks. ARCHITECTURE.md tells why each one exists.
 *
 *            errors
 *              ↑
 *             core    ←  api, serdes, connectors, metrics
 *              ↑
 *          checkpoint ←  state, kafka, runtime/* (not deployment.ts), rest
 *              ↑
 *     runtime/deployment.ts   imports all of the above + config
 *              ↑
 *     index.ts, cli           (testing may import anything; nothing else imports testing)
 */
import type { Import, SourceFile } from './source-file.ts'

/** A part of src that has rules of its own: a top folder, or one of the files with a special place. */
export type Layer =
  | 'errors'
  | 'config'
  | 'index'
  | 'deployment'
  | 'api'
  | 'core'
  | 'checkpoint'
  | 'state'
  | 'kafka'
  | 'runtime'
  | 'connectors'
  | 'serdes'
  | 'metrics'
  | 'rest'
  | 'cli'
  | 'testing'

/** What each layer may import besides itself. */
export const MAY_IMPORT: Readonly<Record<Layer, readonly Layer[]>> = {
  errors: [],
  core: ['errors'],
  config: ['errors', 'core'],
  api: ['errors', 'core'],
  serdes: ['errors', 'core'],
  connectors: ['errors', 'core'],
  metrics: ['errors', 'core'],
  checkpoint: ['errors', 'core'],
  state: ['errors', 'core', 'checkpoint'],
  kafka: ['errors', 'core', 'checkpoint'],
  runtime: ['errors', 'core', 'checkpoint'],
  rest: ['errors', 'core', 'checkpoint', 'api'],
  deployment: [
    'errors',
    'core',
    'checkpoint',
    'state',
    'kafka',
    'runtime',
    'rest',
    'api',
    'serdes',
    'connectors',
    'metrics',
    'config',
  ],
  index: [
    'errors',
    'core',
    'checkpoint',
    'state',
    'kafka',
    'runtime',
    'rest',
    'api',
    'serdes',
    'connectors',
    'metrics',
    'config',
    'deployment',
  ],
  cli: [
    'errors',
    'core',
    'checkpoint',
    'state',
    'kafka',
    'runtime',
    'rest',
    'api',
    'serdes',
    'connectors',
    'metrics',
    'config',
    'deployment',
    'index',
  ],
  testing: [
    'errors',
    'core',
    'checkpoint',
    'state',
    'kafka',
    'runtime',
    'rest',
    'api',
    'serdes',
    'connectors',
    'metrics',
    'config',
    'deployment',
    'index',
    'cli',
  ],
}

/** The layer of a file of src, undefined for a place that no rule knows. */
export function layerOf(path: string): Layer | undefined {
  const inside = path.replace(/^src\//, '')
  const special: Record<string, Layer> = {
    'errors.ts': 'errors',
    'config.ts': 'config',
    'index.ts': 'index',
    'runtime/deployment.ts': 'deployment',
    'runtime/job-doctor.ts': 'deployment',
  }
  const named = special[inside]
  if (named !== undefined) return named
  const folder = inside.split('/')[0] as Layer
  return inside.includes('/') && folder in MAY_IMPORT ? folder : undefined
}

/** The name of the npm package that an import reaches, undefined for files and node:*. */
export function packageOf(specifier: string): string | undefined {
  if (specifier.startsWith('.') || specifier.startsWith('node:')) return undefined
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}

const at = (file: SourceFile, found: Import): string =>
  `${file.path}:${found.line} imports '${found.specifier}'`

function offences(
  files: readonly SourceFile[],
  isOffence: (file: SourceFile, found: Import) => string | false,
): string[] {
  return files.flatMap((file) =>
    file.imports.flatMap((found) => {
      const reason = isOffence(file, found)
      return reason === false ? [] : [`${at(file, found)}: ${reason}`]
    }),
  )
}

/** Every file of src has a layer, so none escapes the rules. */
export function filesWithoutLayer(files: readonly SourceFile[]): string[] {
  return files
    .filter((file) => layerOf(file.path) === undefined)
    .map((file) => `${file.path} lies in no layer; add its folder to the table or move it`)
}

/** Imports of `layer` that its row of the table does not hold. */
export function layerOffences(files: readonly SourceFile[], layer: Layer): string[] {
  const allowed = MAY_IMPORT[layer]
  return offences(files, (file, found) => {
    if (layerOf(file.path) !== layer || found.file === undefined) return false
    const target = layerOf(found.file)
    if (target === layer || (target !== undefined && allowed.includes(target))) return false
    return `${layer} may import ${allowed.length === 0 ? 'nothing' : allowed.join(', ')}`
  })
}

/** core and checkpoint live without Node and without packages. */
export function impureImports(files: readonly SourceFile[]): string[] {
  return offences(files, (file, found) => {
    const layer = layerOf(file.path)
    if (layer !== 'core' && layer !== 'checkpoint') return false
    return found.file === undefined && `${layer} is pure: no node:*, no npm package`
  })
}

/** The shell picks no leaf: concrete clusters and backends are known to the composition root and the test kit only. */
export function compositionOffences(files: readonly SourceFile[]): string[] {
  return offences(files, (file, found) => {
    const layer = layerOf(file.path)
    if (!found.file?.startsWith('src/kafka/kafkajs/') || file.path.startsWith('src/kafka/kafkajs/'))
      return false
    return (
      layer !== 'deployment' &&
      layer !== 'testing' &&
      'only runtime/deployment.ts picks the real Kafka cluster'
    )
  })
}

/** `rest` and `cli` look at the job through JobClient and statistics; of the shell they know the composition root only. */
export function observerOffences(files: readonly SourceFile[]): string[] {
  return offences(files, (file, found) => {
    const layer = layerOf(file.path)
    if ((layer !== 'rest' && layer !== 'cli') || found.file === undefined) return false
    const target = layerOf(found.file)
    if (target === 'checkpoint' && found.file !== 'src/checkpoint/checkpoint-stats.ts')
      return `${layer} sees checkpoints through checkpoint-stats.ts only`
    return target === 'runtime' && `${layer} uses JobClient, not the runtime's own objects`
  })
}

/** Where a package may be used, and whether it must be loaded when first needed. Packages that are not listed may be used anywhere outside core and checkpoint. */
export const PACKAGE_PLACES: Readonly<
  Record<string, { readonly within: readonly string[]; readonly lazy: boolean }>
> = {
  kafkajs: { within: ['src/kafka/kafkajs/'], lazy: false },
  ioredis: { within: ['src/state/redis-connection.ts'], lazy: true },
  'rocksdb-native': { within: ['src/state/rocksdb-'], lazy: true },
  '@kafkajs/confluent-schema-registry': { within: ['src/serdes/'], lazy: true },
  snappy: { within: ['src/kafka/'], lazy: true },
  'lz4-napi': { within: ['src/kafka/'], lazy: true },
  '@node-rs/crc32': { within: ['src/kafka/', 'src/state/', 'src/testing/'], lazy: false },
  'hyparquet-writer': { within: ['src/connectors/file-parquet.ts'], lazy: true },
  fastify: { within: ['src/rest/'], lazy: true },
}

/** Packages that are used outside their place. */
export function misplacedPackages(files: readonly SourceFile[]): string[] {
  return offences(files, (file, found) => {
    const name = packageOf(found.specifier)
    const place = name === undefined ? undefined : PACKAGE_PLACES[name]
    if (place === undefined || place.within.some((prefix) => file.path.startsWith(prefix))) return false
    return `${name} belongs in ${place.within.join(', ')}`
  })
}

/** Optional packages that load with their importer, so that a job without them would not start. */
export function eagerOptionalPackages(files: readonly SourceFile[], optional: readonly string[]): string[] {
  return offences(files, (file, found) => {
    const name = packageOf(found.specifier)
    if (name === undefined || found.kind !== 'static') return false
    const lazy = PACKAGE_PLACES[name]?.lazy === true || optional.includes(name)
    return (
      lazy &&
      file.path.startsWith('src/') &&
      `${name} is optional: load it with import() and an error that names it`
    )
  })
}

/** Packages that the published package does not bring along. */
export function undeclaredPackages(files: readonly SourceFile[], declared: readonly string[]): string[] {
  return offences(files, (_file, found) => {
    const name = packageOf(found.specifier)
    return (
      name !== undefined &&
      !declared.includes(name) &&
      `${name} is not in dependencies or optionalDependencies`
    )
  })
}

/** Files and packages that load together with `entry`: static imports of values, followed to their end. */
export function loadedWith(files: readonly SourceFile[], entry: string): Map<string, string> {
  const byPath = new Map(files.map((file) => [file.path, file]))
  const reachedFrom = new Map<string, string>([[entry, '']])
  const queue = [entry]
  for (let path = queue.pop(); path !== undefined; path = queue.pop()) {
    for (const found of byPath.get(path)?.imports ?? []) {
      const target = found.file ?? packageOf(found.specifier)
      if (found.kind !== 'static' || target === undefined || reachedFrom.has(target)) continue
      reachedFrom.set(target, path)
      if (found.file !== undefined) queue.push(found.file)
    }
  }
  return reachedFrom
}

/** What importing the public API must not load: the composition root, the Kafka client, a backend's client. */
export function eagerExecution(files: readonly SourceFile[], entry: string): string[] {
  const reachedFrom = loadedWith(files, entry)
  const chain = (target: string): string => {
    const path = [target]
    for (let from = reachedFrom.get(target); from; from = reachedFrom.get(from)) path.unshift(from)
    return path.join(' → ')
  }
  return [...reachedFrom.keys()]
    .filter(
      (target) =>
        target === 'src/runtime/deployment.ts' ||
        target.startsWith('src/kafka/kafkajs/') ||
        PACKAGE_PLACES[target]?.lazy === true ||
        target === 'kafkajs',
    )
    .map((target) => `importing ${entry} loads ${target}: ${chain(target)}`)
}

/** Import cycles, type imports and lazy ones included; each is given once, as the path that closes it. */
export function importCycles(files: readonly SourceFile[]): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]))
  const state = new Map<string, 'open' | 'done'>()
  const stack: string[] = []
  const cycles: string[] = []
  const visit = (path: string): void => {
    state.set(path, 'open')
    stack.push(path)
    for (const found of byPath.get(path)?.imports ?? []) {
      if (found.file === undefined || !byPath.has(found.file)) continue
      const seen = state.get(found.file)
      if (seen === undefined) visit(found.file)
      else if (seen === 'open')
        cycles.push([...stack.slice(stack.indexOf(found.file)), found.file].join(' → '))
    }
    stack.pop()
    state.set(path, 'done')
  }
  for (const file of files) if (!state.has(file.path)) visit(file.path)
  return cycles
}

/** index.ts files other than the two entry points. */
export function barrels(paths: readonly string[]): string[] {
  return paths
    .filter(
      (path) => /(^|\/)index\.ts$/.test(path) && path !== 'src/index.ts' && path !== 'src/testing/index.ts',
    )
    .map((path) => `${path}: name the things you need by their own files`)
}

/** Files and folders whose name says nothing about what is inside. */
export function emptyNames(paths: readonly string[]): string[] {
  return paths
    .filter((path) =>
      path.split('/').some((part) => /^(utils?|helpers?|types|common|misc|shared)(\.|$)/.test(part)),
    )
    .filter((path) => !path.startsWith('test/types/'))
    .map((path) => `${path}: name it after the noun that it holds`)
}

/** Imports of relative files that do not exist (a renamed file that only a type import still names, for example). */
export function danglingImports(files: readonly SourceFile[]): string[] {
  const known = new Set(files.map((file) => file.path))
  return offences(
    files,
    (_file, found) => found.file !== undefined && !known.has(found.file) && 'there is no such file',
  )
}

/** Files over the limit that have no entry, and entries that are not needed any more. */
export function longFiles(
  files: readonly SourceFile[],
  limit: number,
  reasons: Readonly<Record<string, string>>,
): string[] {
  const long = files.filter((file) => file.lines > limit)
  return [
    ...long
      .filter((file) => !reasons[file.path])
      .map(
        (file) =>
          `${file.path} has ${file.lines} lines (limit ${limit}): split it along a noun, or give a reason`,
      ),
    ...Object.keys(reasons)
      .filter((path) => !long.some((file) => file.path === path))
      .map((path) => `${path} is not over ${limit} lines any more: remove its entry`),
  ]
}
