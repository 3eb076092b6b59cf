/**
 * Values in the wire format of schema registries:
 *
 *   byte 0   schema id, 4 bytes big-endian   payload in the schema's encoding
 *
 * Reading, for each id: unknown → loading (`prepareDeserialize` gives the promise) → known (`deserialize` never waits). A failed load goes back to
 * unknown, so that the next record or the next attempt asks again.
 * Writing, for each subject, the same by `prepareSerialize`. What is known stays known until the job ends.
 */
import type { Serde, SerdeContext } from '../core/connector.ts'
import { ConfigError, isMillraceError, MillraceError } from '../errors.ts'
import { RegistryApi, type StoredSchema } from './registry-api.ts'
import { registryPackages } from './registry-client.ts'
import type { LoadSchema, SchemaCodec, SchemaFormat } from './schema-format.ts'

const MAGIC = 0
const HEADER_BYTES = 5
/** Ids are Java ints. */
const MAX_ID = 0x7fff_ffff

/** Where schemas come from; the defaults are filled in. */
export interface RegistrySettings {
  /** Undefined = the job's configuration says. */
  readonly url: string | undefined
  readonly requestTimeoutMs: number
  /** Undefined = `<topic>-value`. */
  readonly subject: string | undefined
  /** Schema to write with; undefined = `version` of the subject. */
  readonly schema: StoredSchema | undefined
  readonly register: boolean
  readonly version: number | 'latest'
}

/** What one subject's values are written with. */
interface SubjectWriter {
  readonly header: Buffer
  readonly codec: SchemaCodec
}

/** A serde over one kind of schema. One instance may serve many subtasks and both directions. */
export class RegistrySerde<T> implements Serde<T> {
  readonly name: string
  readonly #format: SchemaFormat
  readonly #settings: RegistrySettings
  #url: string | undefined
  #api: RegistryApi | undefined
  #load: LoadSchema | undefined
  #codecs = new Map<number, SchemaCodec>()
  #loading = new Map<number, Promise<void>>()
  #writers = new Map<string, SubjectWriter>()

  constructor(format: SchemaFormat, settings: RegistrySettings) {
    this.name = format.name
    this.#format = format
    this.#settings = settings
  }

  /**
   * Loads the client package. Asks the registry nothing yet: what is needed is known when the first record is.
   * @throws ConfigError if no URL is known, MILLRACE_MISSING_PACKAGE
   */
  open(context: SerdeContext = {}): void {
    const url = this.#settings.url ?? context.schemaRegistryUrl
    if (url === undefined)
      throw new ConfigError(
        'MILLRACE_INVALID_OPTION',
        `the serde ${this.name} needs a schema registry, and none is configured`,
        {
          remedy: 'Set schema.registry.url or SCHEMA_REGISTRY_URL, or give the serde the option url.',
        },
      )
    if (url === this.#url) return
    const api = new RegistryApi(url, this.#settings.requestTimeoutMs)
    this.#load = this.#format.open(api, registryPackages(this.name))
    this.#api = api
    this.#url = url
    // Ids of another registry mean other schemas.
    this.#codecs = new Map()
    this.#loading = new Map()
    this.#writers = new Map()
  }

  prepareDeserialize(bytes: Uint8Array): Promise<void> | undefined {
    // Bytes without an id need no schema to be refused.
    if (malformation(bytes) !== undefined) return undefined
    const id = idOf(bytes)
    return this.#codecs.has(id) ? undefined : this.#know(id)
  }

  deserialize(bytes: Uint8Array): T {
    const wrong = malformation(bytes)
    if (wrong !== undefined) throw new RangeError(wrong)
    const id = idOf(bytes)
    const codec = this.#codecs.get(id)
    if (codec === undefined) throw this.#unprepared(`schema ${id}`)
    try {
      return codec.decode(
        Buffer.from(bytes.buffer, bytes.byteOffset + HEADER_BYTES, bytes.byteLength - HEADER_BYTES),
      ) as T
    } catch (cause) {
      throw new Error(`schema ${id}: ${messageOf(cause)}`, { cause })
    }
  }

  prepareSerialize(value: T, topic: string): Promise<void> | undefined {
    if (value === null) return undefined
    const subject = this.#subject(topic)
    return this.#writers.has(subject) ? undefined : this.#prepareWriter(subject)
  }

  serialize(value: T, topic?: string): Uint8Array | null {
    if (value === null) return null
    const subject = this.#subject(topic)
    const writer = this.#writers.get(subject)
    if (writer === undefined) throw this.#unprepared(`the schema of subject ${subject}`)
    return Buffer.concat([writer.header, writer.codec.encode(value)])
  }

  #subject(topic: string | undefined): string {
    const { subject } = this.#settings
    if (subject !== undefined) return subject
    if (topic === undefined)
      throw new ConfigError(
        'MILLRACE_INVALID_OPTION',
        `the serde ${this.name} needs the option subject where there is no topic`,
      )
    return `${topic}-value`
  }

  /** One load for all who need the id at the same time. */
  #know(id: number): Promise<void> {
    const { codecs, loading, load } = this.#opened()
    let loaded = loading.get(id)
    if (loaded === undefined) {
      loaded = load(id)
        .then((codec) => {
          codecs.set(id, codec)
        })
        .finally(() => loading.delete(id))
      loading.set(id, loaded)
    }
    return loaded
  }

  async #prepareWriter(subject: string): Promise<void> {
    const { api, codecs, writers } = this.#opened()
    try {
      const id = await this.#writtenId(api, subject)
      if (!codecs.has(id)) await this.#know(id)
      const header = Buffer.alloc(HEADER_BYTES, MAGIC)
      header.writeInt32BE(id, 1)
      writers.set(subject, { header, codec: codecs.get(id) as SchemaCodec })
    } catch (cause) {
      if (isMillraceError(cause)) throw cause
      throw new MillraceError(
        'MILLRACE_SCHEMA_REGISTRY_REFUSED',
        `${this.name}: no schema to write subject ${subject} with: ${messageOf(cause)}`,
        {
          cause,
          details: { subject },
          remedy: 'Register the schema under that subject, or give the serde a schema and register: true.',
        },
      )
    }
  }

  async #writtenId(api: RegistryApi, subject: string): Promise<number> {
    const { schema, register, version } = this.#settings
    if (schema === undefined) return (await api.version(subject, version)).id
    return register ? api.register(subject, schema) : api.find(subject, schema)
  }

  #opened() {
    if (this.#api === undefined || this.#load === undefined) throw this.#unprepared('the schema registry')
    return {
      api: this.#api,
      load: this.#load,
      codecs: this.#codecs,
      loading: this.#loading,
      writers: this.#writers,
    }
  }

  /** Sources and sinks of Kafka wait for schemas; a user's connector or a state descriptor may not. */
  #unprepared(what: string): MillraceError {
    return new MillraceError(
      'MILLRACE_INVALID_OPTION',
      `${this.name}: ${what} was not loaded before a value came`,
      {
        remedy: `Use ${this.name} as the value of kafkaSource or kafkaSink; a connector of your own must call open, and prepareDeserialize or prepareSerialize, first.`,
      },
    )
  }
}

/** Why the bytes cannot be in the registry's wire format. */
function malformation(bytes: Uint8Array): string | undefined {
  if (bytes.byteLength < HEADER_BYTES)
    return `${bytes.byteLength} ${bytes.byteLength === 1 ? 'byte' : 'bytes'}, and a magic byte and a schema id take ${HEADER_BYTES}`
  if (bytes[0] !== MAGIC)
    return `the first byte is 0x${(bytes[0] as number).toString(16).padStart(2, '0')}, not the 0x00 of a value with a schema id`
  const id = idOf(bytes)
  return id > MAX_ID ? `${id} is no schema id` : undefined
}

function idOf(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(1)
}

const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))
