/** A schema registry in this process: the REST interface that serdes use, over real HTTP. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface SchemaBody {
  readonly schema: string
  readonly schemaType?: string
  readonly references?: readonly { name: string; subject: string; version: number }[]
}

/** What a request is answered with instead of the truth: a status and body, no answer at all, or one that breaks off. */
export type Cue = { readonly status: number; readonly body: string } | 'silence' | 'break off'

export class SimulatedRegistry {
  /** Every request, e.g. 'GET /schemas/ids/1'. */
  readonly requests: string[] = []
  /** The header of the last request. */
  authorization: string | undefined
  /** 'user:password'; undefined = anybody may. */
  credentials: string | undefined
  /** Asked for each request. */
  cue: (request: string) => Cue | undefined = () => undefined
  readonly #server: Server
  readonly #schemas: SchemaBody[] = []
  readonly #subjects = new Map<string, number[]>()

  private constructor() {
    this.#server = createServer((request, response) => void this.#answer(request, response))
  }

  static async start(): Promise<SimulatedRegistry> {
    const registry = new SimulatedRegistry()
    await new Promise<void>((resolve) => registry.#server.listen(0, '127.0.0.1', resolve))
    return registry
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/api`
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  /** Registers a schema and gives its id. */
  add(subject: string, body: SchemaBody): number {
    const same = this.#schemas.findIndex(
      (known) =>
        known.schema === body.schema &&
        known.schemaType === body.schemaType &&
        JSON.stringify(known.references) === JSON.stringify(body.references),
    )
    const id = same === -1 ? this.#schemas.push(body) : same + 1
    const versions = this.#subjects.get(subject) ?? []
    if (!versions.includes(id)) versions.push(id)
    this.#subjects.set(subject, versions)
    return id
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '').replace(/^\/api/, '')
    const line = `${request.method} ${path}`
    this.requests.push(line)
    this.authorization = request.headers.authorization
    let text = ''
    for await (const chunk of request) text += chunk
    const cue = this.cue(line)
    if (cue === 'silence') return
    if (cue === 'break off') {
      response.writeHead(200, { 'content-length': '1000' })
      response.write('{"schema":', () => response.destroy())
      return
    }
    const [status, body] = cue === undefined ? this.#respond(request, path, text) : [cue.status, cue.body]
    response.writeHead(status, { 'content-type': 'application/vnd.schemaregistry.v1+json' }).end(body)
  }

  #respond(request: IncomingMessage, path: string, text: string): [status: number, body: string] {
    const expected = this.credentials && `Basic ${Buffer.from(this.credentials).toString('base64')}`
    if (expected && this.authorization !== expected) return refusal(401, 401, 'Unauthorized')
    const post = request.method === 'POST'
    const [, first, second, third, fourth] = path.split('/').map(decodeURIComponent)
    if (first === 'schemas' && second === 'ids') {
      const schema = this.#schemas[Number(third) - 1]
      return schema === undefined ? refusal(404, 40_403, `Schema ${third} not found`) : answer(schema)
    }
    if (first !== 'subjects' || second === undefined) return refusal(404, 404, 'HTTP 404 Not Found')
    if (post && third === 'versions') return answer({ id: this.add(second, JSON.parse(text)) })
    const versions = this.#subjects.get(second)
    if (versions === undefined) return refusal(404, 40_401, `Subject '${second}' not found.`)
    if (post) {
      const { schema } = JSON.parse(text) as SchemaBody
      const id = versions.find((known) => this.#schemas[known - 1]?.schema === schema)
      return id === undefined ? refusal(404, 40_403, 'Schema not found') : answer({ id })
    }
    const version = fourth === 'latest' ? versions.length : Number(fourth)
    const id = versions[version - 1]
    if (id === undefined) return refusal(404, 40_402, `Version ${fourth} not found.`)
    return answer({ subject: second, version, id, ...this.#schemas[id - 1] })
  }
}

const answer = (body: unknown): [number, string] => [200, JSON.stringify(body)]
const refusal = (status: number, code: number, message: string): [number, string] => [
  status,
  JSON.stringify({ error_code: code, message }),
]

/** Bytes of a record: magic byte, schema id, payload. */
export function wire(id: number, payload: Uint8Array | string = ''): Buffer {
  const header = Buffer.alloc(5)
  header.writeInt32BE(id, 1)
  return Buffer.concat([header, Buffer.from(payload as string)])
}
