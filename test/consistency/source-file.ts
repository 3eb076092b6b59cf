/** Reads TypeScript sources the way the consistency tests need them: which modules each one imports, and its syntax tree. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { parseSync } from '@swc/core'

/** How a module is reached: when the importer loads, only by the compiler, or when the code asks for it. */
export type ImportKind = 'static' | 'type' | 'lazy'

export interface Import {
  /** As written: './element.ts', 'kafkajs', 'node:fs'. */
  readonly specifier: string
  readonly kind: ImportKind
  readonly line: number
  /** Path of the imported source file relative to the repository; undefined for packages and node:*. */
  readonly file: string | undefined
}

/** A node of the syntax tree. */
export interface SyntaxNode {
  readonly type: string
  readonly [key: string]: any
}

export interface SourceFile {
  /** Relative to the repository, with slashes: 'src/core/element.ts'. */
  readonly path: string
  readonly text: string
  readonly lines: number
  readonly imports: readonly Import[]
  readonly tree: SyntaxNode
  /** 1-based line of a node of `tree`. */
  lineOf(node: SyntaxNode): number
}

/** The repository's root folder. */
export const ROOT = join(import.meta.dirname, '..', '..')

/** All TypeScript sources below a folder of the repository, sorted by path. */
export function readSources(folder: string): SourceFile[] {
  return readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .sort()
    .map((path) => parseSource(path, readFileSync(join(ROOT, path), 'utf8')))
}

/** A source from its text; tests make offending samples with it. Parsed when its tree or imports are asked for. */
export function parseSource(path: string, text: string): SourceFile {
  let parsed: Parsed | undefined
  let imports: Import[] | undefined
  const parse = () => {
    parsed ??= parseText(text)
    return parsed
  }
  return {
    path,
    text,
    lines: text.split('\n').length - (text.endsWith('\n') ? 1 : 0),
    get tree() {
      return parse().tree
    },
    get imports() {
      imports ??= importsOf(path, parse())
      return imports
    },
    lineOf: (node) => parse().lineOf(node),
  }
}

interface Parsed {
  readonly tree: SyntaxNode
  lineOf(node: SyntaxNode): number
}

function parseText(text: string): Parsed {
  // Positions of the parser grow over all parses of the process and start at the first token, so a first token of our own is the origin.
  const marker = '0;'
  const bytes = Buffer.from(text.replace(/^#!/, '//'))
  const options = { syntax: 'typescript', target: 'es2024' } as const
  const tree = parseSync(marker + bytes.toString(), options) as unknown as SyntaxNode
  const origin = tree['span'].start + marker.length
  const lineOf = (node: SyntaxNode): number => {
    let line = 1
    for (let i = 0, end = node['span'].start - origin; i < end; i++) if (bytes[i] === 10) line++
    return line
  }
  return { tree, lineOf }
}

function importsOf(path: string, { tree, lineOf }: Parsed): Import[] {
  const imports: Import[] = []
  const requires = requireFunctions(tree)
  walk(tree, (node) => {
    const found = importOf(node, requires)
    if (found !== undefined)
      imports.push({ ...found, line: lineOf(node), file: resolveFile(path, found.specifier) })
  })
  return imports
}

/** Calls `visit` with every node and the chain of its ancestors, nearest last. */
export function walk(
  root: SyntaxNode,
  visit: (node: SyntaxNode, ancestors: readonly SyntaxNode[], key: string) => void,
): void {
  const ancestors: SyntaxNode[] = []
  const enter = (value: unknown, key: string): void => {
    if (Array.isArray(value)) {
      for (const item of value) enter(item, key)
      return
    }
    if (typeof value !== 'object' || value === null) return
    const node = value as SyntaxNode
    const isNode = typeof node.type === 'string'
    if (isNode) {
      visit(node, ancestors, key)
      ancestors.push(node)
    }
    for (const [childKey, child] of Object.entries(node)) if (childKey !== 'span') enter(child, childKey)
    if (isNode) ancestors.pop()
  }
  enter(root, '')
}

/** Names under which the file can require: `require`, and what `createRequire` gave. */
function requireFunctions(tree: SyntaxNode): ReadonlySet<string> {
  const names = new Set(['require'])
  walk(tree, (node) => {
    if (node.type === 'VariableDeclarator' && node['init']?.callee?.value === 'createRequire')
      names.add(node['id'].value)
  })
  return names
}

function importOf(
  node: SyntaxNode,
  requires: ReadonlySet<string>,
): { specifier: string; kind: ImportKind } | undefined {
  switch (node.type) {
    case 'ImportDeclaration':
      return { specifier: node['source'].value, kind: node['typeOnly'] ? 'type' : 'static' }
    case 'ExportNamedDeclaration':
    case 'ExportAllDeclaration':
      return node['source']
        ? { specifier: node['source'].value, kind: node['typeOnly'] ? 'type' : 'static' }
        : undefined
    case 'TsImportType':
      return { specifier: node['argument'].value, kind: 'type' }
    case 'CallExpression': {
      const argument = node['arguments'][0]?.expression
      if (argument?.type !== 'StringLiteral') return undefined
      if (node['callee'].type === 'Import') return { specifier: argument.value, kind: 'lazy' }
      const isRequire = node['callee'].type === 'Identifier' && requires.has(node['callee'].value)
      return isRequire ? { specifier: argument.value, kind: 'lazy' } : undefined
    }
    default:
      return undefined
  }
}

function resolveFile(from: string, specifier: string): string | undefined {
  if (!specifier.startsWith('.')) return undefined
  const parts = from.split('/').slice(0, -1)
  for (const part of specifier.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '.') parts.push(part)
  }
  return parts.join('/')
}
