/**
 * Turns an error into one screen of text for somebody who is woken up by it: what failed, where, why, what to do.
 * Pure text work, so that the log, the command line and the tests say the same.
 */
import { isMillraceError, type MillraceError } from '../errors.ts'

/** Causes beyond this depth are left out; a chain that closes on itself ends here too. */
const MAX_DEPTH = 8
/** Stack lines of the user's own code that are shown for one error. */
const MAX_FRAMES = 5
/** Stack lines shown for an error of no code that we know, when none is the user's own. */
const FOREIGN_FRAMES = 3
/** Errors shown of an AggregateError. */
const MAX_MEMBERS = 3
/** Longest text of one detail. */
const MAX_DETAIL = 200

/** The folder that this package's own code runs from. */
const OWN_CODE = new URL('..', import.meta.url)

/** One error of a chain, in parts. */
export interface ErrorLink {
  /** Class, e.g. `TypeError`. */
  readonly name: string
  readonly message: string
  readonly code: string | undefined
  readonly remedy: string | undefined
  /** Facts of the error that are plain values: topic, partition, offset. */
  readonly details: Readonly<Record<string, string>>
  /** Lines of the user's own code, the innermost first, each `name (file:line:column)` or `file:line:column`. */
  readonly frames: readonly string[]
}

/**
 * Where a line of compiled code was written, as `file:line:column`; undefined if nobody knows. `file` as it stands in a stack: a path or a
 * `file:` URL; line and column count from 1.
 */
export type FindSource = (file: string, line: number, column: number) => string | undefined

/**
 * The error and what caused it, the outermost first. Anything may be thrown, so anything is taken. Stack lines stay as they are without
 * `findSource`.
 */
export function errorChain(error: unknown, findSource?: FindSource): ErrorLink[] {
  const links: ErrorLink[] = []
  const seen = new Set<unknown>()
  const visit = (value: unknown, depth: number): void => {
    if (value === undefined || value === null || depth === 0 || seen.has(value)) return
    seen.add(value)
    links.push(linkOf(value, findSource))
    if (typeof value !== 'object') return
    if ('errors' in value && Array.isArray(value.errors))
      for (const member of value.errors.slice(0, MAX_MEMBERS)) visit(member, depth - 1)
    if ('cause' in value) visit(value.cause, depth - 1)
  }
  visit(error, MAX_DEPTH)
  if (links.length === 0) links.push({ ...NO_FACTS, name: 'Error', message: `${String(error)} was thrown` })
  return links
}

const NO_FACTS = { code: undefined, remedy: undefined, details: {}, frames: [] } as const

function linkOf(value: unknown, findSource: FindSource | undefined): ErrorLink {
  if (typeof value !== 'object' || value === null)
    return { ...NO_FACTS, name: typeof value, message: String(value) }
  const { name, message, stack, code } = value as Partial<MillraceError>
  const known = isMillraceError(value) ? value : undefined
  return {
    name: typeof name === 'string' && name !== '' ? name : 'Error',
    message: typeof message === 'string' ? message : describeObject(value),
    code: typeof code === 'string' ? code : undefined,
    remedy: known?.remedy,
    details: plainDetails(known?.details),
    // An error of the operating system says all in its message.
    frames:
      typeof stack === 'string' ? framesOf(stack, known !== undefined || 'syscall' in value, findSource) : [],
  }
}

function describeObject(value: object): string {
  const keys = Object.keys(value).slice(0, MAX_MEMBERS)
  return `an object with ${keys.length === 0 ? 'no fields' : `the fields ${keys.join(', ')}`} was thrown`
}

function plainDetails(details: MillraceError['details'] | undefined): Record<string, string> {
  const plain: Record<string, string> = {}
  for (const [key, value] of Object.entries(details ?? {}))
    if (['string', 'number', 'bigint', 'boolean'].includes(typeof value)) plain[key] = shorten(String(value))
  return plain
}

const shorten = (text: string): string => (text.length <= MAX_DETAIL ? text : `${text.slice(0, MAX_DETAIL)}…`)

/**
 * Stack lines without those of Node.js, of packages and of Millrace itself. A syntax error has no line of its own code, but Node.js
 * puts the place and the source line in front of the stack.
 */
function framesOf(stack: string, ours: boolean, findSource: FindSource | undefined): string[] {
  const place = /^(?:file:\/\/)?(\S.*:\d+)\n\s*(.*)\n\s*\^/.exec(stack)
  if (place !== null) return [`${place[1]}: ${place[2]!.trim()}`]
  const lines = stack
    .split('\n')
    .filter((line) => /^\s+at .*:\d+:\d+\)?$/.test(line) && !/\bnode:/.test(line))
    .map((line) => written(line.replace(/^\s+at /, ''), findSource).replaceAll('file://', ''))
  const own = lines.filter((line) => !isForeign(line)).slice(0, MAX_FRAMES)
  return own.length > 0 || ours ? own : lines.slice(0, FOREIGN_FRAMES)
}

/** The line with the place where it was written. */
function written(line: string, findSource: FindSource | undefined): string {
  const [, before, file, row, column, after] = /^(.*\()?(.+):(\d+):(\d+)(\)?)$/.exec(line) ?? []
  const source = file === undefined ? undefined : findSource?.(file, Number(row), Number(column))
  return source === undefined ? line : `${before ?? ''}${source}${after}`
}

const isForeign = (line: string): boolean =>
  /[/\\]node_modules[/\\]/.test(line) || line.includes(OWN_CODE.pathname)

/**
 * The report: what failed with its code, where, the chain of causes with the user's own stack lines, and what to do.
 * The advice nearest to the root comes first, since it is the most precise one.
 */
export function formatError(error: unknown, findSource?: FindSource): string {
  const links = errorChain(error, findSource)
  const lines: string[] = []
  links.forEach((link, depth) => {
    const code = link.code === undefined ? '' : ` [${link.code}]`
    const head = depth === 0 ? '' : 'caused by '
    const name = link.code?.startsWith('MILLRACE_') && depth === 0 ? '' : `${link.name}: `
    lines.push(`${head}${name}${indented(link.message)}${code}`)
    const told = Object.entries(link.details).filter(([, value]) => !link.message.includes(value))
    if (told.length > 0) lines.push(`    ${told.map(([key, value]) => `${key}=${value}`).join(' ')}`)
    for (const frame of link.frames) lines.push(`    at ${frame}`)
  })
  const remedies = new Set(links.flatMap((link) => link.remedy ?? []).reverse())
  for (const remedy of remedies) lines.push(`What to do: ${remedy}`)
  return lines.join('\n')
}

/** Further lines of a message, set in so that the report keeps its shape. */
const indented = (message: string): string => message.replaceAll('\n', '\n    ')
