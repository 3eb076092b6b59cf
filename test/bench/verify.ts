/** Checks a job's whole output against the generator, record by record, and knows nothing of the product. */
import { BASE_TIMESTAMP, type BenchJob, COUNTRIES, MIN_AMOUNT, Orders, USERS, WINDOW_MS } from './data.ts'

const MAX_COMPLAINTS = 5

interface WindowTotal {
  count: number
  sum: number
}

/** What compares a run's output with what it must be. */
export interface RunCheck {
  /** Records that must come. */
  readonly expected: number
  /** Records that came. */
  readonly seen: number
  /** What is wrong; the first few. */
  readonly complaints: readonly string[]
  /** Takes the value of the next output record. */
  record(text: string): void
  /** True if all came, once, and right. Call it after the last record. */
  finish(): boolean
}

/** Takes the output records in the order of their partitions' logs. */
export class OutputCheck implements RunCheck {
  /** Records that must come. */
  readonly expected: number
  /** Records that came, extra windows left out. */
  seen = 0
  /** What is wrong; the first few. */
  readonly complaints: string[] = []

  readonly #job: BenchJob
  readonly #records: number
  readonly #graceMs: number
  readonly #user: Int32Array
  readonly #amount: Float64Array
  readonly #country: Uint8Array
  readonly #written: Uint8Array
  readonly #finalCount = new Int32Array(USERS)
  readonly #finalSum = new Float64Array(USERS)
  readonly #count = new Int32Array(USERS)
  readonly #sum = new Float64Array(USERS)
  readonly #windows = new Map<string, WindowTotal>()
  readonly #windowsSeen = new Set<string>()

  constructor(job: BenchJob, records: number, graceMs: number) {
    this.#job = job
    this.#records = records
    this.#graceMs = graceMs
    this.#user = new Int32Array(records)
    this.#amount = new Float64Array(records)
    this.#country = new Uint8Array(records)
    this.#written = new Uint8Array(records)
    this.expected = this.#generate()
  }

  #generate(): number {
    const orders = new Orders()
    let kept = 0
    for (let i = 0; i < this.#records; i++) {
      orders.step()
      this.#user[i] = orders.user
      this.#amount[i] = orders.amount
      this.#country[i] = orders.country
      this.#finalCount[orders.user]! += 1
      this.#finalSum[orders.user]! += orders.amount
      const start = orders.timestamp - (orders.timestamp % WINDOW_MS)
      const key = `${COUNTRIES[orders.country]}@${start}`
      let total = this.#windows.get(key)
      if (total === undefined) {
        total = { count: 0, sum: 0 }
        this.#windows.set(key, total)
      }
      total.count++
      total.sum += orders.amount
      if (orders.amount >= MIN_AMOUNT) kept++
    }
    if (this.#job === 'etl') return kept
    if (this.#job === 'count') return this.#records
    return [...this.#windows.keys()].filter((key) => this.#mustClose(Number(key.slice(3)))).length
  }

  /** Windows whose end + grace lies a second or more before the last timestamp certainly close; later ones may. */
  #mustClose(start: number): boolean {
    return start + WINDOW_MS + this.#graceMs <= BASE_TIMESTAMP + this.#records - 1000
  }

  /** Takes the value of the next output record. */
  record(text: string): void {
    let value: any
    try {
      value = JSON.parse(text)
    } catch {
      this.#complain(`not JSON: ${text.slice(0, 100)}`)
      return
    }
    if (this.#job === 'etl') this.#etl(value)
    else if (this.#job === 'count') this.#counted(value)
    else this.#window(value)
  }

  #etl(value: any): void {
    this.seen++
    const i = value.orderId
    const amount = this.#amount[i]
    if (amount === undefined) {
      this.#complain(`no such order: ${i}`)
      return
    }
    if (this.#written[i] === 1) this.#complain(`duplicate ${i}`)
    this.#written[i] = 1
    const right =
      amount >= MIN_AMOUNT &&
      value.amount === amount &&
      value.eur === amount * 0.9 &&
      !('pad' in value) &&
      value.user === `u${this.#user[i]}` &&
      value.country === COUNTRIES[this.#country[i]!] &&
      value.ts === BASE_TIMESTAMP + i
    if (!right) this.#complain(`wrong ${JSON.stringify(value)}`)
  }

  #counted(value: any): void {
    this.seen++
    const user = Number(String(value.user).slice(1))
    const count = this.#count[user]
    if (count === undefined) {
      this.#complain(`no such user: ${value.user}`)
      return
    }
    if (value.count !== count + 1) this.#complain(`${value.user}: count ${value.count} after ${count}`)
    if (value.sum < this.#sum[user]!) this.#complain(`${value.user}: the sum fell`)
    this.#count[user] = value.count
    this.#sum[user] = value.sum
  }

  #window(value: any): void {
    const key = `${value.country}@${value.start}`
    const total = this.#windows.get(key)
    const right = total !== undefined && total.count === value.count && total.sum === value.sum
    if (!right) this.#complain(`wrong ${JSON.stringify(value)}, expected ${JSON.stringify(total ?? null)}`)
    if (this.#windowsSeen.has(key)) this.#complain(`duplicate ${key}`)
    this.#windowsSeen.add(key)
    if (this.#mustClose(Number(value.start))) this.seen++
  }

  #complain(complaint: string): void {
    if (this.complaints.length < MAX_COMPLAINTS) this.complaints.push(complaint)
    else if (this.complaints.length === MAX_COMPLAINTS) this.complaints.push('…')
  }

  /** True if all came, once, and right. Call it after the last record. */
  finish(): boolean {
    if (this.#job === 'count')
      for (let user = 0; user < USERS; user++)
        if (this.#count[user] !== this.#finalCount[user] || this.#sum[user] !== this.#finalSum[user])
          this.#complain(
            `u${user} ends at ${this.#count[user]} / ${this.#sum[user]}, expected ${this.#finalCount[user]} / ${this.#finalSum[user]}`,
          )
    if (this.seen !== this.expected) this.#complain(`${this.seen} of ${this.expected} records`)
    return this.complaints.length === 0
  }
}
