/** The screen of a job that FAILED, as its process prints it: TypeScript that Node.js runs itself, and TypeScript that was compiled. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { transformSync } from '@swc/core'
import { MAIN, runNode } from './node-process.ts'

jest.setTimeout(60_000)

const PACKAGE = pathToFileURL(join(import.meta.dirname, '..', '..', '..', 'src', 'index.ts')).href

/** The failing call stands in line 11, column 9. */
const JOB = `import { StreamExecutionEnvironment } from '${PACKAGE}'

interface Order {
  readonly id: number
  readonly country: string
}

const COUNTRIES: Record<string, string> = { DE: 'Germany' }
function nameOf(order: Order): string {
  const name = COUNTRIES[order.country]
  throw new Error(\`no such country: \${order.country} \${name}\`)
}

const env = StreamExecutionEnvironment.getExecutionEnvironment()
env.fromCollection<Order>([{ id: 7, country: 'Atlantis' }]).map(nameOf).name('countries').print()
await env.execute('orders')
`

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-failed-'))
  await writeFile(join(folder, 'job.ts'), JOB)
  const { code } = transformSync(JOB, {
    filename: 'job.ts',
    sourceFileName: 'job.ts',
    sourceMaps: 'inline',
    swcrc: false,
    jsc: { parser: { syntax: 'typescript' }, target: 'es2022' },
    module: { type: 'es6' },
  })
  await writeFile(join(folder, 'built.mjs'), code)
})
afterAll(() => rm(folder, { recursive: true }))

describe('a job that FAILED', () => {
  test.each(['job.ts', 'built.mjs'])(
    'prints one screen with the line of its TypeScript, the record, what is kept and the command: %s',
    async (file) => {
      const settings = ['-D', 'restart-strategy.type=none', '-D', 'log.level=error']
      const ended = await runNode(folder, [
        '--conditions=millrace-source',
        MAIN,
        'run',
        ...settings,
        '--fresh',
        file,
      ])
      expect(ended).toMatchObject({ code: 1, stdout: '' })
      const lines = ended.stderr.trimEnd().split('\n')
      expect(lines[0]).toMatch(
        /^job 'orders' FAILED \(the restart strategy is none\): map of operator 'countries' .*\[MILLRACE_JOB_FAILED\]$/,
      )
      expect(ended.stderr).toContain('record={"id":7,"country":"Atlantis"}')
      expect(ended.stderr).toMatch(/Error: no such country: Atlantis undefined\n {4}at .*job\.ts:11:9/)
      expect(ended.stderr).not.toContain('built.mjs:')
      expect(ended.stderr).not.toMatch(/node:internal|src\/runtime/)
      expect(lines.slice(-3)).toEqual([
        "Kept: nothing; job 'orders' failed, its checkpoints were in this process, and the next start begins anew.",
        'Start it again with',
        `    millrace run ${settings.join(' ')} ${file}`,
      ])
      expect(lines.length).toBeLessThan(24)
      expect(ended.stderr.match(/no such country/g)?.length).toBeLessThanOrEqual(3)
    },
  )

  test.each(['job.ts', 'built.mjs'])(
    'under plain node the report is the same, with the command that goes on, and the rejection below it is short: %s',
    async (file) => {
      const ended = await runNode(folder, ['--conditions=millrace-source', file])
      expect(ended.code).toBe(1)
      expect(ended.stderr).toContain(`Start it again with\n    millrace run ${file}\n`)
      const report = ended.stderr.slice(ended.stderr.indexOf("job 'orders' FAILED"))
      expect(report).toMatch(/Error: no such country: Atlantis undefined\n {4}at .*job\.ts:11:9/)
      expect(report).not.toContain('built.mjs:')
      expect(report).not.toMatch(/src\/runtime/)
      expect(report.trimEnd().split('\n').length).toBeLessThan(24)
    },
  )
})
