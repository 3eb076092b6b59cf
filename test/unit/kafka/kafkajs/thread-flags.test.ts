import { describe, expect, test } from '@jest/globals'
import { threadFlags } from '../../../../src/kafka/kafkajs/thread-flags.ts'

describe('flags of a thread that is started from a file', () => {
  test.each([
    [['--input-type=module', '-e', 'await import("./job.ts")']],
    [['--input-type=module', '--eval', 'run()']],
    [['--print', '1 + 1']],
    [['--cpu-prof', '--cpu-prof-dir=profiles', '--heap-prof']],
    [['--inspect', '--inspect-brk=9229', '--inspect-port', '0']],
    [['--max-old-space-size=4096', '--title', 'job', '--stack-size=2000', '--watch', '--test']],
  ])('%j: none are passed on', (flags) => {
    expect(threadFlags(flags)).toEqual([])
  })

  test.each([
    [['--conditions=millrace-source']],
    [['-C', 'millrace-source']],
    [['--conditions', 'millrace-source', '--import', './compile.mjs']],
    [['--import=./compile.mjs', '-r', './before.cjs', '--experimental-loader', './load.mjs']],
    [['--experimental-transform-types', '--enable-source-maps', '--no-experimental-strip-types']],
    [['--disable-warning=ExperimentalWarning', '--no-warnings']],
    [['--dns-result-order=ipv4first', '--no-network-family-autoselection', '--use-system-ca']],
  ])('%j: all are passed on', (flags) => {
    expect(threadFlags(flags)).toEqual(flags)
  })

  test('values stay with their flags when others around them go', () => {
    expect(
      threadFlags(['--cpu-prof', '-C', 'source', '--title', 'job', '--import', './a.mjs', '-e', 'run()']),
    ).toEqual(['-C', 'source', '--import', './a.mjs'])
  })

  test('a flag that only begins like one that is kept is left out', () => {
    expect(threadFlags(['--importance', '--conditional=x', '--warnings-off'])).toEqual([])
  })
})
