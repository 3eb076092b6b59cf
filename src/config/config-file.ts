/** Reads `millrace.yaml`: nested maps, flat dotted keys, or both, each setting with the line that made it. */
import { readFile } from 'node:fs/promises'
import { relative, resolve } from 'node:path'
import type { LineCounter, Node, Pair } from 'yaml'
import { ConfigError } from '../errors.ts'
import type { Setting } from './setting.ts'

/** The file that is looked for when none is named. */
export const DEFAULT_FILE = 'millrace.yaml'

/**
 * Settings of a file; none if the default file does not exist.
 * @throws ConfigError MILLRACE_CONFIG_FILE if a named file cannot be read, or a file is no map of keys.
 */
export async function settingsOfFile(named: string | undefined, folder: string): Promise<Setting[]> {
  const file = await readIfThere(named ?? DEFAULT_FILE, folder)
  if (file !== undefined) return parseSettings(file.text, file.shown)
  if (named === undefined) return []
  throw unreadable(resolve(folder, named), 'ENOENT', undefined)
}

/** A file's text, and its name for messages: relative where it lies below the folder. */
export interface NamedFile {
  readonly text: string
  readonly shown: string
}

/** A file that somebody named. @throws ConfigError MILLRACE_CONFIG_FILE if it cannot be read */
export async function readNamedFile(named: string, folder: string): Promise<NamedFile> {
  const file = await readIfThere(named, folder)
  if (file === undefined) throw unreadable(resolve(folder, named), 'ENOENT', undefined)
  return file
}

async function readIfThere(named: string, folder: string): Promise<NamedFile | undefined> {
  const path = resolve(folder, named)
  try {
    const text = await readFile(path, 'utf8')
    const inside = relative(folder, path)
    return { text, shown: inside.startsWith('..') ? path : inside }
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw unreadable(path, code, cause)
  }
}

function unreadable(path: string, code: string | undefined, cause: unknown): ConfigError {
  return new ConfigError(
    'MILLRACE_CONFIG_FILE',
    `Cannot read the configuration file ${path} (${code ?? 'unknown reason'})`,
    { cause },
  )
}

/**
 * Settings of a file's text. `lenient`: the file is of another program, so that what has no value is passed over, and a list of maps is kept
 * as its text: it cannot be an option of ours.
 * @throws ConfigError MILLRACE_CONFIG_FILE naming file, line and what is wrong.
 */
export async function parseSettings(
  text: string,
  fileName: string,
  { lenient = false }: { readonly lenient?: boolean } = {},
): Promise<Setting[]> {
  // Loaded when there is a file: a job without one starts faster.
  const yaml = await import('yaml')
  const lines = new yaml.LineCounter()
  const document = yaml.parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const fail = (at: string, what: string): never => {
    throw new ConfigError('MILLRACE_CONFIG_FILE', `${at}: ${what}`, { details: { file: fileName } })
  }
  const [problem] = document.errors
  if (problem !== undefined) fail(`${fileName}:${lines.linePos(problem.pos[0]).line}`, problem.message)

  const settings: Setting[] = []
  const place = (node: unknown): string => `${fileName}:${lineOf(node, lines)}`
  const visit = (prefix: string, node: unknown, at: string): void => {
    const value = yaml.isAlias(node) ? node.resolve(document) : node
    if (yaml.isMap(value)) {
      for (const pair of value.items as Pair[]) {
        const name = String(yaml.isScalar(pair.key) ? pair.key.value : pair.key)
        visit(prefix === '' ? name : `${prefix}.${name}`, pair.value, place(pair.key))
      }
      return
    }
    const before = settings.find((setting) => setting.key === prefix)
    if (before !== undefined) fail(at, `'${prefix}' was set before, at ${before.source}`)
    const add = (input: string | string[]): void => {
      settings.push({ key: prefix, input, origin: lenient ? 'flink' : 'file', source: at })
    }
    if (yaml.isSeq(value)) {
      const plain = value.items.every((item) => yaml.isScalar(item) && item.value !== null)
      if (!plain && !lenient) fail(at, `'${prefix}' is not a list of plain values`)
      add(
        plain
          ? value.items.map((item) => (yaml.isScalar(item) ? scalarText(item.value, item.source) : ''))
          : JSON.stringify(value.toJSON()),
      )
    } else if (yaml.isScalar(value) && value.value !== null) {
      add(scalarText(value.value, value.source))
    } else if (!lenient) {
      fail(at, `'${prefix}' has no value`)
    }
  }
  const root = document.contents as Node | null
  if (root === null || (yaml.isScalar(root) && root.value === null)) return []
  if (!yaml.isMap(root)) fail(place(root), 'expected a map of keys to values')
  visit('', root, place(root))
  return settings
}

/** A scalar as it was written: a password of digits keeps its leading zeros. */
function scalarText(value: unknown, source: string | undefined): string {
  return typeof value === 'string' ? value : (source ?? String(value))
}

function lineOf(node: unknown, lines: LineCounter): number {
  const range = (node as { range?: readonly number[] | null } | null)?.range
  return lines.linePos(range?.[0] ?? 0).line
}
