import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { ROOT } from './source-file.ts'

/** A ```ts block of a page. */
interface CodeBlock {
  readonly page: string
  /** Line of its first line of code, from 1. */
  readonly line: number
  readonly code: string
  /** Marked `ts fragment`: not a whole module, so not compiled. */
  readonly fragment: boolean
}

/** Fragments are for a line or two that stand in a text; more must be a whole module, or nobody knows whether it works. */
const MAX_FRAGMENT_LINES = 12
const TSC = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc')

function pages(): string[] {
  const docs = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
  return [
    'README.md',
    'ARCHITECTURE.md',
    ...docs.filter((path) => path.endsWith('.md')).map((path) => `docs/${path}`),
  ]
}

function codeBlocks(page: string, text: string): CodeBlock[] {
  const blocks: CodeBlock[] = []
  const lines = text.split('\n')
  for (let i = 0; i < lines.length; i++) {
    const opening = /^```(\S*)\s*(.*)$/.exec(lines[i]!)
    if (opening === null) continue
    const end = lines.indexOf('```', i + 1)
    if (end === -1) throw new Error(`${page}:${i + 1}: a code block without an end`)
    if (opening[1] === 'ts' || opening[1] === 'typescript')
      blocks.push({
        page,
        line: i + 2,
        code: lines.slice(i + 1, end).join('\n'),
        fragment: opening[2] === 'fragment',
      })
    i = end
  }
  return blocks
}

/** What the compiler says of the blocks, by page and line of the page; one run for all of them. */
async function compile(blocks: readonly CodeBlock[]): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-pages-'))
  try {
    const files = new Map<string, CodeBlock>()
    for (const [i, block] of blocks.entries()) {
      const file = `block${i}.ts`
      files.set(file, block)
      // Empty lines in front, so that the compiler's lines are those of the page.
      await writeFile(join(folder, file), `${'\n'.repeat(block.line - 1)}${block.code}\nexport {}\n`)
    }
    await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
    await writeFile(
      join(folder, 'tsconfig.json'),
      JSON.stringify({
        extends: join(ROOT, 'tsconfig.json'),
        compilerOptions: {
          noUnusedLocals: false,
          noUnusedParameters: false,
          rewriteRelativeImportExtensions: false,
          allowImportingTsExtensions: true,
          typeRoots: [join(ROOT, 'node_modules', '@types')],
          paths: {
            millrace: [join(ROOT, 'src', 'index.ts')],
            'millrace/testing': [join(ROOT, 'src', 'testing', 'index.ts')],
          },
        },
        include: ['*.ts', join(ROOT, 'src', '**', '*.d.ts')],
      }),
    )
    const output = await new Promise<string>((resolve, reject) => {
      execFile(
        process.execPath,
        [TSC, '-p', folder, '--noEmit', '--pretty', 'false'],
        { cwd: folder, env: { ...process.env, NODE_OPTIONS: '' } },
        (error, stdout, stderr) => {
          if (error !== null && stdout === '')
            reject(new Error(`tsc did not run: ${stderr}`, { cause: error }))
          else resolve(stdout)
        },
      )
    })
    // Errors of src itself are the type check's business.
    return output.split('\n').flatMap((line) => {
      const [, file, at, error] = /^(block\d+\.ts)\((\d+),\d+\): (.*)$/.exec(line) ?? []
      return file === undefined ? [] : [`${files.get(file)?.page}:${at}: ${error}`]
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Links and backticked paths of this repository that lead nowhere. */
function deadPaths(page: string, text: string): string[] {
  const links = [...text.matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)].map(([, path]) =>
    join(dirname(page), path!),
  )
  const named = [...text.matchAll(/`((?:src|test|scripts|examples|docs|topics)\/[\w./-]+)`/g)].map(
    ([, path]) => path!,
  )
  return [...links, ...named]
    .filter((path) => !existsSync(join(ROOT, path)))
    .map((path) => `${page}: ${path}`)
}

const texts = pages().map((page) => [page, readFileSync(join(ROOT, page), 'utf8')] as const)
const blocks = texts.flatMap(([page, text]) => codeBlocks(page, text))

describe('what people read', () => {
  test('every TypeScript block of README and docs compiles', async () => {
    const whole = blocks.filter(({ fragment }) => !fragment)
    expect(whole.length).toBeGreaterThan(5)
    expect(await compile(whole)).toEqual([])
  }, 120_000)

  test('only short pieces are marked as fragments', () => {
    const long = blocks.filter(
      ({ fragment, code }) => fragment && code.split('\n').length > MAX_FRAGMENT_LINES,
    )
    expect(long.map(({ page, line }) => `${page}:${line}`)).toEqual([])
  })

  test('every link and every path of this repository leads somewhere', () => {
    expect(texts.flatMap(([page, text]) => deadPaths(page, text))).toEqual([])
  })

  test('the map in ARCHITECTURE.md has every folder of src', () => {
    const map = readFileSync(join(ROOT, 'ARCHITECTURE.md'), 'utf8')
    const folders = readdirSync(join(ROOT, 'src'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && entry.parentPath !== join(ROOT, 'src'))
      .map((entry) => entry.parentPath.slice(ROOT.length + 1))
    const missing = [...new Set(folders)].filter((folder) => !map.includes(`\`${folder}/\``))
    expect(missing).toEqual([])
  })
})

describe('the check of pages finds', () => {
  const page = [
    '# A page',
    '',
    '```ts',
    "const n: number = 'x'",
    '```',
    '',
    '```ts fragment',
    'nothing.whole(',
    '```',
  ].join('\n')

  test('a block that does not compile, with its line in the page', async () => {
    const found = codeBlocks('docs/a.md', page)
    expect(found.map(({ fragment }) => fragment)).toEqual([false, true])
    const errors = await compile(found.filter(({ fragment }) => !fragment))
    expect(errors).toEqual([expect.stringMatching(/^docs\/a\.md:4: error TS2322/)])
  }, 120_000)

  test('a link and a path that lead nowhere', () => {
    expect(deadPaths('docs/a.md', '[x](b.md) [y](../README.md) `src/none.ts` `src/index.ts`')).toEqual([
      'docs/a.md: docs/b.md',
      'docs/a.md: src/none.ts',
    ])
  })

  test('a block without an end', () => {
    expect(() => codeBlocks('a.md', '```ts\nlet x')).toThrow('a.md:1')
  })
})
