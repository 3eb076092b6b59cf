/**
 * One connection to one broker: kafkajs's socket, TLS, SASL and time-outs, with requests written by hand.
 *
 *   open ──▶ usable ──idle, broker gone, time-out, close()──▶ dead
 *              └──SASL session nearly over──▶ retired (not used for new requests) ──▶ dead
 *
 * A dead connection is never revived; its owner opens another one.
 */
import { connect, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import Connection from 'kafkajs/src/network/connection.js'
import type { Logger } from '../../core/ports.ts'
import { KafkaError } from '../../errors.ts'
import type { KafkaConnectionConfig } from '../kafka-cluster.ts'
import { brokerError, unreachable } from './error-codes.ts'
import { kafkajsLogger } from './kafkajs-logger.ts'
import type { RequestKind } from './request.ts'
import { RequestWriter } from './request-writer.ts'
import { apiVersionsV0 } from './requests/api-versions-v0.ts'
import { ResponseFrames } from './response-frames.ts'
import { ResponseReader } from './response-reader.ts'

/** Where a broker listens. */
export interface BrokerAddress {
  readonly host: string
  readonly port: number
}

const KEEP_ALIVE_MS = 60_000
/** How much is read from a socket at once. */
const READ_BYTES = 128 << 10
const REAUTHENTICATE_BEFORE_MS = 10_000
const DEFAULT_CONNECTION_TIMEOUT_MS = 5_000
const DEFAULT_REQUEST_TIMEOUT_MS = 30_000

/**
 * AddPartitionsToTxn v4 is advertised from Kafka 3.6 on (3.5 had it, marked unstable): the release in which leaders began
 * to verify that a partition belongs to the transaction (KIP-890), without which transactions can hang.
 */
const FLOOR = { apiKey: 24, version: 4, release: '3.6' } as const

/** `host:port`, as people write it. */
export function addressText({ host, port }: BrokerAddress): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

export class BrokerConnection {
  readonly address: BrokerAddress
  readonly #connection: Connection
  readonly #clientId: string
  readonly #sasl: boolean
  readonly #logger: Logger
  readonly #onDead: () => void
  readonly #frames: ResponseFrames
  #socket: Socket | undefined
  #dead: Error | undefined

  /** Does not connect yet: `open` does. `onDead` is called once, when the connection has ended for whatever reason. */
  constructor(address: BrokerAddress, config: KafkaConnectionConfig, logger: Logger, onDead: () => void) {
    this.address = address
    this.#clientId = config.clientId
    this.#sasl = config.sasl !== undefined
    this.#logger = logger
    this.#onDead = onDead
    this.#connection = new Connection({
      ...address,
      logger: kafkajsLogger(logger),
      clientId: config.clientId,
      connectionTimeout: config.connectionTimeoutMs ?? DEFAULT_CONNECTION_TIMEOUT_MS,
      requestTimeout: config.requestTimeoutMs ?? DEFAULT_REQUEST_TIMEOUT_MS,
      reauthenticationThreshold: REAUTHENTICATE_BEFORE_MS,
      ssl: config.ssl === true ? {} : config.ssl === undefined || config.ssl === false ? null : config.ssl,
      // kafkajs keeps its authenticator in this object, and one must not be shared between connections.
      sasl: config.sasl === undefined ? null : { ...config.sasl },
      socketFactory: ({ host, port, ssl, onConnect }) => this.#openSocket(host, port, ssl, onConnect),
    })
    correctThrottleTimer(this.#connection)
    this.#frames = new ResponseFrames((frame) =>
      this.#connection.requestQueue.fulfillRequest({
        correlationId: frame.readInt32BE(0),
        payload: frame.subarray(4),
        size: frame.length,
      }),
    )
    // kafkajs would collect the chunks of an answer in a list and join them at the end.
    this.#connection.processData = (chunk) => this.#take(chunk)
  }

  /** Connects, authenticates, and checks the broker's release. @throws KafkaError UNREACHABLE, UNAUTHORIZED or TOO_OLD. */
  async open(): Promise<this> {
    try {
      await this.#connection.connect()
    } catch (error) {
      this.close(error)
      throw this.#lost('Connect', error)
    }
    const { errorCode, versions } = await this.send(apiVersionsV0, undefined, 0)
    try {
      if (errorCode !== 0) throw brokerError('ApiVersions', errorCode, `broker ${addressText(this.address)}`)
      if ((versions[FLOOR.apiKey]?.maxVersion ?? 0) < FLOOR.version) {
        throw new KafkaError(
          'MILLRACE_KAFKA_TOO_OLD',
          `The broker at ${addressText(this.address)} is older than Apache Kafka ${FLOOR.release}: its AddPartitionsToTxn ends at v${versions[FLOOR.apiKey]?.maxVersion ?? '-'}`,
          { brokerCode: 35, brokerError: 'UNSUPPORTED_VERSION', api: 'ApiVersions' },
          { details: { broker: addressText(this.address) } },
        )
      }
      this.#connection.setVersions(versions)
      this.#connection.setSupportAuthenticationProtocol(true)
      await this.#authenticate()
    } catch (error) {
      this.close(error)
      throw error
    }
    return this
  }

  /** True while new requests may be sent. False also shortly before the broker would end the SASL session. */
  get usable(): boolean {
    return (
      this.#dead === undefined &&
      this.#connection.isConnected() &&
      (!this.#sasl || this.#connection.isAuthenticated())
    )
  }

  /**
   * Sends one request; it goes to the socket before this returns. The answer's byte fields are views into it.
   * @throws KafkaError MILLRACE_KAFKA_UNREACHABLE, retriable, if no answer comes.
   */
  send<I, O>(request: RequestKind<I, O>, input: I, timeoutMs: number): Promise<O> {
    return new Promise<O>((resolve, reject) => {
      if (this.#dead !== undefined) {
        reject(this.#lost(request.api, this.#dead))
        return
      }
      const correlationId = this.#connection.nextCorrelationId()
      const out = new RequestWriter()
        .int16(request.apiKey)
        .int16(request.version)
        .int32(correlationId)
        .string(this.#clientId)
      if (request.flexible) out.tags()
      request.encode(out, input)
      const pieces = out.finish()
      this.#connection.requestQueue.push({
        entry: {
          apiKey: request.apiKey,
          apiName: request.api,
          apiVersion: request.version,
          correlationId,
          resolve: ({ payload }) => {
            try {
              const body = new ResponseReader(payload)
              if (request.flexible) body.tags()
              resolve(request.decode(body))
            } catch (error) {
              reject(
                new KafkaError(
                  'MILLRACE_KAFKA_PROTOCOL',
                  `The answer to ${request.api} v${request.version} cannot be read`,
                  { brokerCode: -1, brokerError: 'UNREADABLE', api: request.api },
                  { cause: error },
                ),
              )
            }
          },
          reject: (error) => {
            reject(this.#lost(request.api, error))
            // What the broker still does with a request that timed out is unknown: nothing may follow it on this
            // connection. Not at once, because kafkajs is going through its list of requests just now.
            queueMicrotask(() => this.close(error))
          },
        },
        expectResponse: true,
        requestTimeout: timeoutMs,
        sendRequest: () => this.#write(pieces),
      })
    })
  }

  /** Ends the connection at once: pending requests reject and the socket is gone. */
  close(cause?: unknown): void {
    if (this.#dead !== undefined) return
    this.#dead =
      cause instanceof Error
        ? cause
        : new Error('the connection was closed', cause === undefined ? undefined : { cause })
    this.#connection.requestQueue.rejectAll(this.#dead)
    this.#socket?.destroy(this.#dead)
    this.#connection
      .disconnect()
      .catch((error: unknown) =>
        this.#logger.debug('Closing a connection failed', { error, broker: addressText(this.address) }),
      )
    this.#onDead()
  }

  async #authenticate(): Promise<void> {
    if (!this.#sasl) return
    try {
      await this.#connection.authenticate()
    } catch (error) {
      if (isNetworkError(error)) throw this.#lost('SaslAuthenticate', error)
      const reason = error instanceof Error ? error.message : String(error)
      throw brokerError('SaslAuthenticate', 58, `broker ${addressText(this.address)}`, reason)
    }
  }

  #openSocket(host: string, port: number, ssl: object | null, onConnect: () => void): Socket {
    const socket =
      ssl === null
        ? connect(
            { host, port, onread: { buffer: Buffer.allocUnsafeSlow(READ_BYTES), callback: this.#onRead } },
            onConnect,
          )
        : connectTls({ host, port, ...(isIP(host) === 0 ? { servername: host } : {}), ...ssl }, onConnect)
    socket.setNoDelay(true)
    socket.setKeepAlive(true, KEEP_ALIVE_MS)
    socket.once('close', () => this.close(new Error('the broker closed the connection')))
    this.#socket = socket
    return socket
  }

  /** Without TLS the socket reads into one buffer that is used again and again. */
  readonly #onRead = (bytes: number, buffer: Uint8Array): boolean => {
    this.#take(Buffer.from(buffer.buffer, buffer.byteOffset, bytes))
    return true
  }

  #take(chunk: Buffer): void {
    if (this.#dead !== undefined) return
    try {
      this.#frames.take(chunk)
    } catch (error) {
      this.close(error)
    }
  }

  #write(pieces: readonly Buffer[]): void {
    const socket = this.#socket
    if (socket === undefined) throw new Error('the connection is not open')
    if (pieces.length === 1) {
      socket.write(pieces[0] as Buffer)
      return
    }
    socket.cork()
    for (const piece of pieces) socket.write(piece)
    socket.uncork()
  }

  #lost(api: string, cause: unknown): KafkaError {
    return unreachable(api, [addressText(this.address)], cause)
  }
}

/** kafkajs's errors about sockets and time-outs, as opposed to a refusal by the broker. */
function isNetworkError(error: unknown): boolean {
  return (
    typeof error === 'object' &&
    error !== null &&
    'name' in error &&
    /Connection|RequestTimeout/.test(String(error.name))
  )
}

/**
 * kafkajs asks for a timer after every response, also when nothing waits, and computes its delay from a throttle time that
 * was never set: a negative number, which Node 24 warns about. A timer is needed only while requests wait.
 */
function correctThrottleTimer({ requestQueue: queue }: Connection): void {
  queue.scheduleCheckPendingRequests = () => {
    if (queue.pending.length === 0 || queue.throttleCheckTimeoutId !== null) return
    queue.throttleCheckTimeoutId = setTimeout(
      () => {
        queue.throttleCheckTimeoutId = null
        queue.checkPendingRequests()
      },
      Math.max(1, queue.throttledUntil - Date.now()),
    )
  }
}
