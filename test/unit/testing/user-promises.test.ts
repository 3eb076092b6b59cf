import { describe, expect, test } from '@jest/globals'
import { UserPromises } from '../../../src/testing/user-promises.ts'

const never = new Promise<void>(() => undefined)

describe('promises of user code', () => {
  test('are pending until they settle, also when they reject', async () => {
    const promises = new UserPromises(1_000)
    const one = Promise.withResolvers<void>()
    const other = Promise.withResolvers<void>()
    promises.note(one.promise, 'map')
    promises.note(other.promise, 'filter')
    expect(promises.pending).toBe(true)
    const first = promises.nextSettled()
    one.resolve()
    await first
    expect(promises.pending).toBe(true)
    const second = promises.nextSettled()
    other.reject(new Error('no'))
    await second
    expect(promises.pending).toBe(false)
    await promises.nextSettled()
  })

  test('are named when none of them settles in time', async () => {
    const promises = new UserPromises(5)
    promises.note(never, "map of operator 'a'")
    promises.note(new Promise(() => undefined), "map of operator 'a'")
    promises.note(new Promise(() => undefined), "flush of sink 'b'")
    await expect(promises.nextSettled()).rejects.toMatchObject({
      code: 'MILLRACE_TEST_DRIVER',
      message: "the test waited 5 ms of real time for a promise of map of operator 'a' and flush of sink 'b'",
    })
  })

  test('do not count while they wait for the clock of the test', () => {
    const promises = new UserPromises(5)
    let blocked = true
    promises.note(never, 'flatMap', () => blocked)
    expect(promises.pending).toBe(false)
    blocked = false
    expect(promises.pending).toBe(true)
  })
})
