/** What brokers see of the settings of the connection. */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { kafkaConnection } from '../../../src/config/kafka-connection.ts'
import { settingsOfCode } from '../../../src/config/setting.ts'
import { resolveConfig } from '../../../src/config.ts'
import type { Logger } from '../../../src/core/ports.ts'
import { KafkajsCluster } from '../../../src/kafka/kafkajs/kafkajs-cluster.ts'
import { API_VERSIONS, apiVersions, FakeBroker, SASL_AUTHENTICATE, SASL_HANDSHAKE } from './fake-broker.ts'

const SILENT: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => SILENT,
}

let broker: FakeBroker
beforeEach(async () => {
  broker = await FakeBroker.open()
})
afterEach(() => broker.close())

/** Connects with these settings until the broker has seen what the test waits for. */
async function connectUntil(
  settings: Readonly<Record<string, string | boolean>>,
  seen: () => boolean,
): Promise<void> {
  const config = resolveConfig(settingsOfCode({ 'kafka.brokers': broker.address, ...settings }))
  const cluster = new KafkajsCluster(await kafkaConnection(config, 'job'), SILENT)
  const ended = cluster.connect().catch((error: unknown) => error)
  await broker.until(seen)
  await cluster.close()
  await ended
}

test('the client id is in the head of requests', async () => {
  await connectUntil({ 'kafka.client-id': 'orders-etl' }, () => broker.requests.length > 0)
  expect(broker.requests[0]).toMatchObject({ apiKey: API_VERSIONS, clientId: 'orders-etl' })
  broker.requests.length = 0
  await connectUntil({}, () => broker.requests.length > 0)
  expect(broker.requests[0]?.clientId).toBe('millrace')
})

test('a request that is not answered within the request time-out is sent again', async () => {
  await connectUntil(
    { 'kafka.request-timeout': '300 ms', 'kafka.fetch.max-wait': '100 ms' },
    () => broker.requests.length > 1,
  )
  const [first, second] = broker.requests
  expect(second!.apiKey).toBe(first!.apiKey)
  expect(second!.at - first!.at).toBeGreaterThan(290)
})

test('with TLS nothing is sent in the clear', async () => {
  const HANDSHAKE = 0x16
  await connectUntil({ 'kafka.ssl': true }, () => broker.openings.length > 0)
  expect(broker.openings[0]![0]).toBe(HANDSHAKE)
  broker.openings.length = 0
  await connectUntil({}, () => broker.openings.length > 0)
  expect(broker.openings[0]![0]).not.toBe(HANDSHAKE)
})

describe('SASL', () => {
  test.each([
    ['plain', 'PLAIN', '\0ann\0geheim'],
    ['scram-sha-256', 'SCRAM-SHA-256', 'n,,n=ann,r='],
    ['scram-sha-512', 'SCRAM-SHA-512', 'n,,n=ann,r='],
  ])('names the mechanism, then sends who it is: %s', async (mechanism, name, first) => {
    broker.answer = ({ apiKey }) => {
      if (apiKey === API_VERSIONS) return apiVersions({ 3: 9, 17: 1, 18: 0, 24: 4, 36: 1 })
      if (apiKey !== SASL_HANDSHAKE) return undefined
      // No error; one mechanism.
      const head = Buffer.from([0, 0, 0, 0, 0, 1, 0, name.length])
      return Buffer.concat([head, Buffer.from(name)])
    }
    const credentials = {
      'kafka.sasl.mechanism': mechanism,
      'kafka.sasl.username': 'ann',
      'kafka.sasl.password': 'geheim',
    }
    await connectUntil(credentials, () => broker.requests.some(({ apiKey }) => apiKey === SASL_AUTHENTICATE))
    const sent = (key: number): string => `${broker.requests.find(({ apiKey }) => apiKey === key)?.body}`
    expect(sent(SASL_HANDSHAKE)).toContain(name)
    expect(sent(SASL_AUTHENTICATE)).toContain(first)
  })
})
