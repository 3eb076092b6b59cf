/**
 * Compares the demo's output with what it must be, record by record. Knows the generator and the two rules of the job, nothing of the product.
 */
import type { Order } from '../../../examples/order.ts'
import { amountOf, orderAt, USERS, userOf } from './orders.ts'

const MIN_AMOUNT = 20
const EUROS_PER_DOLLAR = 0.875
const MAX_COMPLAINTS = 3

/** What was found in one output topic. */
export interface CheckResult {
  readonly expected: number
  /** Records read. */
  readonly out: number
  /** Right records that had come before. */
  readonly duplicates: number
  readonly missing: number
  /** Records that nobody expects: a wrong value, or an input that has no output. */
  readonly wrong: number
  /** The first few duplicate and wrong ones. */
  readonly complaints: readonly string[]
}

/** An output topic that is being checked. */
export interface OutputCheck {
  /** Takes the value of the next record. */
  record(text: string): void
  result(): CheckResult
}

/** True if everything came, once, and right. */
export function isExact(result: CheckResult): boolean {
  return result.duplicates === 0 && result.missing === 0 && result.wrong === 0
}

/** Counts records by the number of the output that each of them is. */
abstract class NumberedCheck implements OutputCheck {
  readonly #came: Uint8Array
  readonly #expected: number
  readonly #complaints: string[] = []
  #out = 0
  #distinct = 0
  #duplicates = 0
  #wrong = 0

  /** Outputs have numbers below `numbers`; `expected` of them must come. */
  protected constructor(numbers: number, expected: number) {
    this.#came = new Uint8Array(numbers)
    this.#expected = expected
  }

  /** Number of the output that this value is, or what is wrong with it. */
  protected abstract numberOf(value: Record<string, unknown>): number | string

  record(text: string): void {
    this.#out++
    const found = this.#find(text)
    if (typeof found === 'string') {
      this.#wrong++
      this.#complain(`${found}: ${text}`)
    } else if (this.#came[found] === 1) {
      this.#duplicates++
      this.#complain(`came twice: ${text}`)
    } else {
      this.#came[found] = 1
      this.#distinct++
    }
  }

  result(): CheckResult {
    return {
      expected: this.#expected,
      out: this.#out,
      duplicates: this.#duplicates,
      missing: this.#expected - this.#distinct,
      wrong: this.#wrong,
      complaints: this.#complaints,
    }
  }

  #find(text: string): number | string {
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch {
      return 'not JSON'
    }
    return typeof value === 'object' && value !== null
      ? this.numberOf(value as Record<string, unknown>)
      : 'not an object'
  }

  #complain(complaint: string): void {
    if (this.#complaints.length < MAX_COMPLAINTS) this.#complaints.push(complaint.slice(0, 200))
  }
}

/** The ETL's output: each order of at least 20, with its amount in euros. */
export class BigOrdersCheck extends NumberedCheck {
  readonly #records: number

  constructor(records: number) {
    let expected = 0
    for (let i = 0; i < records; i++) if (amountOf(i) >= MIN_AMOUNT) expected++
    super(records, expected)
    this.#records = records
  }

  protected override numberOf(value: Record<string, unknown>): number | string {
    const i = value['orderId']
    if (typeof i !== 'number' || !(i >= 0 && i < this.#records)) return 'no such order'
    const order: Order = orderAt(i)
    if (order.amount < MIN_AMOUNT) return 'should have been filtered out'
    const wanted = { ...order, euros: order.amount * EUROS_PER_DOLLAR }
    const keys = Object.keys(wanted) as (keyof typeof wanted)[]
    const right = Object.keys(value).length === keys.length && keys.every((key) => value[key] === wanted[key])
    return right ? i : 'wrong value'
  }
}

/**
 * The aggregate's output: after each order the user's count and sum so far. A user's orders lie in one partition, in order, so every one
 * of these totals is known, not only the last.
 */
export class TotalsCheck extends NumberedCheck {
  /** Number of the output for a user's first order; one entry more than there are users. */
  readonly #first = new Int32Array(USERS + 1)
  /** Sum by number of output. */
  readonly #sums: Float64Array

  constructor(records: number) {
    super(records, records)
    for (let i = 0; i < records; i++) this.#first[userOf(i) + 1]! += 1
    for (let user = 0; user < USERS; user++) this.#first[user + 1]! += this.#first[user]!
    this.#sums = new Float64Array(records)
    const next = this.#first.slice()
    for (let i = 0; i < records; i++) {
      const user = userOf(i)
      const number = next[user]!
      next[user]! += 1
      const before = number === this.#first[user] ? 0 : this.#sums[number - 1]!
      this.#sums[number] = before + amountOf(i)
    }
  }

  protected override numberOf(value: Record<string, unknown>): number | string {
    const { user, count, sum } = value
    if (typeof user !== 'string' || typeof count !== 'number') return 'no total'
    const index = /^u\d+$/.test(user) ? Number(user.slice(1)) : USERS
    if (index >= USERS) return 'no such user'
    const number = this.#first[index]! + count - 1
    if (!Number.isInteger(count) || count < 1 || number >= this.#first[index + 1]!) return 'no such count'
    return sum === this.#sums[number] ? number : `wrong sum, expected ${this.#sums[number]}`
  }
}
