/** Finds what would make pure code depend on time, chance, the process, or the order of promises. */
import { type SourceFile, type SyntaxNode, walk } from './source-file.ts'

/** Globals that core and checkpoint must not touch; the world comes in through core/ports.ts. */
export const BANNED_GLOBALS: ReadonlySet<string> = new Set([
  'performance',
  'setTimeout',
  'setInterval',
  'setImmediate',
  'clearTimeout',
  'clearInterval',
  'clearImmediate',
  'queueMicrotask',
  'process',
  'console',
  'crypto',
  'fetch',
  'globalThis',
  'global',
  'require',
  'WeakRef',
  'FinalizationRegistry',
])

/** Keys under which an identifier is a name inside something else, not a reference to a variable. */
function isReference(node: SyntaxNode, parent: SyntaxNode | undefined, key: string): boolean {
  if (node.type !== 'Identifier' || parent === undefined) return false
  if (key === 'property' && parent.type === 'MemberExpression') return false
  if (key === 'key') return parent.type === 'Computed'
  if (key === 'imported' || key === 'exported' || key === 'orig') return false
  if (key === 'label') return false
  if (parent.type === 'TsParameter' || parent.type.startsWith('Ts')) return isValueInType(parent, key)
  return true
}

/** `x as T`, `x!`, `x satisfies T` hold values; the other Ts nodes hold types. */
function isValueInType(parent: SyntaxNode, key: string): boolean {
  const wrappers = [
    'TsAsExpression',
    'TsNonNullExpression',
    'TsSatisfiesExpression',
    'TsConstAssertion',
    'TsTypeAssertion',
  ]
  return key === 'expression' && wrappers.includes(parent.type)
}

/**
 * `Date` is allowed where it cannot tell the time: `new Date(ms)`, `Date.UTC(…)`, `x instanceof Date`, and as a type.
 */
function isTimelessDate(parent: SyntaxNode, key: string): boolean {
  if (parent.type === 'NewExpression' && key === 'callee') return parent['arguments']?.length === 1
  if (parent.type === 'BinaryExpression') return parent['operator'] === 'instanceof' && key === 'right'
  return parent.type === 'MemberExpression' && key === 'object' && parent['property']?.value === 'UTC'
}

/** References to banned globals, Date that tells the time, and Math.random. */
export function impureReferences(file: SourceFile): string[] {
  const found: string[] = []
  walk(file.tree, (node, ancestors, key) => {
    const parent = ancestors.at(-1)
    if (!isReference(node, parent, key)) return
    const name: string = node['value']
    const report = (what: string) => found.push(`${file.path}:${file.lineOf(node)} uses ${what}`)
    if (BANNED_GLOBALS.has(name)) report(name)
    if (name === 'Date' && !isTimelessDate(parent!, key)) report('Date')
    if (name === 'Math' && parent!.type === 'MemberExpression' && parent!['property']?.value === 'random')
      report('Math.random')
    if (name === 'Math' && parent!.type !== 'MemberExpression') report('Math as a value')
    if (name === 'Intl' && parent!.type !== 'MemberExpression') report('Intl as a value')
  })
  return found
}

/** async functions, await, and promises made by hand. A function that hands a user's promise on is none of these. */
export function promiseMaking(file: SourceFile): string[] {
  const found: string[] = []
  walk(file.tree, (node, ancestors, key) => {
    const report = (what: string) => found.push(`${file.path}:${file.lineOf(node)} has ${what}`)
    if (node['async'] === true || node['function']?.async === true) report('an async function')
    if (node.type === 'AwaitExpression') report('await')
    if (node.type === 'ForOfStatement' && node['await']) report('for await')
    if (node['value'] === 'Promise' && isReference(node, ancestors.at(-1), key))
      report('a promise of its own')
  })
  return found
}
