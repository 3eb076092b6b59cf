/**
 * The REST interface of a schema registry (Confluent's, also spoken by Apicurio, Karapace and Redpanda): one request, its time limit, its
 * retries, and what kind of failure it was. Which one it was decides what happens to the job:
 *
 *   no answer, time-out, 408, 429, 5xx   → MILLRACE_SCHEMA_REGISTRY_UNREACHABLE, retriable: the restart strategy's
 *   "there is no such schema" (404xx)    → NotRegisteredError: about one record or one subject
 *   401, 403, 404 without such a code, … → MILLRACE_SCHEMA_REGISTRY_REFUSED: wrong settings, the job fails
 *
 * The client package has requests of its own, but they report "connection refused" as status 400, keep no error code, know no time limit,
 * and never end when an answer breaks off; so it is given this instead.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigError, MillraceError } from '../errors.ts'

/** Tries of one request before it counts as failed. */
const TRIES = 3
/** Milliseconds before the second try; doubled for each further one. */
const FIRST_RETRY_MS = 100
const MEDIA_TYPE = 'application/vnd.schemaregistry.v1+json'

/** Another schema that a schema names. */
export interface SchemaReference {
  /** How the schema names it: an Avro type, a .proto import, a JSON Schema `$ref`. */
  readonly name: string
  readonly subject: string
  readonly version: number
}

/** A schema as the registry gives it out. */
export interface StoredSchema {
  readonly schema: string
  /** Left out for Avro. */
  readonly schemaType?: string
  readonly references?: readonly SchemaReference[]
}

/** The registry works, and does not have the schema, subject or version. */
export class NotRegisteredError extends Error {
  readonly errorCode: number

  constructor(message: string, errorCode: number) {
    super(message)
    this.name = 'NotRegisteredError'
    this.errorCode = errorCode
  }
}

/** One registry. */
export class RegistryApi {
  /** The address without user and password. */
  readonly url: string
  readonly #headers: Readonly<Record<string, string>>
  readonly #timeoutMs: number

  /** @throws ConfigError if `url` is no http(s) URL; the message never holds its password. */
  constructor(url: string, timeoutMs: number) {
    const parsed = URL.parse(url)
    if (parsed === null || (parsed.protocol !== 'http:' && parsed.protocol !== 'https:'))
      throw new ConfigError(
        'MILLRACE_INVALID_OPTION',
        'the URL of the schema registry is not an http:// or https:// address',
      )
    const { username, password } = parsed
    this.url = `${parsed.origin}${parsed.pathname}`.replace(/\/+$/, '')
    this.#timeoutMs = timeoutMs
    this.#headers = {
      accept: `${MEDIA_TYPE}, application/json`,
      ...(username === ''
        ? {}
        : {
            authorization: `Basic ${base64(`${decoded(username)}:${decoded(password)}`)}`,
          }),
    }
  }

  /** Epoch ms at the registry, undefined if it does not tell; a request that changes nothing. @throws MillraceError */
  async time(): Promise<number | undefined> {
    const answer = await this.#answer('GET', '/schemas/types')
    // A registry that does not know this path is there all the same.
    if (answer.status !== 404 && answer.status >= 300)
      throw this.#refusal(`GET ${this.url}/schemas/types`, answer.status, parsed(answer.text))
    const time = Date.parse(answer.date ?? '')
    return Number.isNaN(time) ? undefined : time
  }

  /** The schema of an id. @throws NotRegisteredError, MillraceError */
  schema(id: number): Promise<StoredSchema> {
    return this.#request<StoredSchema>('GET', `/schemas/ids/${id}`)
  }

  /** A version of a subject, or its latest one. @throws NotRegisteredError, MillraceError */
  version(subject: string, version: number | 'latest'): Promise<StoredSchema & { readonly id: number }> {
    return this.#request('GET', `/subjects/${encodeURIComponent(subject)}/versions/${version}`)
  }

  /** The id of a schema that is registered under the subject. @throws NotRegisteredError, MillraceError */
  async find(subject: string, schema: StoredSchema): Promise<number> {
    return (await this.#request<{ id: number }>('POST', `/subjects/${encodeURIComponent(subject)}`, schema))
      .id
  }

  /** Registers the schema and gives its id; a schema that is registered already keeps its id. @throws MillraceError */
  async register(subject: string, schema: StoredSchema): Promise<number> {
    const path = `/subjects/${encodeURIComponent(subject)}/versions`
    return (await this.#request<{ id: number }>('POST', path, schema)).id
  }

  async #request<T>(method: string, path: string, body?: unknown): Promise<T> {
    for (let n = 1; ; n++) {
      try {
        return await this.#once<T>(method, path, body)
      } catch (error) {
        if (n === TRIES || !(error instanceof MillraceError) || !error.retriable) throw error
        await sleep(FIRST_RETRY_MS * 2 ** (n - 1))
      }
    }
  }

  async #once<T>(method: string, path: string, body: unknown): Promise<T> {
    const { status, text } = await this.#answer(method, path, body)
    const answer = parsed(text)
    if (status >= 200 && status < 300 && answer !== undefined) return answer as T
    throw this.#refusal(`${method} ${this.url}${path}`, status, answer)
  }

  async #answer(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ readonly status: number; readonly text: string; readonly date: string | null }> {
    const what = `${method} ${this.url}${path}`
    try {
      const answer = await fetch(`${this.url}${path}`, {
        method,
        headers: body === undefined ? this.#headers : { ...this.#headers, 'content-type': MEDIA_TYPE },
        body: body === undefined ? null : JSON.stringify(body),
        signal: AbortSignal.timeout(this.#timeoutMs),
      })
      return { status: answer.status, text: await answer.text(), date: answer.headers.get('date') }
    } catch (cause) {
      throw new MillraceError(
        'MILLRACE_SCHEMA_REGISTRY_UNREACHABLE',
        `the schema registry does not answer: ${what}: ${this.#reason(cause)}`,
        { cause, details: { url: this.url } },
      )
    }
  }

  #reason(cause: unknown): string {
    const { name, message, cause: beneath } = cause as Error & { cause?: { code?: string; message?: string } }
    if (name === 'TimeoutError') return `no answer within ${this.#timeoutMs} ms`
    return beneath?.message || beneath?.code || message
  }

  #refusal(what: string, status: number, answer: Readonly<Record<string, unknown>> | undefined): Error {
    const errorCode = typeof answer?.['error_code'] === 'number' ? answer['error_code'] : undefined
    const said = typeof answer?.['message'] === 'string' ? `: ${answer['message']}` : ''
    const told = `${what} answered ${status}${errorCode === undefined || errorCode === status ? '' : ` (error ${errorCode})`}${said}`
    // 40401 subject, 40402 version, 40403 schema. A bare 404 comes from a server that knows no such path.
    if (status === 404 && errorCode !== undefined && errorCode > 40_400)
      return new NotRegisteredError(told, errorCode)
    if (status >= 500 || status === 408 || status === 429)
      return new MillraceError(
        'MILLRACE_SCHEMA_REGISTRY_UNREACHABLE',
        `the schema registry cannot answer now: ${told}`,
        {
          details: { url: this.url, status },
        },
      )
    return new MillraceError(
      'MILLRACE_SCHEMA_REGISTRY_REFUSED',
      `the schema registry refused a request: ${told}`,
      {
        details: { url: this.url, status },
        ...(status === 401 || status === 403
          ? {
              remedy:
                'Give schema.registry.url a user and password that may do this: https://user:password@host.',
            }
          : {}),
      },
    )
  }
}

function parsed(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    // Not a registry's answer; the status says the rest.
    return undefined
  }
}

/** A part of a URL; a bare % stands for itself. */
function decoded(part: string): string {
  return decodeURIComponent(part.replace(/%(?![0-9a-fA-F]{2})/g, '%25'))
}

const base64 = (text: string): string => Buffer.from(text).toString('base64')
