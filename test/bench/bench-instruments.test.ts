import { createHash } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import { type BenchJob, COUNTRIES, MIN_AMOUNT, Orders, WINDOW_MS } from './data.ts'
import { BatchBuilder, decodeFetch, PLAIN } from './record-batch-minimal.ts'
import { OutputCheck } from './verify.ts'

/** What a right job writes, in input order. */
function rightOutput(job: BenchJob, records: number): Record<string, unknown>[] {
  const orders = new Orders()
  const out: Record<string, unknown>[] = []
  const users = new Map<number, { count: number; sum: number }>()
  const windows = new Map<string, { country: string; start: number; count: number; sum: number }>()
  for (let i = 0; i < records; i++) {
    orders.step()
    const { pad: _, ...order } = JSON.parse(orders.json())
    const start = order.ts - (order.ts % WINDOW_MS)
    if (job === 'etl' && order.amount >= MIN_AMOUNT) out.push({ ...order, eur: order.amount * 0.9 })
    const user = users.get(orders.user) ?? { count: 0, sum: 0 }
    users.set(orders.user, { count: user.count + 1, sum: user.sum + orders.amount })
    if (job === 'count') out.push({ user: order.user, ...users.get(orders.user) })
    const key = `${order.country}@${start}`
    const window = windows.get(key) ?? { country: order.country, start, count: 0, sum: 0 }
    windows.set(key, { ...window, count: window.count + 1, sum: window.sum + orders.amount })
  }
  return job === 'window' ? [...windows.values()] : out
}

function verdict(
  job: BenchJob,
  records: number,
  output: readonly Record<string, unknown>[],
  graceMs = 0,
): string[] {
  const check = new OutputCheck(job, records, graceMs)
  for (const value of output) check.record(JSON.stringify(value))
  check.finish()
  return check.complaints
}

describe('the input', () => {
  test('is byte for byte what the Java harness of the peers makes', () => {
    const hash = createHash('sha256')
    const orders = new Orders()
    for (let i = 0; i < 1000; i++) {
      orders.step()
      hash.update(`${orders.json()}\n`)
    }
    // Computed with the Java harness, first 1,000 records, each followed by a newline.
    expect(hash.digest('hex')).toBe('889989845e42218defc1b74f9abeca4467e109205ac747e448dbc297fe72a868')
  })

  test('writes whole amounts the way Java does', () => {
    const orders = new Orders()
    for (let i = 0; i < 3; i++) orders.step()
    expect(orders.json()).toContain('"amount":77.0,')
    expect(COUNTRIES[orders.country]).toBe('IT')
  })
})

describe('the verifier', () => {
  test.each(['etl', 'count', 'window'] as const)('accepts the right output of %s', (job) => {
    expect(verdict(job, 12_000, rightOutput(job, 12_000))).toEqual([])
  })

  test.each(['etl', 'count'] as const)('refuses a missing record of %s', (job) => {
    expect(verdict(job, 5_000, rightOutput(job, 5_000).toSpliced(7, 1))).not.toEqual([])
  })

  test.each(['etl', 'count', 'window'] as const)('refuses a duplicate of %s', (job) => {
    const output = rightOutput(job, 12_000)
    expect(verdict(job, 12_000, [...output, output[3]!])).not.toEqual([])
  })

  test('refuses a missing and a wrong window', () => {
    const output = rightOutput('window', 12_000)
    expect(verdict('window', 12_000, output.slice(1))).not.toEqual([])
    const wrong = output.map((value, i) =>
      i === 2 ? { ...value, count: (value['count'] as number) - 1 } : value,
    )
    expect(verdict('window', 12_000, wrong)).not.toEqual([])
  })

  test.each([
    ['amount', 1.25],
    ['eur', 1],
    ['user', 'u1'],
    ['country', 'XX'],
    ['ts', 1],
    ['pad', 'xxxxxxxx'],
    ['orderId', 10_000_000],
  ])('refuses an order whose %s is wrong', (field, value) => {
    const output = rightOutput('etl', 100)
    expect(verdict('etl', 100, [{ ...output[0]!, [field]: value }, ...output.slice(1)])).not.toEqual([])
  })

  test('refuses counts that are right in the end but came out of order', () => {
    const output = rightOutput('count', 5_000)
    const first = output.findIndex((value) => value['count'] === 2)
    const earlier = output.findIndex((value) => value['user'] === output[first]!['user'])
    const swapped = [...output]
    swapped[first] = output[earlier]!
    swapped[earlier] = output[first]!
    expect(verdict('count', 5_000, swapped)).not.toEqual([])
  })

  test('refuses what is not JSON', () => {
    const check = new OutputCheck('etl', 10, 0)
    check.record('{')
    expect(check.complaints).toHaveLength(1)
  })
})

describe('the minimal record batch', () => {
  const values = Array.from({ length: 300 }, (_, i) => `value ${i} ${'ä'.repeat(i % 40)}`)

  /** An answer to Fetch v11 with one topic and one partition. */
  function answer(
    batches: Buffer,
    aborted: readonly { producerId: bigint; firstOffset: bigint }[] = [],
  ): Buffer {
    const head = Buffer.alloc(10 + 4 + 2 + 1 + 4 + 4 + 2 + 24 + 4 + 16 * aborted.length + 4 + 4)
    let at = head.writeInt32BE(1, 10)
    at = head.writeInt16BE(1, at)
    at += head.write('t', at)
    at = head.writeInt32BE(1, at)
    at = head.writeInt32BE(3, at) + 2 + 24
    at = head.writeInt32BE(aborted.length, at)
    for (const { producerId, firstOffset } of aborted) {
      at = head.writeBigInt64BE(producerId, at)
      at = head.writeBigInt64BE(firstOffset, at)
    }
    head.writeInt32BE(batches.length, at + 4)
    return Buffer.concat([head, batches])
  }

  function batch(producerId = -1, baseOffset = 0): Buffer {
    const builder = new BatchBuilder(1 << 16)
    values.forEach((value, i) => {
      expect(builder.append(i % 3 === 0 ? null : `k${i}`, Buffer.from(value), 1_000_000 + i * 7)).toBe(true)
    })
    const bytes = builder.finish(
      producerId < 0 ? PLAIN : { producerId, epoch: 0, sequence: 0, transactional: true },
    )
    bytes.writeBigInt64BE(BigInt(baseOffset), 0)
    return bytes
  }

  test('reads back what it wrote', () => {
    const read: [string, number, number, number][] = []
    const next = decodeFetch(answer(batch(-1, 40)), (buffer, start, end, timestamp, partition, offset) =>
      read.push([buffer.utf8Slice(start, end), timestamp, partition, offset]),
    )
    expect(next).toEqual([{ partition: 3, nextOffset: 340 }])
    expect(read).toEqual(values.map((value, i) => [value, 1_000_000 + i * 7, 3, 40 + i]))
  })

  test('skips batches of aborted transactions, and those only', () => {
    const offsets: number[] = []
    const bytes = Buffer.concat([batch(7, 0), batch(8, 300), batch(9, 600)])
    decodeFetch(answer(bytes, [{ producerId: 8n, firstOffset: 300n }]), (_b, _s, _e, _t, _p, offset) =>
      offsets.push(offset),
    )
    expect(offsets).toHaveLength(600)
    expect(offsets.some((offset) => offset >= 300 && offset < 600)).toBe(false)
  })

  test('leaves a batch that is cut off for the next fetch', () => {
    const whole = batch(-1, 0)
    const next = decodeFetch(answer(Buffer.concat([whole, batch(-1, 300).subarray(0, 100)])), () => {})
    expect(next).toEqual([{ partition: 3, nextOffset: 300 }])
  })

  test('refuses a flipped bit', () => {
    const bytes = batch()
    bytes[200]! ^= 1
    expect(() => decodeFetch(answer(bytes), () => {})).toThrow(/CRC/)
  })

  test('says when a record does not fit', () => {
    const builder = new BatchBuilder(200)
    expect(builder.append(null, Buffer.alloc(100), 0)).toBe(true)
    expect(builder.append(null, Buffer.alloc(100), 0)).toBe(false)
    expect(builder.count).toBe(1)
  })
})
