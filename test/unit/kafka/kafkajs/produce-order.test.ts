import { expect, test } from '@jest/globals'
import type { ProduceRequest } from '../../../../src/kafka/kafka-cluster.ts'
import { ProduceOrder } from '../../../../src/kafka/kafkajs/produce-order.ts'
import { encodePlainBatch } from '../../../../src/testing/plain-batch.ts'

function request(
  transactionalId: string | null,
  partitions: readonly number[],
  producerId = -1n,
): ProduceRequest {
  const batch = encodePlainBatch({ records: [{ value: 'x' }], producerId })
  return {
    acks: -1,
    transactionalId,
    partitions: partitions.map((partition) => ({ topic: 't', partition, batch })),
  }
}

/** Starts requests in turn; each is answered by hand. */
class Sends {
  readonly order = new ProduceOrder()
  readonly begun: string[] = []
  readonly #answers = new Map<string, { resolve(): void; reject(error: Error): void }>()

  start(name: string, of: ProduceRequest): Promise<void> {
    return this.order.run(of, () => {
      this.begun.push(name)
      return new Promise<void>((resolve, reject) => this.#answers.set(name, { resolve, reject }))
    })
  }

  async answer(name: string, error?: Error): Promise<void> {
    const answer = this.#answers.get(name)
    if (error === undefined) answer?.resolve()
    else answer?.reject(error)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

test('the next batch of a producer for a partition is sent when the one before was answered', async () => {
  const sends = new Sends()
  for (const name of ['first', 'second', 'third']) void sends.start(name, request('tx', [0]))
  expect(sends.begun).toEqual(['first'])
  await sends.answer('first')
  expect(sends.begun).toEqual(['first', 'second'])
  await sends.answer('second')
  expect(sends.begun).toEqual(['first', 'second', 'third'])
})

test('other partitions and other producers do not wait', () => {
  const sends = new Sends()
  void sends.start('a on 0', request('a', [0]))
  void sends.start('a on 1', request('a', [1]))
  void sends.start('b on 0', request('b', [0]))
  void sends.start('idempotent 7 on 0', request(null, [0], 7n))
  void sends.start('idempotent 8 on 0', request(null, [0], 8n))
  expect(sends.begun).toHaveLength(5)
})

test('a request for several partitions waits for all of them', async () => {
  const sends = new Sends()
  void sends.start('on 0', request('tx', [0]))
  void sends.start('on 1', request('tx', [1]))
  void sends.start('on both', request('tx', [0, 1]))
  await sends.answer('on 1')
  expect(sends.begun).not.toContain('on both')
  await sends.answer('on 0')
  expect(sends.begun).toContain('on both')
})

test('a failed request fails only its own caller', async () => {
  const sends = new Sends()
  const failed = sends.start('first', request('tx', [0])).catch((error: Error) => error.message)
  void sends.start('second', request('tx', [0]))
  await sends.answer('first', new Error('refused'))
  expect(await failed).toBe('refused')
  expect(sends.begun).toEqual(['first', 'second'])
})
