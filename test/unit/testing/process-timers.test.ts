import { describe, expect, test } from '@jest/globals'
import { ProcessTimers } from '../../../src/testing/process-timers.ts'
import { SeededRandom } from '../../../src/testing/seeded-random.ts'
import { VirtualTime } from '../../../src/testing/virtual-time.ts'

function scene(beforeAction: () => void = () => undefined) {
  const time = new VirtualTime({ startMs: 0, random: new SeededRandom(3) })
  const timers = new ProcessTimers(time, beforeAction)
  const done: string[] = []
  const at = (ms: number, name: string) => timers.schedule(ms, () => void done.push(`${name}@${time.now()}`))
  return { time, timers, done, at }
}

describe('the timers of a simulated process', () => {
  test('actions run when they are due', async () => {
    const { time, done, at } = scene()
    at(5, 'a')
    at(1, 'b').cancel()
    await time.advance(10)
    expect(done).toEqual(['a@5'])
  })

  test('nothing runs after the process is dead, and nothing new is taken', async () => {
    const { time, timers, done, at } = scene()
    at(5, 'a')
    timers.cut()
    at(6, 'b')
    await time.advance(10)
    expect(done).toEqual([])
    expect(timers.dead).toBe(true)
  })

  test('what falls due while the process stands still runs in order when it goes on', async () => {
    const { time, timers, done, at } = scene()
    for (const [i, name] of ['a', 'b', 'c', 'd', 'e'].entries()) at(i + 1, name)
    timers.pause()
    await time.advance(20)
    expect(done).toEqual([])
    timers.resume()
    await time.advance(1)
    expect(done).toEqual(['a@20', 'b@20', 'c@20', 'd@20', 'e@20'])
  })

  test('a process that was stopped twice goes on after two calls', async () => {
    const { time, timers, done, at } = scene()
    at(1, 'a')
    timers.pause()
    timers.pause()
    timers.resume()
    await time.advance(5)
    expect(done).toEqual([])
    timers.resume()
    timers.resume()
    await time.advance(5)
    expect(done).toEqual(['a@5'])
  })

  test('an action whose timer kills the process does not run', async () => {
    const { time, timers, done, at } = scene(() => timers.cut())
    at(1, 'a')
    await time.advance(5)
    expect(done).toEqual([])
  })
})
