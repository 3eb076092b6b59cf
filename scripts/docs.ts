/**
 * Writes the pages of docs/ that are made from tables in src.
 * `node scripts/docs.ts --check` writes nothing and exits 1 if a page is not what it would write.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { ROOT, referencePages } from './lib/reference-pages.ts'

const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } })

function current(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

let stale = 0
for (const page of referencePages()) {
  const path = join(ROOT, page.path)
  if (current(path) === page.text) continue
  stale++
  if (values.check) {
    console.error(`${page.path} is stale: run npm run docs`)
  } else {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, page.text)
    console.log(`wrote ${page.path}`)
  }
}
if (values.check && stale > 0) process.exitCode = 1
