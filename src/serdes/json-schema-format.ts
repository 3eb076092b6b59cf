/**
 * JSON Schema: values are checked against the schema when read and when written.
 * Drafts 6, 7, 2019-09 and 2020-12; `format` is not checked. Whole numbers beyond 2^53 lose digits, as everywhere in JSON.parse.
 */
import type { RegistryPackages } from './registry-client.ts'
import { type SchemaCodec, type SchemaFormat, wrongType } from './schema-format.ts'

interface Ajv {
  addSchema(schema: object, id?: string): unknown
  compile(schema: object): unknown
}
type AjvClass = new (options: object) => Ajv

/** What the client makes of a JSON Schema. Its errors carry the places that do not fit. */
interface JsonValidator {
  toBuffer(value: unknown): Buffer
  fromBuffer(bytes: Buffer): unknown
}

interface Misfit {
  readonly path: readonly string[]
  readonly message: string
}

/** A registry takes schemas from many hands: what ajv does not know is not checked, and never a reason to refuse the schema. */
const LENIENT = {
  strict: false,
  validateFormats: false,
  validateSchema: false,
  logger: false,
}

/** JSON Schema. */
export function jsonSchemaFormat(): SchemaFormat {
  const format: SchemaFormat = {
    type: 'JSON',
    name: 'jsonSchema',
    open: (api, packages) => {
      const client = packages.client(api, {
        JSON: { ajvInstance: ajvPerSchema(packages), detailedErrorPaths: true },
      })
      return async (id) => {
        const validator = await client.getSchema(id)
        const found = client.cache.getSchema(id)?.type
        if (found !== format.type) throw wrongType(id, String(found), format)
        return codecOf(validator as JsonValidator)
      }
    },
  }
  return format
}

/**
 * The client adds the referenced schemas, then compiles, in one go. Each schema gets an ajv of its own: two versions of a schema may have one
 * `$id`, which a single ajv refuses, and the draft decides which ajv understands it.
 */
function ajvPerSchema(packages: RegistryPackages): Ajv {
  let referenced: [schema: object, id: string | undefined][] = []
  return {
    addSchema: (schema, id) => {
      referenced.push([schema, id])
    },
    compile: (schema) => {
      const ajv = new (ajvFor(schema, packages))(LENIENT)
      const added = referenced
      referenced = []
      for (const [other, id] of added) ajv.addSchema(other, id)
      return ajv.compile(schema)
    },
  }
}

function ajvFor(schema: object, packages: RegistryPackages): AjvClass {
  const draft = String((schema as { $schema?: unknown }).$schema ?? '')
  const module = draft.includes('2020-12')
    ? 'ajv/dist/2020'
    : draft.includes('2019-09')
      ? 'ajv/dist/2019'
      : 'ajv'
  return packages.load<{ default: AjvClass }>(module).default
}

function codecOf(validator: JsonValidator): SchemaCodec {
  return {
    decode: (payload) => told(() => validator.fromBuffer(payload)),
    encode: (value) => told(() => validator.toBuffer(value)),
  }
}

function told<T>(call: () => T): T {
  try {
    return call()
  } catch (cause) {
    const { paths } = cause as { paths?: readonly Misfit[] }
    if (paths === undefined) throw cause
    const places = paths.slice(0, 3).map(({ path, message }) => `${path.join('') || 'the value'} ${message}`)
    throw new TypeError(`does not fit the JSON Schema: ${places.join('; ')}`, { cause })
  }
}
