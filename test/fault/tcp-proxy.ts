/**
 * A TCP proxy in front of one broker, which fails as networks fail. It knows of Kafka only where a request or an answer begins.
 *
 *   client ──requests──► proxy ──requests──► broker        hold: bytes of a direction wait while all sockets stay open
 *   client ◄──answers─── proxy ◄──answers─── broker        delay: each byte arrives later; drop: both sockets are reset
 *
 * What is held is not lost: it arrives when the hold ends, even if its sender has closed the connection and asked again on another one. So
 * brokers get late duplicates, as from a network that comes back.
 */
import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from '../../scripts/lib/kafka-broker.ts'
import { FrameScanner } from './frame-scanner.ts'
import { HeldBytes } from './held-bytes.ts'

/** Bytes of a request from its length to its correlation id: length, api key, version, correlation id. */
const REQUEST_HEADER = 12
/** Bytes of an answer from its length to its correlation id. */
const ANSWER_HEADER = 8

/** Which bytes a hold stops. */
export type Direction = 'requests' | 'answers' | 'both'

/** What `loseNext` loses: the request before the broker has it, or the answer to one that the broker has obeyed. */
export type Loss = 'request' | 'answer'

interface Trap {
  readonly apiKey: number
  readonly loss: Loss
  readonly sprung: () => void
}

/** One client's connection and the one to the broker that belongs to it. */
class Link {
  readonly requests: HeldBytes
  readonly answers: HeldBytes
  readonly #client: Socket
  readonly #broker: Socket

  constructor(client: Socket, broker: Socket, traps: Set<Trap>, onEnd: () => void) {
    this.#client = client
    this.#broker = broker
    this.requests = new HeldBytes(client, broker)
    this.answers = new HeldBytes(broker, client)
    let awaited: { readonly correlationId: number; readonly sprung: () => void } | undefined
    const requestHeads = new FrameScanner(REQUEST_HEADER, (head) => {
      const apiKey = head.readInt16BE(4)
      for (const trap of traps) {
        if (trap.apiKey !== apiKey) continue
        traps.delete(trap)
        if (trap.loss === 'answer') {
          awaited = { correlationId: head.readInt32BE(8), sprung: trap.sprung }
          return
        }
        this.drop()
        trap.sprung()
        return
      }
    })
    const answerHeads = new FrameScanner(ANSWER_HEADER, (head) => {
      if (awaited === undefined || head.readInt32BE(4) !== awaited.correlationId) return
      this.drop()
      awaited.sprung()
      awaited = undefined
    })
    client.on('data', (chunk: Buffer) => {
      requestHeads.scan(chunk)
      this.requests.push(chunk)
    })
    broker.on('data', (chunk: Buffer) => {
      answerHeads.scan(chunk)
      this.answers.push(chunk)
    })
    for (const [source, bytes] of [
      [client, this.requests],
      [broker, this.answers],
    ] as const) {
      // A reset by one side is the end of its bytes, too; 'close' follows.
      source.on('error', () => source.destroy())
      source.once('end', () => bytes.end())
      source.once('close', () => {
        bytes.end()
        if (client.destroyed && broker.destroyed) onEnd()
      })
    }
  }

  /** Resets both sockets; bytes that have not arrived never do. */
  drop(): void {
    this.requests.discard()
    this.answers.discard()
    if (!this.#client.destroyed) this.#client.resetAndDestroy()
    if (!this.#broker.destroyed) this.#broker.resetAndDestroy()
  }
}

export class TcpProxy {
  readonly port: number
  readonly #server: Server
  readonly #links = new Set<Link>()
  readonly #traps = new Set<Trap>()
  #delayMs = 0
  #held: Direction | undefined

  private constructor(server: Server, targetPort: number) {
    this.#server = server
    this.port = (server.address() as { port: number }).port
    server.on('connection', (client) => this.#accept(client, targetPort))
  }

  /** Listens on a free port of 127.0.0.1 and passes on to `targetPort`, where nobody needs to listen yet. */
  static async open(targetPort: number): Promise<TcpProxy> {
    const port = await freePort()
    // Half-open sockets are kept: the end of the one direction says nothing about the other.
    const server = createServer({ allowHalfOpen: true, noDelay: true })
    return new Promise((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, '127.0.0.1', () => resolve(new TcpProxy(server, targetPort)))
    })
  }

  /** Connections that are open now. */
  get connections(): number {
    return this.#links.size
  }

  /** Resets every connection. Returns how many there were. */
  drop(): number {
    const links = [...this.#links]
    for (const link of links) link.drop()
    return links.length
  }

  /** From now on every byte arrives `ms` later; 0 ends it. */
  delay(ms: number): void {
    this.#delayMs = ms
    this.#obey()
  }

  /** Bytes of this direction wait from now on, those of new connections too; connections are still accepted. */
  hold(direction: Direction): void {
    this.#held = direction
    this.#obey()
  }

  /** What was held goes on its way, in order. */
  release(): void {
    this.#held = undefined
    this.#obey()
  }

  /** Drops the connection by which the next request of this kind comes; resolves when that has happened. */
  loseNext(apiKey: number, loss: Loss): Promise<void> {
    return new Promise((sprung) => this.#traps.add({ apiKey, loss, sprung }))
  }

  /** Ends everything. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    this.drop()
    await closed
  }

  #accept(client: Socket, targetPort: number): void {
    const broker = connect({ host: '127.0.0.1', port: targetPort, allowHalfOpen: true, noDelay: true })
    const link = new Link(client, broker, this.#traps, () => this.#links.delete(link))
    this.#links.add(link)
    this.#obey()
  }

  #obey(): void {
    for (const { requests, answers } of this.#links) {
      requests.obey(this.#held === 'requests' || this.#held === 'both', this.#delayMs)
      answers.obey(this.#held === 'answers' || this.#held === 'both', this.#delayMs)
    }
  }
}
