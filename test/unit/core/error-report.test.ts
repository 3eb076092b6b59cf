import { describe, expect, test } from '@jest/globals'
import { errorChain, formatError } from '../../../src/core/error-report.ts'
import { KafkaError, MillraceError, UserFunctionError } from '../../../src/errors.ts'

/** An error with a stack of our choosing. */
function withStack<E extends Error>(error: E, ...frames: string[]): E {
  error.stack = [`${error.name}: ${error.message}`, ...frames.map((frame) => `    at ${frame}`)].join('\n')
  return error
}

const ownFrame = `Task.run (${new URL('../../../src/runtime/task.ts', import.meta.url).href}:10:5)`

describe('the report', () => {
  test('tells what failed, the causes with the own stack lines, and what to do, the root first', () => {
    const root = withStack(
      new TypeError('x is undefined'),
      'Totals.add (file:///jobs/etl.ts:12:7)',
      ownFrame,
      'node:internal/main:1:1',
    )
    const middle = new UserFunctionError('MILLRACE_USER_FUNCTION', "map of operator 'totals' threw", {
      cause: root,
      details: { operator: 'totals', offset: 42n, value: { big: 'object' } },
    })
    const failed = new MillraceError('MILLRACE_JOB_FAILED', "Job 'etl' failed", { cause: middle })
    for (const error of [middle, failed]) withStack(error, ownFrame)
    expect(formatError(failed)).toBe(
      [
        "Job 'etl' failed [MILLRACE_JOB_FAILED]",
        "caused by UserFunctionError: map of operator 'totals' threw [MILLRACE_USER_FUNCTION]",
        '    offset=42',
        'caused by TypeError: x is undefined',
        '    at Totals.add (/jobs/etl.ts:12:7)',
        `What to do: ${middle.remedy}`,
        `What to do: ${failed.remedy}`,
      ].join('\n'),
    )
  })

  test('says the same advice once', () => {
    const inner = new MillraceError('MILLRACE_TOPIC_MISSING', "Topic 'a' does not exist")
    const outer = new MillraceError('MILLRACE_TOPIC_MISSING', 'The source cannot start', { cause: inner })
    expect(formatError(outer).match(/What to do/g)).toHaveLength(1)
  })

  test('leaves out stack lines of packages, Node.js and Millrace', () => {
    const error = withStack(
      new Error('no'),
      'async f (/jobs/node_modules/kafkajs/index.js:1:1)',
      'Object.<anonymous> (/jobs/etl.ts:3:1)',
      'new Promise (<anonymous>)',
      ownFrame,
      'process (node:internal/process/task_queues:1:1)',
    )
    expect(errorChain(error)[0]!.frames).toEqual(['Object.<anonymous> (/jobs/etl.ts:3:1)'])
  })

  test('keeps some lines of an unknown error that has none of the user’s, since they are all there is', () => {
    const error = withStack(
      new TypeError('no'),
      'a (node:net:1:1)',
      ownFrame,
      'b (/x/node_modules/kafkajs/index.js:2:2)',
    )
    expect(errorChain(error)[0]!.frames).toEqual([
      ownFrame.replace('file://', ''),
      'b (/x/node_modules/kafkajs/index.js:2:2)',
    ])
  })

  test('shows no stack of an error of the operating system', () => {
    const error = Object.assign(withStack(new Error('ENOENT: no such file'), ownFrame), {
      code: 'ENOENT',
      syscall: 'open',
    })
    expect(formatError(error)).toBe('Error: ENOENT: no such file [ENOENT]')
  })

  test('shows the place of a syntax error, which stands before its stack', () => {
    const error = new SyntaxError('enum is not supported')
    error.stack =
      '/jobs/etl.ts:3\n  enum A { B }\n  ^^^^^^^^^^^^\n\nSyntaxError: enum is not supported\n    at parse (node:internal/x:1:1)'
    expect(formatError(error)).toBe('SyntaxError: enum is not supported\n    at /jobs/etl.ts:3: enum A { B }')
  })

  test('sets further lines of a message in', () => {
    expect(formatError(new MillraceError('MILLRACE_USAGE', 'two:\n  - a'))).toMatch(
      /^two:\n {6}- a \[MILLRACE_USAGE\]/,
    )
  })

  test('leaves out details that the message tells anyway', () => {
    const facts = { brokerCode: 47, brokerError: 'INVALID_PRODUCER_EPOCH', api: 'EndTxn' }
    const error = new KafkaError('MILLRACE_KAFKA_PROTOCOL', "EndTxn of 'tx-1' was refused", facts, {
      details: { transactionalId: 'tx-1', topic: 'orders' },
    })
    expect(formatError(error)).toMatch(/\n {4}topic=orders\n/)
  })

  test('cuts a very long detail', () => {
    const error = new MillraceError('MILLRACE_DESERIALIZATION', 'bad record', {
      details: { key: 'k'.repeat(10_000) },
    })
    expect(formatError(error).length).toBeLessThan(600)
  })
})

describe('anything can be thrown', () => {
  test.each([
    [undefined, 'Error: undefined was thrown'],
    [null, 'Error: null was thrown'],
    ['text', 'string: text'],
    [42, 'number: 42'],
    [{ status: 503, body: '' }, 'Error: an object with the fields status, body was thrown'],
    [{}, 'Error: an object with no fields was thrown'],
    [{ name: 'Odd', message: 'told' }, 'Odd: told'],
  ])('%j', (thrown, report) => {
    expect(formatError(thrown)).toBe(report)
  })

  test('a chain that closes on itself ends', () => {
    const a = new Error('a')
    const b = new Error('b', { cause: a })
    a.cause = b
    expect(errorChain(a).map((link) => link.message)).toEqual(['a', 'b'])
  })

  test('a very long chain is cut', () => {
    let error = new Error('0')
    for (let i = 1; i < 50; i++) error = new Error(String(i), { cause: error })
    expect(errorChain(error).length).toBeLessThan(10)
  })

  test('the first members of an AggregateError are told', () => {
    const members = ['a', 'b', 'c', 'd'].map((text) => new Error(text))
    expect(errorChain(new AggregateError(members, 'all failed')).map((link) => link.message)).toEqual([
      'all failed',
      'a',
      'b',
      'c',
    ])
  })
})
