/**
 * Proves that the simulation can fail: each mutant breaks one rule of the protocol, and some seed must find it.
 *
 *   npm run -s test:simulation:mutants -- [--seeds N] [--mutant NAME] [--write]
 *
 * Not here: that a refused commit is healed without asking the log. As long as no id is initialised again before its commit is confirmed,
 * no run comes to a refusal of what was committed; the committer's own tests make one. Nor that an abort unblocks the channels: the next
 * checkpoint does, so that a run is only slower; the barrier handler's own tests see it.
 *
 * mutants.json has the seed that found each mutant last; that one is tried first, then all up to N. `--write` notes the seeds anew.
 */
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import { isMainThread, Worker } from 'node:worker_threads'
import { Simulation } from '../../src/testing/simulation.ts'
import { CHECKPOINT_MUTANTS } from './checkpoint-mutants.ts'
import type { Mutant, Scene } from './mutant.ts'
import { jobNamed, simulateSeed } from './simulate-seed.ts'
import { STATE_MUTANTS } from './state-mutants.ts'
import { TAKE_OVER_MUTANTS } from './take-over-mutants.ts'
import { TRANSACTION_MUTANTS } from './transaction-mutants.ts'

/** Every rule that is broken. */
export const MUTANTS: readonly Mutant[] = [
  ...CHECKPOINT_MUTANTS,
  ...TRANSACTION_MUTANTS,
  ...TAKE_OVER_MUTANTS,
  ...STATE_MUTANTS,
]

/** Where to look for a mutant. */
export interface Hunt {
  readonly mutant: string
  /** The seed that found it before. */
  readonly first: number | undefined
  /** All up to this one otherwise. */
  readonly seeds: number
}

/** What found it. */
export interface Kill {
  readonly mutant: string
  readonly seed: number
  readonly violation: string
}

async function firstViolation(seed: number, scene: Scene | undefined): Promise<string | undefined> {
  const run =
    scene === undefined
      ? simulateSeed({ seed, job: undefined, size: undefined }, { twice: false })
      : new Simulation({ seed, small: true, ...scene, job: jobNamed(scene.job) }).run()
  return (await run).violations[0]
}

/** The first seed that finds the mutant; undefined when none of them does. A seed that fails without the mutant proves nothing. */
export async function hunt({ mutant: name, first, seeds }: Hunt): Promise<Kill | undefined> {
  const mutant = MUTANTS.find((known) => known.name === name)
  if (mutant === undefined) throw new Error(`no mutant '${name}'`)
  const all = Array.from({ length: seeds }, (_, i) => i + 1)
  for (const seed of first === undefined ? all : [first, ...all]) {
    const mend = mutant.apply()
    const violation = await firstViolation(seed, mutant.scene).finally(mend)
    if (violation !== undefined && (await firstViolation(seed, mutant.scene)) === undefined)
      return { mutant: name, seed, violation }
  }
  return undefined
}

type Found = Readonly<Record<string, { readonly rule: string; readonly seed: number; readonly how: string }>>

async function main(): Promise<void> {
  const { values: flags } = parseArgs({
    options: {
      seeds: { type: 'string', default: '2000' },
      mutant: { type: 'string' },
      threads: { type: 'string', default: String(availableParallelism()) },
      write: { type: 'boolean', default: false },
    },
  })
  const file = new URL('mutants.json', import.meta.url)
  const before = JSON.parse(readFileSync(file, 'utf8')) as Found
  const chosen = MUTANTS.filter(({ name }) => flags.mutant === undefined || name.includes(flags.mutant))
  const queue = [...chosen]
  const kills = new Map<string, Kill>()
  const work = async (): Promise<void> => {
    const thread = new Worker(new URL('mutant-thread.ts', import.meta.url))
    try {
      for (let mutant = queue.shift(); mutant !== undefined; mutant = queue.shift()) {
        const { name, rule } = mutant
        const answer = once(thread, 'message') as Promise<[Kill | undefined]>
        const order: Hunt = { mutant: name, first: before[name]?.seed, seeds: Number(flags.seeds) }
        thread.postMessage(order)
        const [kill] = await answer
        if (kill === undefined) process.stdout.write(`SURVIVED  §${rule} ${name}\n`)
        else {
          kills.set(name, kill)
          process.stdout.write(
            `seed ${String(kill.seed).padStart(4)} §${rule} ${name}\n          ${kill.violation.slice(0, 160)}\n`,
          )
        }
      }
    } finally {
      await thread.terminate()
    }
  }
  await Promise.all(Array.from({ length: Number(flags.threads) }, work))
  if (flags.write) {
    const found = MUTANTS.flatMap(({ name, rule }): [string, Found[string]][] => {
      const kill = kills.get(name)
      if (kill !== undefined) return [[name, { rule, seed: kill.seed, how: kill.violation.slice(0, 120) }]]
      return before[name] === undefined ? [] : [[name, before[name]]]
    })
    writeFileSync(file, `${JSON.stringify(Object.fromEntries(found), undefined, 2)}\n`)
  }
  const survivors = chosen.length - kills.size
  process.stdout.write(`${kills.size} mutants found, ${survivors} survived\n`)
  process.exitCode = survivors === 0 && kills.size > 0 ? 0 : 1
}

if (isMainThread && process.argv[1]?.endsWith('mutants.ts')) await main()
