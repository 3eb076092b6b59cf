/**
 * The optional package @kafkajs/confluent-schema-registry: it keeps schemas by id, follows their references, and makes Avro types and JSON
 * Schema validators of them. Loaded when the first registry serde is opened.
 * Its own copies of avsc, protobufjs and ajv are used with it: a type of another copy would be no type to it.
 */
import { createRequire } from 'node:module'
import { MillraceError } from '../errors.ts'
import type { RegistryApi, SchemaReference, StoredSchema } from './registry-api.ts'

const PACKAGE = '@kafkajs/confluent-schema-registry'

/** Kinds of schemas, by the names that registries use. */
export type SchemaType = 'AVRO' | 'PROTOBUF' | 'JSON'

/** What the package's client is, as far as it is used here. */
export interface SchemaClient {
  /** The schema of an id, made ready; from its cache when it was asked before. */
  getSchema(id: number): Promise<unknown>
  readonly cache: { getSchema(id: number): { readonly type: SchemaType | 'UNKNOWN' } | undefined }
}

interface SchemaClientInside {
  api: unknown
}

/** Options of the client for each kind of schema; passed on to avsc and ajv. */
export type ClientOptions = Readonly<Partial<Record<SchemaType, object>>>

/** The package and what it brings along. */
export interface RegistryPackages {
  client(api: RegistryApi, options: ClientOptions): SchemaClient
  /** Loads a module as the package itself would. */
  load<T>(module: string): T
}

const load = createRequire(import.meta.url)

/** @throws MillraceError MILLRACE_MISSING_PACKAGE if the package is not installed. `serde` needs it. */
export function registryPackages(serde: string): RegistryPackages {
  try {
    const inside = createRequire(load.resolve(PACKAGE))
    const { SchemaRegistry } = load(PACKAGE) as {
      SchemaRegistry: new (settings: { host: string }, options: ClientOptions) => SchemaClient
    }
    return {
      client: (api, options) => {
        const client = new SchemaRegistry({ host: api.url }, options)
        ;(client as unknown as SchemaClientInside).api = requestsOf(api)
        return client
      },
      load: <T>(module: string) => inside(module) as T,
    }
  } catch (cause) {
    throw new MillraceError(
      'MILLRACE_MISSING_PACKAGE',
      `the optional package '${PACKAGE}' is needed for the serde ${serde} and cannot be loaded`,
      { cause, details: { package: PACKAGE }, remedy: `Install it: npm install ${PACKAGE}` },
    )
  }
}

/** The two requests that the client makes to read schemas, in the shape that it calls them. */
function requestsOf(api: RegistryApi): unknown {
  const answered = async (schema: Promise<StoredSchema>) => {
    const data = await schema
    return { data: () => data }
  }
  return {
    Schema: { find: ({ id }: { id: number }) => answered(api.schema(id)) },
    Subject: {
      version: ({ subject, version }: SchemaReference) => answered(api.version(subject, version)),
    },
  }
}
