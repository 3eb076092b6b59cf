import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { kafkaConnection } from '../../../src/config/kafka-connection.ts'
import { settingsOfCode } from '../../../src/config/setting.ts'
import { resolveConfig } from '../../../src/config.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-pem-'))
  for (const name of ['ca', 'cert', 'key']) await writeFile(join(folder, `${name}.pem`), `the ${name}`)
})
afterAll(() => rm(folder, { recursive: true }))

const BROKERS = { 'kafka.brokers': 'a:9092,b:9092' }
const connection = (options: Record<string, string | boolean>) =>
  kafkaConnection(resolveConfig(settingsOfCode(options)), 'etl')

describe('the connection to Kafka', () => {
  test('is plain unless told otherwise', async () => {
    expect(await connection(BROKERS)).toEqual({
      brokers: ['a:9092', 'b:9092'],
      clientId: 'millrace',
      ssl: false,
      requestTimeoutMs: 30_000,
    })
  })

  test('names the job when there are no brokers', async () => {
    await expect(connection({})).rejects.toMatchObject({
      code: 'MILLRACE_KAFKA_NOT_CONFIGURED',
      message: expect.stringContaining("job 'etl'"),
    })
  })

  test('uses TLS as Node.js does it by itself when there are no files', async () => {
    expect(await connection({ ...BROKERS, 'kafka.ssl': true })).toMatchObject({ ssl: true })
  })

  test('takes the content of the files that are named, and only of those', async () => {
    const ca = { ...BROKERS, 'kafka.ssl': true, 'kafka.ssl.ca': join(folder, 'ca.pem') }
    expect((await connection(ca)).ssl).toEqual({ ca: 'the ca' })
    const all = {
      ...ca,
      'kafka.ssl.cert': join(folder, 'cert.pem'),
      'kafka.ssl.key': join(folder, 'key.pem'),
    }
    expect((await connection(all)).ssl).toEqual({ ca: 'the ca', cert: 'the cert', key: 'the key' })
  })

  test('names the option and the file when a file cannot be read', async () => {
    const path = join(folder, 'none.pem')
    await expect(connection({ ...BROKERS, 'kafka.ssl': true, 'kafka.ssl.ca': path })).rejects.toMatchObject({
      code: 'MILLRACE_INVALID_OPTION',
      message: expect.stringContaining(`kafka.ssl.ca names ${path}`),
    })
  })

  test('authenticates when a mechanism is set', async () => {
    const sasl = {
      ...BROKERS,
      'kafka.sasl.mechanism': 'scram-sha-512',
      'kafka.sasl.username': 'ann',
      'kafka.sasl.password': 'pw',
    }
    expect((await connection(sasl)).sasl).toEqual({
      mechanism: 'scram-sha-512',
      username: 'ann',
      password: 'pw',
    })
  })
})
