/** Where in the user's file something was declared. */
import { fileURLToPath } from 'node:url'

/** The folder that holds api/, core/ and so on: src, or dist in the published package. */
const OWN_FOLDER = fileURLToPath(new URL('..', import.meta.url))

/**
 * `jobs/etl.ts:12`: the nearest caller outside of this package, relative to the working directory when it lies below it.
 * Undefined when no such frame is found: messages then do without. Costs one stack trace, so call it once a declaration, never a record.
 */
export function callSite(): string | undefined {
  const frames = new Error().stack?.split('\n').slice(1) ?? []
  for (const frame of frames) {
    const match = /\(?((?:file:\/\/|\/|[A-Za-z]:[\\/])[^()]*?):(\d+):\d+\)?$/.exec(frame)
    if (match === null) continue
    const path = match[1]!.startsWith('file://') ? fileURLToPath(match[1]!) : match[1]!
    if (!path.startsWith(OWN_FOLDER)) return `${shortened(path)}:${match[2]}`
  }
  return undefined
}

function shortened(path: string): string {
  const folder = `${process.cwd()}/`
  return path.startsWith(folder) ? path.slice(folder.length) : path
}
