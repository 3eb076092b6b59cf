/**
 * Serdes that keep their schemas in a schema registry (Confluent's REST interface and wire format): `avro`, `protobuf`, `jsonSchema`.
 * They need the optional package @kafkajs/confluent-schema-registry. Reading uses the schema that each record was written with; writing
 * uses one schema a subject, looked up once a run.
 * A record that cannot be decoded is the source's `onDeserializationError`; a registry that does not answer is the restart strategy's.
 */
import type { Serde } from '../core/connector.ts'
import { ConfigError } from '../errors.ts'
import { avroFormat } from './avro-format.ts'
import { jsonSchemaFormat } from './json-schema-format.ts'
import { protobufFormat } from './protobuf-format.ts'
import type { SchemaReference, StoredSchema } from './registry-api.ts'
import type { SchemaType } from './registry-client.ts'
import { RegistrySerde, type RegistrySettings } from './registry-serde.ts'

/** Milliseconds for one answer of the registry unless told otherwise. */
const REQUEST_TIMEOUT_MS = 10_000

/** What the three serdes have in common. */
export interface SchemaRegistryOptions {
  /** Default: `schema.registry.url` of the job. User and password may stand in it. */
  readonly url?: string
  /** Milliseconds for one answer of the registry (default 10,000); a request is tried three times. */
  readonly requestTimeoutMs?: number
  /** Subject to write under (default `<topic>-value`). */
  readonly subject?: string
  /** Version of the subject to write with (default: the latest when the first record is written). Not together with `schema`. */
  readonly version?: number | 'latest'
  /** Schema to write with. It must be registered under the subject already, unless `register` is true. Not used for reading. */
  readonly schema?: string | object
  /** Registers `schema` under the subject before the first record is written. */
  readonly register?: boolean
  /** Schemas that `schema` refers to; they must be registered. */
  readonly references?: readonly SchemaReference[]
}

/** Options of `avro`. */
export interface AvroOptions extends SchemaRegistryOptions {
  /** Read as this schema instead of the writer's, by Avro's schema resolution: fields that are new in it get their defaults. */
  readonly readerSchema?: string | object
}

/** Options of `protobuf`. */
export interface ProtobufOptions extends SchemaRegistryOptions {
  /** A .proto file. */
  readonly schema?: string
  /** Message of the file to write, e.g. 'Order' or 'Order.Line' (default: the first one). Reading takes the one that the record names. */
  readonly messageName?: string
  /**
   * False: records without the message indexes that belong after the schema id, as @kafkajs/confluent-schema-registry itself writes them.
   * Then `messageName` counts for reading too.
   */
  readonly messageIndexes?: boolean
}

/** Options of `jsonSchema`. */
export interface JsonSchemaOptions extends SchemaRegistryOptions {}

/**
 * Avro with schemas from a registry. A `long` is a number when it is exact and a bigint beyond 2^53; bytes are Buffers; a union of types
 * that cannot be told apart is `{ typeName: value }`; other values are as in JSON. The type is a promise of the topic's producers.
 * @example kafkaSource({ topics: ['orders'], groupId: 'etl', value: avro<Order>() })
 */
export function avro<T = any>(options: AvroOptions = {}): Serde<T> {
  return new RegistrySerde<T>(avroFormat(options.readerSchema), settingsOf('AVRO', 'avro', options))
}

/**
 * Protocol Buffers with schemas from a registry. Values are plain objects with camelCase fields; fields that a message leaves out have their
 * defaults, and are null if they are messages; 64-bit fields are numbers when exact, else bigints; enums are numbers, bytes are Buffers.
 * @example kafkaSink({ topic: 'totals', value: protobuf<Total>({ messageName: 'Total' }) })
 */
export function protobuf<T = any>(options: ProtobufOptions = {}): Serde<T> {
  const { messageName, messageIndexes = true } = options
  return new RegistrySerde<T>(
    protobufFormat({ messageName, messageIndexes }),
    settingsOf('PROTOBUF', 'protobuf', options),
  )
}

/**
 * JSON whose values are checked against a JSON Schema from a registry, when read and when written.
 * @example kafkaSource({ topics: ['orders'], groupId: 'etl', value: jsonSchema<Order>() })
 */
export function jsonSchema<T = any>(options: JsonSchemaOptions = {}): Serde<T> {
  return new RegistrySerde<T>(jsonSchemaFormat(), settingsOf('JSON', 'jsonSchema', options))
}

function settingsOf(type: SchemaType, serde: string, options: SchemaRegistryOptions): RegistrySettings {
  const { url, requestTimeoutMs = REQUEST_TIMEOUT_MS, subject, schema, register = false, version } = options
  const refuse = (what: string): never => {
    throw new ConfigError('MILLRACE_INVALID_OPTION', `${serde}: ${what}`)
  }
  if (register && schema === undefined) refuse('register needs a schema')
  if (schema !== undefined && version !== undefined) refuse('give either a schema or a version, not both')
  if (subject === '') refuse('subject must not be empty')
  if (version !== undefined && version !== 'latest' && !(Number.isInteger(version) && version > 0))
    refuse(`version ${version} must be a whole number above 0, or 'latest'`)
  if (!(Number.isInteger(requestTimeoutMs) && requestTimeoutMs > 0))
    refuse(`requestTimeoutMs ${requestTimeoutMs} must be a whole number of ms above 0`)
  return {
    url,
    requestTimeoutMs,
    subject,
    schema: schema === undefined ? undefined : storedSchema(type, schema, options.references),
    register,
    version: version ?? 'latest',
  }
}

function storedSchema(
  type: SchemaType,
  schema: string | object,
  references: readonly SchemaReference[] | undefined,
): StoredSchema {
  return {
    schema: typeof schema === 'string' ? schema : JSON.stringify(schema),
    // Left out for Avro: the oldest registries know no other.
    ...(type === 'AVRO' ? {} : { schemaType: type }),
    ...(references === undefined ? {} : { references }),
  }
}
