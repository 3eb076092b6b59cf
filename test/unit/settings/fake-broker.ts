/** A listener that notes what a Kafka client sends first, and answers as far as a test lets it. */
import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'

/** The head of a request, and its body. */
export interface SeenRequest {
  readonly at: number
  readonly apiKey: number
  readonly clientId: string
  readonly body: Buffer
}

export const API_VERSIONS = 18
export const SASL_HANDSHAKE = 17
export const SASL_AUTHENTICATE = 36

export class FakeBroker {
  readonly requests: SeenRequest[] = []
  /** The first bytes of each connection. */
  readonly openings: Buffer[] = []
  /** Body of the answer to a request; undefined: none ever comes. */
  answer: (request: SeenRequest) => Buffer | undefined = () => undefined
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #waiting = new Set<() => void>()

  private constructor() {
    this.#server = createServer((socket) => this.#serve(socket))
  }

  static async open(): Promise<FakeBroker> {
    const broker = new FakeBroker()
    broker.#server.listen(0, '127.0.0.1')
    await once(broker.#server, 'listening')
    return broker
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as { port: number }).port}`
  }

  /** Resolves when the condition holds; it is looked at after everything that arrives. */
  until(condition: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = (): void => {
        if (!condition()) return
        this.#waiting.delete(look)
        resolve()
      }
      this.#waiting.add(look)
      look()
    })
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket)
    socket.on('close', () => this.#sockets.delete(socket))
    // The client gives up connections that it gets no answer on.
    socket.on('error', () => socket.destroy())
    let rest: Buffer = Buffer.alloc(0)
    let isFirst = true
    socket.on('data', (chunk) => {
      if (isFirst) this.openings.push(chunk)
      isFirst = false
      rest = this.#take(Buffer.concat([rest, chunk]), socket)
      for (const look of [...this.#waiting]) look()
    })
  }

  #take(bytes: Buffer, socket: Socket): Buffer {
    let at = 0
    while (bytes.length >= at + 14 && bytes.length >= at + 4 + bytes.readInt32BE(at)) {
      const end = at + 4 + bytes.readInt32BE(at)
      const nameEnd = at + 14 + Math.max(0, bytes.readInt16BE(at + 12))
      const request: SeenRequest = {
        at: performance.now(),
        apiKey: bytes.readInt16BE(at + 4),
        clientId: bytes.toString('utf8', at + 14, nameEnd),
        body: bytes.subarray(nameEnd, end),
      }
      this.requests.push(request)
      const answer = this.answer(request)
      if (answer !== undefined) {
        const head = Buffer.alloc(8)
        head.writeInt32BE(4 + answer.length)
        bytes.copy(head, 4, at + 8, at + 12)
        socket.write(Buffer.concat([head, answer]))
      }
      at = end
    }
    return bytes.subarray(at)
  }
}

/** An answer to ApiVersions v0: these requests, up to these versions. */
export function apiVersions(versions: Readonly<Record<number, number>>): Buffer {
  const rows = Object.entries(versions)
  const answer = Buffer.alloc(6 + 6 * rows.length)
  answer.writeInt32BE(rows.length, 2)
  for (const [i, [key, highest]] of rows.entries()) {
    answer.writeInt16BE(Number(key), 6 + 6 * i)
    answer.writeInt16BE(highest, 10 + 6 * i)
  }
  return answer
}
