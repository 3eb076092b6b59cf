/**
 * Where a line of compiled code was written, by the source map that the compiled file names. Node.js does this itself only for modules that
 * were loaded after source maps were enabled, and the module of a job that plain node runs is loaded before any code of ours.
 */
import { readFileSync } from 'node:fs'
import { SourceMap, type SourceMapPayload } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { FindSource } from '../core/error-report.ts'

/** A compiled file's map. */
interface KnownMap {
  readonly map: SourceMap
  /** What its sources are relative to. */
  readonly base: URL
  readonly sourceRoot: string
}

/** Maps by compiled file: a job that fails again and again fails at the same place. */
const known = new Map<string, KnownMap | undefined>()

export const findSource: FindSource = (file, line, column) => {
  if (!known.has(file)) known.set(file, mapOf(file))
  const found = known.get(file)
  if (found === undefined) return undefined
  const { map, base, sourceRoot } = found
  const entry = map.findEntry(line - 1, column - 1)
  if (!('originalSource' in entry) || entry.originalSource === undefined) return undefined
  const source = new URL(`${sourceRoot}${entry.originalSource}`, base)
  const path = source.protocol === 'file:' ? fileURLToPath(source) : source.href
  return `${path}:${entry.originalLine + 1}:${entry.originalColumn + 1}`
}

function mapOf(file: string): KnownMap | undefined {
  try {
    const url = file.startsWith('file:') ? new URL(file) : pathToFileURL(file)
    const named = [...readFileSync(url, 'utf8').matchAll(/^\s*\/\/[#@]\s*sourceMappingURL=(\S+)\s*$/gm)].at(
      -1,
    )
    if (named === undefined) return undefined
    const base = new URL(named[1] as string, url)
    const isInline = base.protocol === 'data:'
    const payload = JSON.parse(isInline ? dataOf(base) : readFileSync(base, 'utf8')) as SourceMapPayload
    return { map: new SourceMap(payload), base: isInline ? url : base, sourceRoot: payload.sourceRoot ?? '' }
  } catch {
    // The place in the compiled code is told then, as without a map: a report must come out whatever lies on the disk.
    return undefined
  }
}

/** The text of a `data:` URL. */
function dataOf({ pathname }: URL): string {
  const comma = pathname.indexOf(',')
  const text = pathname.slice(comma + 1)
  return pathname.slice(0, comma).endsWith(';base64')
    ? Buffer.from(text, 'base64').toString()
    : decodeURIComponent(text)
}
