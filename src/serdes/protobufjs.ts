/** The parts of protobufjs that are used here; the package comes with the registry client, so its own types may not be there. */

export interface ProtoWriter {
  sint32(value: number): ProtoWriter
  finish(): Uint8Array
}

export interface ProtoReader {
  sint32(): number
}

/** A definition: message, enum, namespace. */
export interface ProtoNamespace {
  readonly name: string
  /** In the order of the file. */
  readonly nestedArray: readonly ProtoNamespace[]
}

export interface ProtoEnum {
  readonly name: string
  readonly values: Readonly<Record<string, number>>
}

export interface ProtoField {
  readonly name: string
  /** 'int64', 'string', …, or the name of a message or enum. */
  readonly type: string
  readonly repeated: boolean
  readonly map: boolean
  /** Of a map. */
  readonly keyType?: string
  /** The oneof that it belongs to; a proto3 `optional` field has one of its own. */
  readonly partOf: object | null
  readonly defaultValue: unknown
  readonly resolvedType: ProtoType | ProtoEnum | null
}

/** A message type. */
export interface ProtoType extends ProtoNamespace {
  readonly fields: Readonly<Record<string, ProtoField>>
  readonly fieldsArray: readonly ProtoField[]
  decode(reader: ProtoReader): Readonly<Record<string, unknown>>
  encode(message: Readonly<Record<string, unknown>>): ProtoWriter
  /** What does not fit, or null. */
  verify(message: Readonly<Record<string, unknown>>): string | null
}

export interface ProtoRoot extends ProtoNamespace {
  lookup(path: string): ProtoNamespace | null
  addJSON(nested: object): unknown
  resolveAll(): unknown
}

/** A 64-bit number of the package `long`. */
export interface ProtoLong {
  readonly low: number
  readonly high: number
  readonly unsigned: boolean
}

export interface ProtoUtil {
  readonly Long: { fromBits(low: number, high: number, unsigned: boolean): ProtoLong }
  /** The key of a map in memory, if it has 64 bits. */
  longFromHash(hash: string, unsigned: boolean): ProtoLong
}

export interface ProtobufPackage {
  readonly Root: new () => ProtoRoot
  readonly Type: new (...args: never[]) => ProtoType
  readonly Reader: { create(bytes: Buffer): ProtoReader }
  readonly Writer: { create(): ProtoWriter }
  readonly common: { get(file: string): { readonly nested?: object } | null }
  readonly util: ProtoUtil
  parse(source: string, root: ProtoRoot): { readonly package?: string; readonly imports?: readonly string[] }
}
