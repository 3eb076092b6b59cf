/**
 * The benchmark's input, a pure function of the record's number: splitmix64 with seed 42. The peers' Java harness makes the same bytes,
 * so both can measure on one topic. Amounts are multiples of 0.25 below 100: every sum is exact in a double, in any order.
 */

/** Timestamp of record 0; each later record is one millisecond later. */
export const BASE_TIMESTAMP = 1_764_430_000_000
export const USERS = 100_000
export const COUNTRIES = ['DE', 'FR', 'US', 'GB', 'ES', 'IT', 'PL', 'NL'] as const
/** Partitions of the input and output topics; record i lies in partition i mod 4. */
export const PARTITIONS = 4
/** Length of the windows of job `window`. */
export const WINDOW_MS = 10_000
/** Orders below this amount are dropped by job `etl`. */
export const MIN_AMOUNT = 20

/** The jobs that peers are measured on. */
export type BenchJob = 'etl' | 'count' | 'window'

/**
 * Walks over the orders in sequence. 64-bit numbers are kept as two 32-bit halves: with bigint, generating four million orders would take
 * longer than processing them.
 */
export class Orders {
  /** Number of the current order; -1 before the first `step`. */
  index = -1
  user = 0
  amount = 0
  country = 0
  timestamp = BASE_TIMESTAMP - 1

  #seedHigh = 0
  #seedLow = 42
  #high = 0
  #low = 0

  /** Moves to the next order. */
  step(): void {
    this.index++
    this.timestamp = BASE_TIMESTAMP + this.index
    this.#next()
    this.user = this.#remainder(USERS)
    this.#next()
    this.amount = this.#remainder(400) / 4
    this.#next()
    this.country = this.#low & 7
  }

  /** The current order as it lies in the topic; `timestamp` other than its own for latency runs. */
  json(timestamp: number = this.timestamp): string {
    const amount = Number.isInteger(this.amount) ? `${this.amount}.0` : String(this.amount)
    return `{"orderId":${this.index},"user":"u${this.user}","amount":${amount},"country":"${COUNTRIES[this.country]}","ts":${timestamp},"pad":"xxxxxxxx"}`
  }

  /** splitmix64: state += golden; mix the state. */
  #next(): void {
    const low = this.#seedLow + 0x7f4a7c15
    this.#seedHigh = (this.#seedHigh + 0x9e3779b9 + (low > 0xffffffff ? 1 : 0)) >>> 0
    this.#seedLow = low >>> 0
    this.#high = this.#seedHigh
    this.#low = this.#seedLow
    this.#xorShift(30)
    this.#multiply(0xbf58476d, 0x1ce4e5b9)
    this.#xorShift(27)
    this.#multiply(0x94d049bb, 0x133111eb)
    this.#xorShift(31)
  }

  /** z ^= z >>> bits, for 0 < bits < 32. */
  #xorShift(bits: number): void {
    const low = (this.#low >>> bits) | (this.#high << (32 - bits))
    this.#low = (this.#low ^ low) >>> 0
    this.#high = (this.#high ^ (this.#high >>> bits)) >>> 0
  }

  /** z *= factor, modulo 2^64. */
  #multiply(high: number, low: number): void {
    const a0 = this.#low & 0xffff
    const a1 = this.#low >>> 16
    const b0 = low & 0xffff
    const b1 = low >>> 16
    const middle = a1 * b0 + ((a0 * b0) >>> 16)
    const cross = a0 * b1 + (middle & 0xffff)
    // Upper half of the 32 × 32 bit product; each term is below 2^32 and the sum is below 2^53.
    const carry = a1 * b1 + Math.floor(middle / 0x10000) + Math.floor(cross / 0x10000)
    this.#high = (carry + Math.imul(this.#low, high) + Math.imul(this.#high, low)) >>> 0
    this.#low = Math.imul(this.#low, low) >>> 0
  }

  /** z mod `divisor` as unsigned numbers, for divisors up to 100,000. */
  #remainder(divisor: number): number {
    return ((this.#high % divisor) * (0x100000000 % divisor) + (this.#low % divisor)) % divisor
  }
}
