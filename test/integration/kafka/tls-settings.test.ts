/** Which certificates a Kafka client trusts and shows: on a listener that asks for one. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer, type Server, type TLSSocket } from 'node:tls'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { kafkaConnection } from '../../../src/config/kafka-connection.ts'
import { settingsOfCode } from '../../../src/config/setting.ts'
import { resolveConfig } from '../../../src/config.ts'
import { KafkajsCluster } from '../../../src/kafka/kafkajs/kafkajs-cluster.ts'
import { WarningLog } from '../redis/redis-scene.ts'

let folder: string
let server: Server
/** Whose certificate each connection showed; undefined: none. Connections that were refused are not there. */
let shown: (string | undefined)[]
let refused: number

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-tls-'))
  shown = []
  refused = 0
  await Promise.all([certificate('broker', '127.0.0.1'), certificate('client', 'orders-etl')])
  server = createServer({
    cert: await readFile(pem('broker')),
    key: await readFile(pem('broker-key')),
    ca: await readFile(pem('client')),
    requestCert: true,
    rejectUnauthorized: false,
  })
  server.on('secureConnection', (socket: TLSSocket) => {
    shown.push(socket.getPeerCertificate()?.subject?.CN)
    socket.destroy()
  })
  server.on('tlsClientError', () => refused++)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
})
afterEach(async () => {
  server.close()
  await rm(folder, { recursive: true, force: true })
})

const pem = (name: string): string => join(folder, `${name}.pem`)

async function certificate(name: string, subject: string): Promise<void> {
  await promisify(execFile)('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1'],
    ...['-subj', `/CN=${subject}`, '-addext', 'subjectAltName=IP:127.0.0.1'],
    ...['-keyout', pem(`${name}-key`), '-out', pem(name)],
  ])
}

/** Connects until the listener has seen whether the client goes on. */
async function connect(settings: Readonly<Record<string, string>>): Promise<void> {
  const { port } = server.address() as { port: number }
  const config = resolveConfig(
    settingsOfCode({ 'kafka.brokers': `127.0.0.1:${port}`, 'kafka.ssl': true, ...settings }),
  )
  const cluster = new KafkajsCluster(await kafkaConnection(config, 'job'), new WarningLog())
  const ended = cluster.connect().catch((error: unknown) => error)
  await Promise.race([once(server, 'secureConnection'), once(server, 'tlsClientError')])
  await cluster.close()
  await ended
}

test('kafka.ssl.ca: a broker is trusted whose certificate this authority has signed, and no other', async () => {
  await connect({})
  expect([shown.length, refused]).toEqual([0, 1])
  await connect({ 'kafka.ssl.ca': pem('broker') })
  expect(shown).toHaveLength(1)
})

test('kafka.ssl.cert and kafka.ssl.key: what the client shows of itself', async () => {
  const ca = { 'kafka.ssl.ca': pem('broker') }
  await connect(ca)
  await connect({ ...ca, 'kafka.ssl.cert': pem('client'), 'kafka.ssl.key': pem('client-key') })
  expect(shown).toEqual([undefined, 'orders-etl'])
})
