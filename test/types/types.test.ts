import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'

const HERE = import.meta.dirname
const TSC = join(HERE, '..', '..', 'node_modules', 'typescript', 'bin', 'tsc')

/** What the compiler has to say; empty if all is well. */
function compile(project: string): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(
      process.execPath,
      [TSC, '-p', project, '--noEmit', '--pretty', 'false'],
      { cwd: HERE, env: { ...process.env, NODE_OPTIONS: '' } },
      (error, stdout, stderr) => {
        if (error !== null && stdout === '') reject(new Error(`tsc did not run: ${stderr}`, { cause: error }))
        else resolve(stdout)
      },
    )
  })
}

describe('public types', () => {
  test('compile, or fail to, as the *.test-d.ts files say', async () => {
    expect(await compile(join(HERE, 'tsconfig.json'))).toBe('')
  }, 60_000)

  test('a wrong assertion and an error that does not come are reported', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'millrace-types-'))
    try {
      await writeFile(
        join(folder, 'sample.test-d.ts'),
        [
          `import { assertType, type Equal } from '${join(HERE, 'assert-type.ts')}'`,
          'assertType<Equal<string, number>>()',
          'assertType<Equal<any, number>>()',
          'assertType<Equal<{ a?: number }, { a: number | undefined }>>()',
          '// @ts-expect-error this is fine',
          'export const n: number = 1',
        ].join('\n'),
      )
      await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
      await writeFile(
        join(folder, 'tsconfig.json'),
        JSON.stringify({
          extends: join(HERE, 'tsconfig.json'),
          compilerOptions: {
            types: [],
            rewriteRelativeImportExtensions: false,
            allowImportingTsExtensions: true,
          },
          include: ['*.test-d.ts'],
        }),
      )
      const lines = (await compile(folder)).split('\n').map((line) => /test-d\.ts\((\d+),/.exec(line)?.[1])
      expect(lines.filter(Boolean)).toEqual(['2', '3', '4', '5'])
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }, 60_000)
})
