/**
 * Protocol Buffers. In front of the message stand the message indexes: a path to the message type in the .proto file,
 *
 *   count, index, index, …     zigzag varints; [0] (the first message of the file) is one byte 0
 *
 * The client package neither writes them nor reads them right, and cannot load a file whose first definition is no message, so schemas are
 * parsed here, by its protobufjs. Imports are the schema's references, and google/protobuf/*.proto.
 */
import { LongFields } from './protobuf-long.ts'
import { protobufValues } from './protobuf-values.ts'
import type { ProtobufPackage, ProtoNamespace, ProtoRoot, ProtoType } from './protobufjs.ts'
import type { RegistryApi, StoredSchema } from './registry-api.ts'
import { type SchemaCodec, type SchemaFormat, wrongType } from './schema-format.ts'

/** Deepest nesting of a message type that is believed. */
const MAX_INDEXES = 100

export interface ProtobufFormatOptions {
  /** Message to write, e.g. 'Order' or 'Order.Line'; default: the first one of the file. */
  readonly messageName: string | undefined
  /** False: records without message indexes. */
  readonly messageIndexes: boolean
}

/** Protocol Buffers. */
export function protobufFormat(options: ProtobufFormatOptions): SchemaFormat {
  const format: SchemaFormat = {
    type: 'PROTOBUF',
    name: 'protobuf',
    open: (api, packages) => {
      const protobuf = packages.load<ProtobufPackage>('protobufjs')
      return async (id) => {
        const stored = await api.schema(id)
        const type = stored.schemaType ?? 'AVRO'
        if (type !== format.type) throw wrongType(id, type, format)
        return new ProtobufCodec(protobuf, await parse(protobuf, api, stored), options)
      }
    },
  }
  return format
}

/** A parsed .proto file: where its own top-level messages are, in order. */
interface ProtoFile {
  readonly messages: readonly ProtoType[]
}

async function parse(protobuf: ProtobufPackage, api: RegistryApi, stored: StoredSchema): Promise<ProtoFile> {
  const root = new protobuf.Root()
  const main = protobuf.parse(stored.schema, root)
  const own: ProtoNamespace = main.package === undefined ? root : (root.lookup(main.package) ?? root)
  // Before anything else is added: a referenced file may have the same package.
  const messages = messagesOf(protobuf, own)
  addWellKnown(protobuf, root, main.imports)
  const seen = new Set<string>()
  const follow = async (schema: StoredSchema): Promise<void> => {
    for (const { subject, version } of schema.references ?? []) {
      const key = `${version} ${subject}`
      if (seen.has(key)) continue
      seen.add(key)
      const referenced = await api.version(subject, version)
      addWellKnown(protobuf, root, protobuf.parse(referenced.schema, root).imports)
      await follow(referenced)
    }
  }
  await follow(stored)
  root.resolveAll()
  return { messages }
}

function messagesOf(protobuf: ProtobufPackage, parent: ProtoNamespace): ProtoType[] {
  return parent.nestedArray.filter((nested) => nested instanceof protobuf.Type)
}

/** google/protobuf/*.proto are not in the registry: everybody is taken to have them. */
function addWellKnown(
  protobuf: ProtobufPackage,
  root: ProtoRoot,
  imports: readonly string[] | undefined,
): void {
  for (const file of imports ?? []) {
    const nested = protobuf.common.get(file)?.nested
    if (nested !== undefined) root.addJSON(nested)
  }
}

class ProtobufCodec implements SchemaCodec {
  readonly #protobuf: ProtobufPackage
  readonly #file: ProtoFile
  readonly #options: ProtobufFormatOptions
  readonly #values: ReturnType<typeof protobufValues>
  /** Message to write and the bytes of its indexes; found when first needed, since a reader never needs it. */
  #written: { readonly type: ProtoType; readonly indexes: Uint8Array } | undefined

  constructor(protobuf: ProtobufPackage, file: ProtoFile, options: ProtobufFormatOptions) {
    this.#protobuf = protobuf
    this.#file = file
    this.#options = options
    this.#values = protobufValues(protobuf, new LongFields(protobuf.util))
  }

  decode(payload: Buffer): unknown {
    // A copy: fields of bytes are views of it, and the buffer of a whole fetch must not stay alive under them.
    const reader = this.#protobuf.Reader.create(Buffer.from(payload))
    const type = this.#options.messageIndexes ? this.#indexed(reader) : this.#target().type
    return this.#values.read(type, type.decode(reader))
  }

  encode(value: unknown): Uint8Array {
    const { type, indexes } = this.#target()
    const message = type.encode(this.#values.write(type, value)).finish()
    return this.#options.messageIndexes ? Buffer.concat([indexes, message]) : message
  }

  #indexed(reader: { sint32(): number }): ProtoType {
    const count = reader.sint32()
    if (count < 0 || count > MAX_INDEXES)
      throw new RangeError(`a path of ${count} message indexes makes no sense`)
    const path = count === 0 ? [0] : Array.from({ length: count }, () => reader.sint32())
    let messages = this.#file.messages
    let type: ProtoType | undefined
    for (const index of path) {
      type = messages[index]
      if (type === undefined)
        throw new RangeError(`the schema has no message at indexes [${path.join(', ')}]`)
      messages = messagesOf(this.#protobuf, type)
    }
    return type as ProtoType
  }

  #target(): { readonly type: ProtoType; readonly indexes: Uint8Array } {
    this.#written ??= this.#find(this.#options.messageName)
    return this.#written
  }

  #find(name: string | undefined): { readonly type: ProtoType; readonly indexes: Uint8Array } {
    let messages = this.#file.messages
    let type: ProtoType | undefined
    const path: number[] = []
    for (const part of name?.split('.') ?? [undefined]) {
      const index = part === undefined ? 0 : messages.findIndex((message) => message.name === part)
      type = messages[index]
      if (type === undefined)
        throw new Error(
          name === undefined
            ? 'the schema has no message'
            : `the schema has no message ${name}; it has ${this.#file.messages.map((message) => message.name).join(', ')}`,
        )
      path.push(index)
      messages = messagesOf(this.#protobuf, type)
    }
    const first = path.length === 1 && path[0] === 0
    const writer = this.#protobuf.Writer.create().sint32(first ? 0 : path.length)
    if (!first) for (const index of path) writer.sint32(index)
    return { type: type as ProtoType, indexes: writer.finish() }
  }
}
