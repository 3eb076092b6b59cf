/** Type-level rules of keys and fields, so that mistakes with them do not compile. */
import type { Key } from '../core/state.ts'

/** The key type without its literals: keys 'a' | 'b' may meet any string. */
export type WidenedKey<K> = K extends string
  ? string
  : K extends number
    ? number
    : K extends bigint
      ? bigint
      : K extends boolean
        ? boolean
        : K extends Key
          ? K
          : never

/** What the compiler shows when a function is made for other keys than the stream has. */
export interface KeyMismatch<StreamKey, FunctionKey> {
  readonly 'this function is made for other keys': {
    readonly stream: StreamKey
    readonly function: FunctionKey
  }
}

/** Nothing to add if a function of `FunctionKey` takes every `StreamKey`; otherwise a type that no function has. */
export type KeyMatch<StreamKey, FunctionKey> = [StreamKey] extends [FunctionKey]
  ? unknown
  : KeyMismatch<StreamKey, FunctionKey>

/** What can be added up. */
export type Numeric = number | bigint
/** What `<` orders. */
export type Ordered = number | bigint | string | boolean | Date

/** Argument of an aggregate over values `V`: a field's name, an index of a tuple, or nothing if the stream itself is of such values. */
export type FieldArgument<T, V> = [T] extends [V]
  ? []
  : T extends readonly unknown[]
    ? [index: number]
    : [field: { [P in keyof T]: T[P] extends V ? P : never }[keyof T] & string]
