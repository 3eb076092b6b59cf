/**
 * Names of the Redis keys of keyed state. What is in braces is the hash tag: all keys of one key group lie in one slot of a cluster, so
 * that a script can touch them together.
 *
 *   millrace:{<job>/<run>/<operator>/<key group>}:marker               who owns the group, what the base holds, its segments
 *   millrace:{…}:base           millrace:{…}:base-timers               the oldest state that may be asked for
 *   millrace:{…}:<segment>      millrace:{…}:<segment>-timers          changed records; <segment> = <attempt>.<number>.<part>
 *
 * A run is part of the name: what another submission of the job left can neither be mistaken for ours nor be overwritten by us.
 */
import { encodeJobName } from '../core/job-name.ts'
import { MillraceError } from '../errors.ts'

const NAME_BYTES = 100
const RUN = /^[a-zA-Z0-9_-]+$/

/** The keys of one operator in one run. */
export interface RedisKeySpace {
  /** The job's name, as the user gave it. */
  readonly job: string
  readonly run: string
  /** The operator's uid. */
  readonly operator: string
}

/** The keys of one key group. */
export class RedisGroupKeys {
  readonly keyGroup: number
  readonly marker: string
  readonly base: string
  readonly baseTimers: string
  readonly #tag: string

  constructor(space: RedisKeySpace, keyGroup: number) {
    const operator = encodeJobName(space.operator, NAME_BYTES)
    this.keyGroup = keyGroup
    this.#tag = `millrace:{${prefixOf(space.job, space.run)}${operator}/${keyGroup}}:`
    this.marker = `${this.#tag}marker`
    this.base = `${this.#tag}base`
    this.baseTimers = `${this.#tag}base-timers`
  }

  /** Values of a segment. */
  values(segment: string): string {
    return this.#tag + segment
  }

  /** Timers of a segment. */
  timers(segment: string): string {
    return `${this.#tag}${segment}-timers`
  }
}

function prefixOf(job: string, run: string): string {
  if (!RUN.test(run)) throw new MillraceError('MILLRACE_INTERNAL', `'${run}' cannot be the id of a run`)
  return `${encodeJobName(job, NAME_BYTES)}/${run}/`
}

/** A pattern for SCAN: all keys of a job, or of one run of it. Encoded names have no character that means something in a pattern. */
export function redisKeyPattern(job: string, run?: string): string {
  return `millrace:{${run === undefined ? `${encodeJobName(job, NAME_BYTES)}/` : prefixOf(job, run)}*`
}

/** The run that a key of a job belongs to; undefined for a key of something else. */
export function runOfRedisKey(key: string): string | undefined {
  return /^millrace:\{[\w-]+\/([\w-]+)\//.exec(key)?.[1]
}
