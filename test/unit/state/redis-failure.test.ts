import { describe, expect, test } from '@jest/globals'
import { MillraceError } from '../../../src/errors.ts'
import { redisFailure, scriptRefusal } from '../../../src/state/redis-failure.ts'

describe('an error of Redis', () => {
  test.each([
    ["OOM command not allowed when used memory > 'maxmemory'.", 'MILLRACE_REDIS_FULL'],
    [
      "-OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
      'MILLRACE_REDIS_FULL',
    ],
    ['LOADING Redis is loading the dataset in memory', 'MILLRACE_REDIS_UNAVAILABLE'],
    ["READONLY You can't write against a read only replica.", 'MILLRACE_REDIS_UNAVAILABLE'],
    ['MISCONF Redis is configured to save RDB snapshots', 'MILLRACE_REDIS_UNAVAILABLE'],
    ['CLUSTERDOWN The cluster is down', 'MILLRACE_REDIS_UNAVAILABLE'],
    ['no answer in 700 ms', 'MILLRACE_REDIS_UNAVAILABLE'],
    ['connect ECONNREFUSED 127.0.0.1:1', 'MILLRACE_REDIS_UNAVAILABLE'],
    ['NOAUTH Authentication required.', 'MILLRACE_REDIS_REFUSED'],
    ["NOPERM User u has no permissions to run the 'info' command", 'MILLRACE_REDIS_REFUSED'],
    ["ERR unknown command 'WAITAOF'", 'MILLRACE_REDIS_REFUSED'],
  ])('%s is %s', (text, code) => {
    expect(redisFailure(new Error(text), 'redis://h', 'answer')).toMatchObject({
      code,
      message: `Redis at redis://h could not answer: ${text}`,
    })
  })

  test('without words says its code, and a coded one stays as it is', () => {
    const refused = Object.assign(new Error(''), { code: 'ECONNREFUSED' })
    expect(redisFailure(refused, 'h', 'be reached')).toMatchObject({
      message: expect.stringMatching(/ECONNREFUSED$/),
    })
    const coded = new MillraceError('MILLRACE_ATTEMPT_LOST', 'x')
    expect(redisFailure(coded, 'h', 'x')).toBe(coded)
  })

  test('that a script of ours made is read apart', () => {
    const text = 'MILLRACE_OWNER 2:ab millrace:{j/r/o/1}:marker'
    const where = ` script: ${'0'.repeat(40)}, on @user_script:1.`
    expect(scriptRefusal(new Error(text + where))).toEqual({
      reason: 'OWNER',
      words: ['2:ab', 'millrace:{j/r/o/1}:marker'],
    })
    expect(scriptRefusal(new Error('ERR MILLRACE_OWNER'))).toBeUndefined()
  })
})
