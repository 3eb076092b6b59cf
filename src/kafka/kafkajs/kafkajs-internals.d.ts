/**
 * Types of the parts of kafkajs 2.2.4 that have none and are used here: its connection, request queue and logger.
 * The version is pinned; test/integration/kafka checks that these parts still behave as written.
 */

declare module 'kafkajs/src/network/connection.js' {
  import type { Socket } from 'node:net'

  export interface KafkajsLogger {
    namespace(name: string): KafkajsLogger
    debug(message: string, extra?: object): void
    info(message: string, extra?: object): void
    warn(message: string, extra?: object): void
    error(message: string, extra?: object): void
  }

  export interface QueuedRequest {
    readonly entry: {
      readonly apiKey: number
      readonly apiName: string
      readonly apiVersion: number
      readonly correlationId: number
      resolve(answer: { readonly payload: Buffer }): void
      reject(error: Error): void
    }
    readonly expectResponse: boolean
    readonly requestTimeout: number
    sendRequest(): void
  }

  export interface RequestQueue {
    readonly pending: readonly unknown[]
    readonly inflight: ReadonlyMap<number, unknown>
    throttledUntil: number
    throttleCheckTimeoutId: NodeJS.Timeout | null
    push(request: QueuedRequest): void
    fulfillRequest(answer: {
      readonly correlationId: number
      readonly payload: Buffer
      readonly size: number
    }): void
    rejectAll(error: Error): void
    checkPendingRequests(): void
    scheduleCheckPendingRequests(): void
  }

  export interface SocketRequest {
    readonly host: string
    readonly port: number
    readonly ssl: object | null
    onConnect(): void
  }

  export default class Connection {
    constructor(options: {
      readonly host: string
      readonly port: number
      readonly logger: KafkajsLogger
      readonly socketFactory: (request: SocketRequest) => Socket
      readonly requestTimeout: number
      readonly connectionTimeout: number
      readonly clientId: string
      readonly ssl: object | null
      readonly sasl: object | null
      readonly reauthenticationThreshold: number
    })
    readonly requestQueue: RequestQueue
    readonly socket: Socket | undefined
    isConnected(): boolean
    isAuthenticated(): boolean
    connect(): Promise<unknown>
    disconnect(): Promise<unknown>
    authenticate(): Promise<void>
    nextCorrelationId(): number
    processData(chunk: Buffer): void
    setVersions(
      versions: Readonly<Record<number, { readonly minVersion: number; readonly maxVersion: number }>>,
    ): void
    setSupportAuthenticationProtocol(supported: boolean): void
  }
}
