import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { parseSource, ROOT, type SyntaxNode } from '../consistency/source-file.ts'

/** Exported names of an entry point, types marked: `JobClient (type)`. */
function exportedNames(path: string): string[] {
  const source = parseSource(path, readFileSync(join(ROOT, path), 'utf8'))
  return source.tree['body']
    .flatMap((node: SyntaxNode) => {
      if (node.type === 'ExportAllDeclaration') return ['export *']
      if (node.type !== 'ExportNamedDeclaration') return []
      return node['specifiers'].map((specifier: SyntaxNode) => {
        const name: string = (specifier['exported'] ?? specifier['orig']).value
        return node['typeOnly'] || specifier['isTypeOnly'] ? `${name} (type)` : name
      })
    })
    .sort()
}

const checkedIn = (file: string): string[] =>
  readFileSync(join(import.meta.dirname, file), 'utf8')
    .trimEnd()
    .split('\n')

describe.each([
  ['millrace', 'src/index.ts', 'millrace.txt', () => import('millrace')],
  ['millrace/testing', 'src/testing/index.ts', 'millrace-testing.txt', () => import('millrace/testing')],
] as const)("names that '%s' exports", (_name, path, list, load) => {
  test('equal the checked-in list, so that none comes or goes unnoticed', () => {
    expect(exportedNames(path)).toEqual(checkedIn(list))
  })

  test('are there at run time, except for types', async () => {
    const values = checkedIn(list).filter((name) => !name.endsWith(' (type)'))
    expect(Object.keys(await load()).sort()).toEqual(values)
  })
})
