import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import { Simulation } from '../../src/testing/simulation.ts'
import { jobNamed, jobOf, replayCommand } from './simulate-seed.ts'

interface KnownSeed {
  readonly seed: number
  readonly job: string
  readonly small: boolean
  /** What it once found. */
  readonly why: string
}

/** Seeds that ever failed, and what they found. */
const KNOWN = JSON.parse(readFileSync(new URL('seeds.json', import.meta.url), 'utf8')) as KnownSeed[]

/** Seeds that each run of the suite tries anew; thousands more run by themselves (npm run test:simulation). */
const SEEDS = 200
const AT_A_TIME = 50

describe('simulated jobs', () => {
  for (let from = 1; from <= SEEDS; from += AT_A_TIME)
    test(`seeds ${from} to ${from + AT_A_TIME - 1} are exact and come to an end`, async () => {
      const failed: unknown[] = []
      for (let seed = from; seed < from + AT_A_TIME; seed++) {
        const { violations, job } = await new Simulation({
          seed,
          job: jobOf(seed),
          small: true,
        }).run()
        if (violations.length > 0)
          failed.push({
            replay: replayCommand({ seed, job, size: 'small' }),
            violations,
          })
      }
      expect(failed).toEqual([])
    }, 60_000)

  test.each(KNOWN)('seed $seed of $job: $why', async ({ seed, job, small }) => {
    const { violations } = await new Simulation({ seed, job: jobNamed(job), small }).run()
    expect(violations).toEqual([])
  })

  test('a seed gives the same run to the last step, and another seed another one', async () => {
    const hashOf = async (seed: number): Promise<string> =>
      (await new Simulation({ seed, job: jobNamed('keyed'), small: true }).run()).hash
    const first = await hashOf(7)
    expect(await hashOf(7)).toBe(first)
    expect(await hashOf(8)).not.toBe(first)
  })
})
