import { describe, expect, test } from '@jest/globals'
import { parseRedisUrl } from '../../../src/state/redis-url.ts'

describe('the URL of Redis', () => {
  test.each([
    ['redis://h', { kind: 'single', tls: false, addresses: [{ host: 'h', port: 6379 }], db: 0 }],
    [
      'rediss://user:p%40ss:w@h:7/3',
      { tls: true, username: 'user', password: 'p@ss:w', addresses: [{ host: 'h', port: 7 }], db: 3 },
    ],
    ['redis://:pw@[::1]:7', { password: 'pw', addresses: [{ host: '::1', port: 7 }] }],
    ['redis://:a@b:c@h:7', { password: 'a@b:c', addresses: [{ host: 'h', port: 7 }] }],
    [
      'redis+sentinel://u:p@a,b:7/it/2',
      {
        kind: 'sentinel',
        primary: 'it',
        db: 2,
        addresses: [
          { host: 'a', port: 26_379 },
          { host: 'b', port: 7 },
        ],
      },
    ],
    ['rediss+cluster://a:1,b:2', { kind: 'cluster', tls: true, db: 0 }],
  ])('%s', (url, expected) => {
    expect(parseRedisUrl(url)).toMatchObject(expected)
  })

  test.each([
    ['http://h', 'redis://host:port'],
    ['redis://', 'redis://host:port'],
    ['redis://a,b', 'redis+cluster://'],
    ['redis://h:99999', 'no host and port'],
    ['redis://h/x', 'no database'],
    ['redis+sentinel://h', 'name of the primary'],
    ['redis+cluster://h/1', 'only 0'],
  ])('%s is refused with what to write', (url, words) => {
    expect(() => parseRedisUrl(url)).toThrow(
      expect.objectContaining({ code: 'MILLRACE_INVALID_OPTION', message: expect.stringContaining(words) }),
    )
  })

  test('is shown without user and password, also when it is wrong', () => {
    expect(parseRedisUrl('redis+sentinel://user:s3cret@h:1/it').name).toBe('redis+sentinel://h:1/it')
    for (const wrong of ['redis://user:s3cret@', 'redis://user:s3cret@h:0', 'ftp://user:s3cret@h'])
      expect(() => parseRedisUrl(wrong)).toThrow(
        expect.objectContaining({ message: expect.not.stringContaining('s3cret') }),
      )
  })
})
