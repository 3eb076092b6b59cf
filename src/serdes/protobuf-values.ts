/**
 * Messages of Protocol Buffers as plain objects, so that state can keep them.
 * Reading fills in what a message leaves out: scalars and enums with their default, lists and maps empty, messages null; members of a oneof and
 * proto3 `optional` fields stay away. Writing refuses fields that the message does not have: a misspelt one would be lost in silence.
 */
import type { LongFields } from './protobuf-long.ts'
import type { ProtobufPackage, ProtoField, ProtoType } from './protobufjs.ts'

type Plain = Record<string, unknown>

/** Both ways between protobufjs' messages and plain values. */
export function protobufValues(
  protobuf: ProtobufPackage,
  longs: LongFields,
): {
  read(type: ProtoType, message: Readonly<Plain>): Plain
  /** @throws TypeError that names the field. */
  write(type: ProtoType, value: unknown): Plain
} {
  const messageOf = (field: ProtoField): ProtoType | undefined =>
    field.resolvedType instanceof protobuf.Type ? field.resolvedType : undefined

  const readOne = (field: ProtoField, value: unknown): unknown => {
    const type = messageOf(field)
    if (type !== undefined) return value === null ? null : read(type, value as Plain)
    if (longs.has(field.type)) return longs.read(value)
    // A default of bytes is an array.
    return field.type === 'bytes' && !Buffer.isBuffer(value) ? Buffer.from(value as number[]) : value
  }

  const readField = (field: ProtoField, value: unknown): unknown => {
    if (field.repeated) return ((value ?? []) as unknown[]).map((item) => readOne(field, item))
    if (!field.map) return readOne(field, value)
    const entries: Plain = {}
    for (const [key, item] of Object.entries((value ?? {}) as Plain))
      entries[longs.has(field.keyType) ? longs.readKey(key, field.keyType as string) : key] = readOne(
        field,
        item,
      )
    return entries
  }

  const read = (type: ProtoType, message: Readonly<Plain>): Plain => {
    const plain: Plain = {}
    for (const field of type.fieldsArray) {
      const { name } = field
      if (Object.hasOwn(message, name)) plain[name] = readField(field, message[name])
      else if (field.partOf === null)
        plain[name] = readField(field, messageOf(field) ? null : field.defaultValue)
    }
    return plain
  }

  const writeOne = (field: ProtoField, value: unknown, path: string): unknown => {
    const type = messageOf(field)
    if (type !== undefined) return writeMessage(type, value, path)
    return longs.has(field.type) ? longs.write(value, field.type, path) : value
  }

  const writeField = (field: ProtoField, value: unknown, path: string): unknown => {
    // What is no list or no map is told by `verify`.
    if (field.repeated)
      return Array.isArray(value) ? value.map((item, i) => writeOne(field, item, `${path}[${i}]`)) : value
    if (!field.map) return writeOne(field, value, path)
    if (typeof value !== 'object') return value
    const entries: Plain = {}
    for (const [key, item] of Object.entries(value as Plain))
      entries[key] = writeOne(field, item, `${path}[${JSON.stringify(key)}]`)
    return entries
  }

  const writeMessage = (type: ProtoType, value: unknown, path: string): Plain => {
    if (typeof value !== 'object' || value === null)
      throw new TypeError(`${path === '' ? 'the value' : path}: an object for message ${type.name} expected`)
    const message: Plain = {}
    for (const [name, item] of Object.entries(value)) {
      if (item === undefined || item === null) continue
      const at = path === '' ? name : `${path}.${name}`
      if (!Object.hasOwn(type.fields, name))
        throw new TypeError(
          `message ${type.name} has no field ${name}; it has ${Object.keys(type.fields).join(', ')}`,
        )
      message[name] = writeField(type.fields[name] as ProtoField, item, at)
    }
    return message
  }

  return {
    read,
    write: (type, value) => {
      const message = writeMessage(type, value, '')
      const misfit = type.verify(message)
      if (misfit !== null) throw new TypeError(misfit)
      return message
    },
  }
}
