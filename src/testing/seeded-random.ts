/**
 * Randomness that is a function of its seed: the same seed gives the same run, on every machine.
 */
import type { Random } from '../core/ports.ts'

/** splitmix32: spreads a seed over the four words of the generator's state. */
function splitMix(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x9e3779b9) >>> 0
    let z = state
    z = Math.imul(z ^ (z >>> 16), 0x85ebca6b)
    z = Math.imul(z ^ (z >>> 13), 0xc2b2ae35)
    return (z ^ (z >>> 16)) >>> 0
  }
}

/** FNV-1a of a name: gives forks of one generator different streams. */
function hashName(name: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193)
  return hash >>> 0
}

/**
 * xoshiro128** behind the `Random` port. Two generators of one seed give the same numbers for ever: a failing simulation is replayed by
 * its seed, so this algorithm must not change. Not for secrets.
 */
export class SeededRandom implements Random {
  readonly seed: number
  #a: number
  #b: number
  #c: number
  #d: number

  constructor(seed: number) {
    this.seed = seed
    // A seed beyond 32 bits counts in full: its upper part is mixed in.
    const low = splitMix(seed)
    const high = splitMix(Math.floor(seed / 0x1_0000_0000) ^ 0x5bd1e995)
    this.#a = (low() ^ high()) >>> 0
    this.#b = (low() ^ high()) >>> 0
    this.#c = (low() ^ high()) >>> 0
    this.#d = (low() ^ high()) >>> 0 || 1
  }

  /** An integer in [0, 2^32). */
  uint32(): number {
    const product = Math.imul(this.#b, 5)
    const result = Math.imul((product << 7) | (product >>> 25), 9) >>> 0
    const t = this.#b << 9
    this.#c ^= this.#a
    this.#d ^= this.#b
    this.#b ^= this.#c
    this.#a ^= this.#d
    this.#c ^= t
    this.#d = (this.#d << 11) | (this.#d >>> 21)
    return result
  }

  next(): number {
    return ((this.uint32() >>> 5) * 0x400_0000 + (this.uint32() >>> 6)) / 0x20_0000_0000_0000
  }

  /** An integer in [min, max]. */
  integer(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1))
  }

  /** True with the given probability. */
  chance(probability: number): boolean {
    return this.next() < probability
  }

  /** One element of a list that isn't empty. */
  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.next() * list.length)]!
  }

  /** A generator of its own for one purpose: what it draws doesn't shift what others draw, so a seed's run changes little when code does. */
  fork(name: string): SeededRandom {
    return new SeededRandom((hashName(name) ^ splitMix(this.seed)()) >>> 0)
  }

  uuid(): string {
    const bytes = Buffer.alloc(16)
    for (let i = 0; i < 16; i += 4) bytes.writeUInt32BE(this.uint32(), i)
    bytes[6] = (bytes[6]! & 0x0f) | 0x40
    bytes[8] = (bytes[8]! & 0x3f) | 0x80
    const hex = bytes.toString('hex')
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
  }
}
