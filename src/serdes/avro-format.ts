/**
 * Avro: writer's schema by id, optionally read as another schema (Avro's schema resolution).
 * Longs: a number when it is exact, else a bigint; both are taken when writing. Records are plain objects, so that state can keep them.
 */
import type { RegistryPackages, SchemaClient } from './registry-client.ts'
import { type SchemaCodec, type SchemaFormat, wrongType } from './schema-format.ts'

/** An avsc type, as far as it is used here. */
interface AvroType {
  readonly typeName: string
  /** Of a record. */
  readonly fields?: readonly { readonly type: AvroType }[]
  readonly recordConstructor?: { prototype: object }
  /** Of an array, a map, a union, a logical type. */
  readonly itemsType?: AvroType
  readonly valuesType?: AvroType
  readonly types?: readonly AvroType[]
  readonly underlyingType?: AvroType
  fromBuffer(bytes: Buffer, resolver?: unknown): unknown
  toBuffer(value: unknown): Buffer
  isValid(
    value: unknown,
    options: { errorHook: (path: readonly string[], value: unknown, type: AvroType) => void },
  ): boolean
  createResolver(writer: AvroType): unknown
}

interface Avsc {
  readonly Type: { forSchema(schema: unknown, options: object): AvroType }
  readonly types: { readonly LongType: { __with(methods: typeof LONG): AvroType } }
}

/** Values of Avro's long. avsc hands 8 bytes, little-endian, and takes the same. */
const LONG = {
  fromBuffer: (bytes: Buffer): number | bigint => exact(bytes.readBigInt64LE(0)),
  toBuffer: (value: number | bigint): Buffer => {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(BigInt(value))
    return bytes
  },
  isValid: (value: unknown): boolean =>
    typeof value === 'bigint' ? BigInt.asIntN(64, value) === value : Number.isSafeInteger(value),
  compare: (a: number | bigint, b: number | bigint): number => (a < b ? -1 : a > b ? 1 : 0),
  fromJSON: (value: number | bigint): number | bigint => value,
  toJSON: (value: number | bigint): number | bigint => value,
}

/** Avro. `readerSchema`: the schema to read as, with every type that it names inside it. */
export function avroFormat(readerSchema: string | object | undefined): SchemaFormat {
  const format: SchemaFormat = {
    type: 'AVRO',
    name: 'avro',
    open: (api, packages) => {
      const options = avscOptions(packages)
      const client = packages.client(api, { AVRO: options })
      const reader = readerSchema === undefined ? undefined : readerOf(packages, readerSchema, options)
      return async (id) => codecOf(await typeOf(client, id, format), reader)
    },
  }
  return format
}

/** avsc builds a type for every mention of long; the hook answers each with ours, logical types over long included. */
function avscOptions(packages: RegistryPackages): object {
  const long = packages.load<Avsc>('avsc').types.LongType.__with(LONG)
  return {
    typeHook: (schema: unknown) =>
      schema === 'long' || (schema as { type?: unknown } | null)?.type === 'long' ? long : undefined,
  }
}

function readerOf(packages: RegistryPackages, schema: string | object, options: object): AvroType {
  const parsed: unknown = typeof schema === 'string' ? JSON.parse(schema) : schema
  return packages.load<Avsc>('avsc').Type.forSchema(parsed, { ...options })
}

async function typeOf(client: SchemaClient, id: number, format: SchemaFormat): Promise<AvroType> {
  const type = await client.getSchema(id)
  const found = client.cache.getSchema(id)?.type
  if (found !== format.type) throw wrongType(id, String(found), format)
  return type as AvroType
}

function codecOf(writer: AvroType, reader: AvroType | undefined): SchemaCodec {
  makeRecordsPlain(reader ?? writer)
  const resolver = reader?.createResolver(writer)
  return {
    decode:
      reader === undefined
        ? (payload) => writer.fromBuffer(payload)
        : (payload) => reader.fromBuffer(payload, resolver),
    encode: (value) => {
      try {
        return writer.toBuffer(value)
      } catch (cause) {
        throw new TypeError(misfit(writer, value) ?? (cause as Error).message, { cause })
      }
    },
  }
}

/** avsc makes records with constructors of its own; with Object's prototype they are as any literal. */
function makeRecordsPlain(type: AvroType, seen = new Set<AvroType>()): void {
  if (seen.has(type)) return
  seen.add(type)
  if (type.recordConstructor !== undefined) type.recordConstructor.prototype = Object.prototype
  for (const field of type.fields ?? []) makeRecordsPlain(field.type, seen)
  for (const inner of [...(type.types ?? []), type.itemsType, type.valuesType, type.underlyingType])
    if (inner !== undefined) makeRecordsPlain(inner, seen)
}

/** The first places where the value does not fit. */
function misfit(type: AvroType, value: unknown): string | undefined {
  const places: string[] = []
  type.isValid(value, {
    errorHook: (path, found, expected) => {
      const kind = found === null ? 'null' : typeof found
      places.push(
        `${path.length === 0 ? 'the value' : `.${path.join('.')}`} is ${kind}, not ${nameOf(expected)}`,
      )
    },
  })
  return places.length === 0 ? undefined : places.slice(0, 3).join('; ')
}

const nameOf = (type: AvroType): string => type.typeName.replace(/^.*:/, '')

/** A number if it holds the value exactly. */
function exact(value: bigint): number | bigint {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}
