import { describe, expect, test } from '@jest/globals'
import { SeededRandom } from '../../../src/testing/seeded-random.ts'
import { VirtualTime } from '../../../src/testing/virtual-time.ts'

describe('virtual time', () => {
  test('advance fires what falls due, in order, and leaves the clock at its end', async () => {
    const time = new VirtualTime({ startMs: 1_000 })
    const fired: string[] = []
    time.schedule(20, () => fired.push(`b at ${time.now()}`))
    time.schedule(10, () => fired.push(`a at ${time.now()}`))
    time.schedule(31, () => fired.push('too late'))
    await time.advance(30)
    expect(fired).toEqual(['a at 1010', 'b at 1020'])
    expect(time.now()).toBe(1_030)
    expect(time.pending).toBe(1)
  })

  test('timers of one instant fire in the order they were scheduled', async () => {
    const time = new VirtualTime()
    const fired: number[] = []
    for (let i = 0; i < 50; i++) time.schedule(5, () => fired.push(i))
    await time.advance(5)
    expect(fired).toEqual(Array.from({ length: 50 }, (_, i) => i))
  })

  test('with a random the order of one instant is drawn from the seed', async () => {
    const order = async (seed: number) => {
      const time = new VirtualTime({ random: new SeededRandom(seed) })
      const fired: number[] = []
      for (let i = 0; i < 20; i++) time.schedule(5, () => fired.push(i))
      await time.advance(5)
      return fired
    }
    const first = await order(1)
    expect(await order(1)).toEqual(first)
    expect(await order(2)).not.toEqual(first)
    expect(first.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, i) => i))
  })

  test('all microtasks that a timer sets off have run before the next timer fires', async () => {
    const time = new VirtualTime()
    const seen: string[] = []
    time.schedule(1, async () => {
      for (let i = 0; i < 1_000; i++) await Promise.resolve()
      seen.push('after a thousand awaits')
    })
    time.schedule(1, () => seen.push('next timer'))
    await time.advance(1)
    expect(seen).toEqual(['after a thousand awaits', 'next timer'])
  })

  test('what is scheduled on the way counts too', async () => {
    const time = new VirtualTime()
    let turns = 0
    const loop = async () => {
      for (;;) {
        await time.sleep(10)
        turns++
      }
    }
    void loop()
    await time.advance(100)
    expect(turns).toBe(10)
  })

  test('a cancelled timer does not fire, and cancelling it twice or after it fired changes nothing', async () => {
    const time = new VirtualTime()
    let fired = 0
    const cancelled = time.schedule(1, () => fired++)
    const kept = time.schedule(2, () => fired++)
    cancelled.cancel()
    cancelled.cancel()
    await time.advance(5)
    kept.cancel()
    expect([fired, time.pending]).toEqual([1, 0])
  })

  test('turn is a timer of 0 ms: it lets others of this instant run', async () => {
    const time = new VirtualTime()
    const seen: string[] = []
    time.schedule(0, () => seen.push('other'))
    const turned = time.turn().then(() => seen.push('turned'))
    await time.settle(turned)
    expect(seen).toEqual(['other', 'turned'])
  })

  test('runUntil stops at the first moment at which the condition holds', async () => {
    const time = new VirtualTime({ startMs: 0 })
    expect(await time.runUntil(() => time.now() >= 35, { maxMs: 1_000 })).toBe('idle')
    const tick = (): void => void time.schedule(10, tick)
    tick()
    expect(await time.runUntil(() => time.now() >= 35)).toBe('reached')
    expect(time.now()).toBe(40)
  })

  test('runUntil keeps its limits', async () => {
    const time = new VirtualTime({ startMs: 0 })
    const tick = (): void => void time.schedule(10, tick)
    tick()
    expect(await time.runUntil(() => false, { maxMs: 95 })).toBe('time-limit')
    expect(time.now()).toBe(95)
    expect(await time.runUntil(() => false, { maxFirings: 3 })).toBe('firing-limit')
    expect(time.now()).toBe(120)
  })

  test('idle does not wait for timers that would not keep a process alive', async () => {
    const time = new VirtualTime({ startMs: 0 })
    time.schedule(10, () => {})
    const beat = (): void => void time.schedule(3, beat, true)
    beat()
    expect(await time.runUntil('idle')).toBe('idle')
    expect(time.now()).toBe(10)
  })

  test('settle gives the result, and says so when the promise can never be settled', async () => {
    const time = new VirtualTime()
    expect(await time.settle(time.sleep(5).then(() => 'done'))).toBe('done')
    await expect(time.settle(new Promise(() => {}))).rejects.toThrow('idle')
    await expect(time.settle(Promise.reject(new Error('broken')))).rejects.toThrow('broken')
  })

  test('two drivers at once are refused', async () => {
    const time = new VirtualTime()
    const stop = time.startAutoAdvance()
    await expect(time.advance(1)).rejects.toThrow('one driver')
    await time.sleep(1_000_000)
    await stop()
    await time.advance(1)
  })

  test('an error of a timer reaches the driver', async () => {
    const time = new VirtualTime()
    time.schedule(1, () => {
      throw new Error('from a timer')
    })
    await expect(time.advance(5)).rejects.toThrow('from a timer')
  })
})
