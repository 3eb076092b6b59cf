import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { ROOT, readSources } from './source-file.ts'

/** Numbers that the page has: `## 2. Title` is 2, `**2.9 Title.**` is 2.9. */
function numbersOf(page: string): string[] {
  return [...page.matchAll(/^## (\d+)\. |\*\*(\d+\.\d+) /gm)].map((found) => found[1] ?? found[2]!)
}

/** Citations: "protocol §2", "protocol §2.9 and §2.10", "protocol §3.5, §3.7", over the end of a comment's line too. */
function citationsIn(text: string): string[] {
  const oneLine = text.replaceAll(/\s*\n\s*(\*|\/\/)?\s*/g, ' ')
  return [...oneLine.matchAll(/protocol((?:(?:,| and| or|;)? §\d+(?:\.\d+)*)+)/gi)].flatMap((cited) =>
    [...cited[1]!.matchAll(/§(\d+(?:\.\d+)*)/g)].map((number) => number[1]!),
  )
}

const page = readFileSync(join(ROOT, 'docs', 'protocol.md'), 'utf8')
const numbers = numbersOf(page)
const sources = ['src', 'test'].flatMap(readSources).filter(({ path }) => !path.endsWith('/protocol.test.ts'))

describe('docs/protocol.md', () => {
  test('has every section that the code cites', () => {
    const missing = sources.flatMap(({ path, text }) =>
      citationsIn(text)
        .filter((cited) => !numbers.includes(cited))
        .map((cited) => `${path} cites protocol §${cited}, which docs/protocol.md does not have`),
    )
    expect(missing).toEqual([])
  })

  test('is cited by the code', () => {
    expect(sources.flatMap(({ text }) => citationsIn(text)).length).toBeGreaterThan(5)
  })

  test('has every section that it cites itself', () => {
    const cited = [...page.matchAll(/§(\d+(?:\.\d+)*)/g)].map((found) => found[1]!)
    expect(cited.filter((number) => !numbers.includes(number))).toEqual([])
  })

  test('has each number once, in order, under its chapter', () => {
    const order = (number: string): number =>
      Number(number.split('.')[0]) * 100 + Number(number.split('.')[1] ?? 0)
    const ordered = numbers.map(order)
    expect(ordered).toEqual([...new Set(ordered)].sort((a, b) => a - b))
  })
})

describe('the check finds', () => {
  test('chapters and items of the page', () => {
    expect(numbersOf('# T\n## 2. Who\n**2.1 Fence.** x\n- **2.10 Deploy.** y **2.11** z\n## Else')).toEqual([
      '2',
      '2.1',
      '2.10',
    ])
  })

  test('citations of one or several sections', () => {
    expect(citationsIn('/** (protocol §2.9 and §2.10) */ // Protocol §3, §4.1; see §7')).toEqual([
      '2.9',
      '2.10',
      '3',
      '4.1',
    ])
    expect(citationsIn(' * as the protocol\n * §2.4 says')).toEqual(['2.4'])
    expect(citationsIn('the protocol says 2.9')).toEqual([])
  })
})
