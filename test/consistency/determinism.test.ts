import { describe, expect, test } from '@jest/globals'
import { impureReferences, promiseMaking } from './pure-code.ts'
import { parseSource, readSources } from './source-file.ts'

/** Files of core that may make promises: they continue after a user function's promise. Each needs its reason. */
const CORE_PROMISES: Readonly<Record<string, string>> = {
  'src/core/deadline.ts':
    'a wait over the Timers port that the shell and the leaves share; core itself never waits',
}
const mayContinuePromises = (path: string): boolean =>
  path.startsWith('src/core/operators/') || path in CORE_PROMISES

const core = readSources('src/core')
const checkpoint = readSources('src/checkpoint')

describe('pure code', () => {
  test('core and checkpoint use no clock, no timer, no chance, no process', () => {
    expect([...core, ...checkpoint].flatMap(impureReferences)).toEqual([])
  })

  test('checkpoint makes no promise', () => {
    expect(checkpoint.flatMap(promiseMaking)).toEqual([])
  })

  test('core makes no promise outside operators, which continue after promises of user functions', () => {
    expect(core.filter((file) => !mayContinuePromises(file.path)).flatMap(promiseMaking)).toEqual([])
  })

  test('an exception that is not needed any more is removed', () => {
    const unneeded = Object.keys(CORE_PROMISES).filter(
      (path) => !core.some((file) => file.path === path && promiseMaking(file).length > 0),
    )
    expect(unneeded).toEqual([])
  })
})

describe('the checks find offenders', () => {
  const references = (text: string) => impureReferences(parseSource('src/core/a.ts', text))
  const promises = (text: string) => promiseMaking(parseSource('src/core/a.ts', text))

  test.each([
    'const t = Date.now()',
    'const t = new Date()',
    'const t = new Date(2026, 1, 1)',
    'const d = Date',
    'performance.now()',
    'const r = Math.random()',
    'const { random } = Math',
    'setTimeout(f, 1)',
    'const t = setInterval',
    'setImmediate(f)',
    'queueMicrotask(f)',
    'if (process.env.X) {}',
    'console.log(1)',
    'const x = { console }',
    'globalThis.x',
    '(process as any).exit()',
    'crypto.randomUUID()',
    'class A { b = process }',
  ])('%s', (text) => {
    expect(references(`// first\n${text}`)).toEqual([expect.stringMatching(/^src\/core\/a\.ts:2 uses /)])
  })

  test.each([
    'const copy = new Date(value.getTime())',
    'if (value instanceof Date) {}',
    'let d: Date',
    'const ms = Date.UTC(2026, 0, 1)',
    'operator.process(record)',
    'class A { process(): void {} }',
    'interface A { process: number; performance(): void }',
    'const x = { process: 1 }',
    'Math.max(1, 2)',
    'let s: typeof import("./b.ts").process',
  ])('%s is allowed', (text) => {
    expect(references(text)).toEqual([])
  })

  test.each([
    'async function f() {}',
    'const f = async () => 1',
    'class A { async f() {} }',
    'const o = { async f() {} }',
    'await f()',
    'for await (const x of y) {}',
    'const p = new Promise<void>(() => {})',
    'Promise.resolve()',
  ])('%s makes a promise', (text) => {
    expect(promises(text)).not.toEqual([])
  })

  test.each([
    'function f(p: Promise<void>): void | Promise<void> { return p }',
    'interface Store { read(): Promise<Uint8Array> }',
    'const f = (g: () => void | Promise<void>) => g()',
  ])('%s makes none', (text) => {
    expect(promises(text)).toEqual([])
  })
})
