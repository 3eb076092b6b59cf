import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { ROOT } from './source-file.ts'

interface Pattern {
  readonly what: string
  readonly regex: RegExp
  /** Paths that the pattern is about; all by default. */
  readonly within?: RegExp
}

/** A pattern without its `~` marks, which keep this file from holding what it looks for. */
const hidden = (pattern: string) => new RegExp(pattern.replaceAll('~', ''), 'i')

const PATTERNS: readonly Pattern[] = [
  { what: 'a folder of one machine', regex: hidden('(?<![\\w.})/-])/wo~rk/') },
  { what: 'a home folder', regex: hidden('(?<![\\w.})-])/(ho~me/[a-z]|Us~ers/[a-z]|ro~ot/)') },
  {
    what: 'a temporary folder by its path',
    regex: hidden('(?<![\\w.})/-])/tm~p/[\\w-]'),
    within: /\.(md|ya?ml|json)$/,
  },
  {
    what: 'a package host',
    regex: hidden(
      'regis~try\\.npmjs|re~po1?\\.maven\\.|de~b\\.debian\\.|py~pi\\.org|artif~actory|verd~accio',
    ),
  },
  {
    what: 'who wrote it',
    regex: hidden(
      '\\b(sub-?ag~ents?|coding ag~ents?|AI ag~ents?|anthr~opic|cla~ude|chat-?g~pt|cop~ilot|LL~Ms?)\\b',
    ),
  },
  {
    what: 'how the work is organised',
    regex: hidden(
      '\\b(another|other|the) hel~pers?\\b|\\b(the|your|my) br~ief\\b|\\bthe le~ad (will|writes|decides)\\b|\\bpre~amble\\b',
    ),
  },
  {
    what: 'a page that is not in this repository',
    regex: hidden('\\b(des~ign|lay~out|ca~ses|kafka-fa~cts|style-anc~hors)(\\.md|,? §)'),
  },
]

/** Files that belong to the repository, or would with the next commit. */
function repositoryFiles(): string[] {
  const list = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: 16 << 20,
  })
  return list.split('\0').filter((path) => path !== '')
}

/** The text of a file, undefined if it was removed or holds bytes. */
function textOf(path: string): string | undefined {
  try {
    const bytes = readFileSync(join(ROOT, path))
    return bytes.includes(0) ? undefined : bytes.toString('utf8')
  } catch (error) {
    if (['ENOENT', 'EISDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}

function offences(path: string, text: string): string[] {
  return PATTERNS.filter(({ within }) => within === undefined || within.test(path)).flatMap(
    ({ what, regex }) =>
      text
        .split('\n')
        .flatMap((line, i) =>
          regex.test(line) ? [`${path}:${i + 1} names ${what}: ${line.trim().slice(0, 120)}`] : [],
        ),
  )
}

describe('wording', () => {
  const files = repositoryFiles()

  test('the repository has files to check', () => {
    expect(files).toContain('package.json')
  })

  test('no file names a machine, a package host, or how the work on it is organised', () => {
    expect(files.flatMap((path) => offences(path, textOf(path) ?? ''))).toEqual([])
  })

  test('no package-lock entry names a host', () => {
    const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
    const named = Object.entries<{ resolved?: string }>(lock.packages).filter(([, entry]) =>
      /^https?:/.test(entry.resolved ?? ''),
    )
    expect(named).toEqual([])
  })
})

describe('the patterns find offenders', () => {
  test.each([
    ['a.ts', `const x = '/wor${'k'}/main'`],
    ['a.ts', `see /ho${'me'}/joe/x`],
    ['docs/a.md', `cat /tm${'p'}/out.log`],
    ['.npmrc', `registry=https://registry.npm${'js'}.org/`],
    ['settings.xml', `https://repo1.mav${'en'}.org/maven2`],
    ['README.md', `built with Cla${'ude'}`],
    ['a.ts', `// written by a sub${'agent'}`],
    ['a.ts', `// the other hel${'per'} writes this`],
    ['a.ts', `// see desi${'gn'} §5`],
    ['a.ts', `// see layo${'ut'}.md`],
  ])('%s: %s', (path, line) => {
    expect(offences(path, `first\n${line}\n`)).toEqual([expect.stringMatching(new RegExp(`^${path}:2 `))])
  })

  test.each([
    ['a.ts', 'const dir = join(root, "work/state")'],
    ['a.ts', `\`\${base}/work/state\``],
    ['a.ts', "mkdtemp('/tmp/x')"],
    ['a.ts', 'the user agent of a request; the group leader plans'],
    ['a.ts', 'a session of the group'],
  ])('%s: %s is fine', (path, line) => {
    expect(offences(path, line)).toEqual([])
  })
})
