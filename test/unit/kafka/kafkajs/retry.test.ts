import { expect, test } from '@jest/globals'
import type { Logger } from '../../../../src/core/ports.ts'
import { brokerError, unreachable } from '../../../../src/kafka/kafkajs/error-codes.ts'
import { Retry } from '../../../../src/kafka/kafkajs/retry.ts'

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent }

/** Fails with each error in turn, then succeeds. */
function failing(...errors: readonly Error[]) {
  let tries = 0
  const attempt = async () => {
    const error = errors[tries++]
    if (error !== undefined) throw error
    return tries
  }
  return attempt
}

const loading = () => brokerError('EndTxn', 14, 'x')
const busy = () => brokerError('EndTxn', 51, 'x')

test('passing trouble is repeated until it succeeds', async () => {
  expect(
    await new Retry(silent).run('EndTxn', 5_000, failing(busy(), loading(), unreachable('EndTxn', ['a:1']))),
  ).toBe(4)
})

test('what does not pass is thrown at once', async () => {
  const fenced = brokerError('EndTxn', 47, 'x')
  await expect(new Retry(silent).run('EndTxn', 5_000, failing(fenced))).rejects.toBe(fenced)
})

test('with no time there is one try, and its error says that trying again helps', async () => {
  await expect(new Retry(silent).run('EndTxn', 0, failing(busy()))).rejects.toMatchObject({
    brokerCode: 51,
    retriable: true,
  })
})

test('when time is up, all brokers that gave no answer are named', async () => {
  const attempts = failing(
    unreachable('EndTxn', ['a:1']),
    unreachable('EndTxn', ['b:2']),
    ...Array.from({ length: 50 }, () => unreachable('EndTxn', ['a:1'])),
  )
  await expect(new Retry(silent).run('EndTxn', 150, attempts)).rejects.toMatchObject({
    code: 'MILLRACE_KAFKA_UNREACHABLE',
    details: { brokers: ['a:1', 'b:2'] },
  })
})

test('closing ends a wait between two tries', async () => {
  const retry = new Retry(silent)
  const waiting = retry.run('EndTxn', 60_000, async () => {
    throw loading()
  })
  setImmediate(() => retry.close())
  await expect(waiting).rejects.toMatchObject({ code: 'MILLRACE_KAFKA_UNREACHABLE', retriable: false })
  await expect(retry.run('EndTxn', 60_000, async () => 1)).rejects.toMatchObject({
    code: 'MILLRACE_KAFKA_UNREACHABLE',
  })
})
