import { runInNewContext } from 'node:vm'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import type { Logger } from '../../../src/core/ports.ts'
import { MillraceError } from '../../../src/errors.ts'
import { type LoggingOptions, openLog } from '../../../src/runtime/logging.ts'

const NOON = new Date(2026, 0, 2, 12, 34, 56)
let written: string
beforeEach(() => {
  written = ''
})

const open = (options: Partial<LoggingOptions> & { isTTY?: boolean } = {}): Promise<Logger> =>
  openLog({
    level: 'info',
    format: 'auto',
    clock: { now: () => NOON.getTime() },
    stream: {
      isTTY: options.isTTY ?? false,
      write: (text: string) => {
        written += text
      },
    },
    ...options,
  })

const json = () =>
  written
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))

describe('lines for people', () => {
  test('time, level, message, then the fields', async () => {
    const log = await open({ format: 'pretty' })
    log.warn('Broker is slow', {
      broker: 1,
      offset: 9_007_199_254_740_993n,
      topic: 'a b',
      none: undefined,
      list: [1, 2n],
    })
    expect(written).toBe(
      '12:34:56 WARN  Broker is slow  broker=1 offset=9007199254740993 topic="a b" list=[1,"2"]\n',
    )
  })

  test('an error among the fields is reported below the line', async () => {
    const log = await open({ format: 'pretty' })
    log.error('Checkpoint failed', {
      id: 3,
      error: new MillraceError('MILLRACE_CHECKPOINT_STORAGE', 'The disk is full'),
    })
    expect(written).toMatch(
      /^12:34:56 ERROR Checkpoint failed {2}id=3\n {2}The disk is full \[MILLRACE_CHECKPOINT_STORAGE\]\n[\s\S]*\n {2}What to do: /,
    )
    expect(
      written
        .split('\n')
        .slice(1, -1)
        .every((line) => line.startsWith('  ')),
    ).toBe(true)
  })

  test('a child adds its fields', async () => {
    const log = (await open({ format: 'pretty' })).child({ job: 'etl' }).child({ subtask: 2 })
    log.info('Started', { attempt: 1 })
    expect(written).toContain('Started  job=etl subtask=2 attempt=1\n')
  })

  test('control characters in a field cannot steer the terminal', async () => {
    const log = await open({ format: 'pretty' })
    log.info('Key', { key: '\u001b[2Jgone\nnext' })
    expect(written).toBe('12:34:56 INFO  Key  key="gone\\nnext"\n')
  })

  describe('colours', () => {
    const before = { ...process.env }
    beforeEach(() => {
      delete process.env['NO_COLOR']
      process.env['TERM'] = 'xterm'
    })
    afterEach(() => {
      process.env = { ...before }
    })

    test('are used on a terminal only', async () => {
      ;(await open({ isTTY: true })).error('x')
      expect(written).toContain('\u001b[31mERROR')
      written = ''
      ;(await open({ format: 'pretty' })).error('x')
      expect(written).not.toContain('\u001b')
    })

    test('are not used when NO_COLOR is set', async () => {
      process.env['NO_COLOR'] = '1'
      ;(await open({ isTTY: true })).error('x')
      expect(written).not.toContain('\u001b')
    })
  })
})

describe('lines for programs', () => {
  test('are JSON with level, time and message, when there is no terminal', async () => {
    const log = await open()
    log.child({ job: 'etl' }).info('Started', { attempt: 1, offset: 9_007_199_254_740_993n })
    expect(json()).toEqual([
      {
        level: 'info',
        time: NOON.toISOString(),
        pid: process.pid,
        job: 'etl',
        attempt: 1,
        offset: '9007199254740993',
        message: 'Started',
      },
    ])
  })

  test('an error keeps code, remedy, details and causes', async () => {
    const log = await open({ format: 'json', isTTY: true })
    const error = new MillraceError('MILLRACE_TOPIC_MISSING', 'No topic', {
      cause: new TypeError('why'),
      details: { topic: 'a' },
    })
    log.error('Failed', { error })
    expect(json()[0].error).toMatchObject({
      name: 'MillraceError',
      code: 'MILLRACE_TOPIC_MISSING',
      message: 'No topic',
      remedy: error.remedy,
      details: { topic: 'a' },
      causes: [{ name: 'TypeError', message: 'why' }],
      stack: expect.stringContaining('No topic'),
    })
  })

  /** Errors as they come from other places; none has an enumerable field. */
  const strangers: [string, () => unknown][] = [
    ['another realm', () => runInNewContext('new TypeError("far away")')],
    ['another thread', () => structuredClone(new TypeError('far away'))],
    ['a class that is no Error', () => new Stranger()],
  ]
  class Stranger {
    get name() {
      return 'TypeError'
    }
    get message() {
      return 'far away'
    }
    get stack() {
      return 'TypeError: far away\n    at f (/x.js:1:1)'
    }
  }

  test.each(strangers)('an error of %s is written out, under any key and inside others', async (_, make) => {
    const log = await open({ format: 'json' })
    log.warn('Odd', { error: make(), err: make(), cause: make(), list: [{ reason: make() }] })
    const told = { name: 'TypeError', message: 'far away', stack: expect.stringContaining('far away') }
    expect(json()[0]).toMatchObject({ error: told, err: told, cause: told, list: [{ reason: told }] })
  })

  test.each(strangers)('for people an error of %s is reported below the line', async (_, make) => {
    const log = await open({ format: 'pretty' })
    log.warn('Odd', { error: make(), list: [make()] })
    expect(written).toMatch(/WARN {2}Odd {2}list=\["TypeError: far away"\]\n {2}TypeError: far away\n/)
  })

  test('a value that refers to itself is no trouble', async () => {
    const log = await open({ format: 'json' })
    const loop: Record<string, unknown> = { n: 1n }
    loop['self'] = loop
    log.info('Loop', { loop, at: new Date(0) })
    expect(json()[0]).toMatchObject({ loop: { n: '1', self: { n: '1' } }, at: '1970-01-01T00:00:00.000Z' })
  })
})

test.each(['pretty', 'json'] as const)('in %s, lines below the level are left out', async (format) => {
  const log = await open({ format, level: 'warn' })
  log.debug('1')
  log.info('2')
  log.warn('3')
  log.child({}).error('4')
  expect(written.split('\n')).toHaveLength(3)
  expect(written).toMatch(/3[\s\S]*4/)
  written = ''
  ;(await open({ format, level: 'debug' })).debug('5')
  expect(written).toContain('5')
})
