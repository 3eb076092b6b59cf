/** What an option is: its type, limits, default and documentation; and the value that it has in code. */

interface Described {
  /** What it does, in one or two short sentences; printed in docs/configuration.md. */
  readonly doc: string
  /** Variables besides `MILLRACE_…` that set it; they are weaker than that one. */
  readonly env?: readonly string[]
  /** Names that people from other systems try; they are not accepted, but the error names this option. */
  readonly knownAs?: readonly string[]
  /** Never shown: the whole value, or only the password inside a URL. */
  readonly secret?: 'value' | 'url-password'
  /** The option has no effect unless the other one has this value, or one of these; setting it all the same is worth a warning. */
  readonly appliesWhen?: { readonly key: string; readonly is: string | readonly string[] }
  /** Default, written as a person would write it. Without one the option may be undefined. */
  readonly default?: string
}

/** One row of the option table. Limits are written like values. */
export type OptionSpec = Described &
  (
    | { readonly type: 'duration' | 'size'; readonly min?: string; readonly max?: string }
    | { readonly type: 'int' | 'number'; readonly min: number; readonly max: number; readonly word?: string }
    | { readonly type: 'enum'; readonly values: readonly string[] }
    | { readonly type: 'list'; readonly item: RegExp; readonly itemText: string }
    | { readonly type: 'boolean' | 'string' | 'path' | 'url' }
  )

/** A value as it comes from code; texts are read as in the file, plain numbers are milliseconds or bytes. */
export type OptionInput = string | number | boolean | readonly string[]

/** A value after reading: milliseconds, bytes, a number, a text, a list. */
export type AnyOptionValue = string | number | boolean | readonly string[]

type Defined<S> = S extends { readonly type: 'duration' | 'size' }
  ? number
  : S extends { readonly type: 'int' | 'number' }
    ? number | (S extends { readonly word: infer W } ? W : never)
    : S extends { readonly type: 'boolean' }
      ? boolean
      : S extends { readonly type: 'enum'; readonly values: readonly (infer V)[] }
        ? V
        : S extends { readonly type: 'list' }
          ? readonly string[]
          : string

/** The type of an option's value, from its row in the table. */
export type ValueOfSpec<S> = Defined<S> | (S extends { readonly default: string } ? never : undefined)
