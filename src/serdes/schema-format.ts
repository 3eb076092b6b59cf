/** Contract between the registry serde, which knows ids and subjects, and the kinds of schemas. */
import type { RegistryApi } from './registry-api.ts'
import type { RegistryPackages, SchemaType } from './registry-client.ts'

/** A schema, ready to decode and encode what stands behind the schema id of a record. */
export interface SchemaCodec {
  /** @throws any error for bytes that do not fit the schema. */
  decode(payload: Buffer): unknown
  /** @throws any error for a value that does not fit the schema. */
  encode(value: unknown): Uint8Array
}

/** Gets the schema of an id from the registry. @throws Error for a schema that cannot be used, NotRegisteredError, MillraceError */
export type LoadSchema = (id: number) => Promise<SchemaCodec>

/** A kind of schema. */
export interface SchemaFormat {
  readonly type: SchemaType
  /** Of the serde, e.g. 'avro'. */
  readonly name: string
  open(api: RegistryApi, packages: RegistryPackages): LoadSchema
}

/** The error for a schema of another kind. */
export function wrongType(id: number, found: string, wanted: SchemaFormat): Error {
  return new Error(`schema ${id} of the registry is ${found}, and the serde is ${wanted.name}`)
}
