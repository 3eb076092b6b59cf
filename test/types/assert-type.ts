/** Assertions that the compiler checks; they do nothing at run time. */

/** `true` if both types are the same, `any` and optional fields told apart. */
export type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

/** Compiles only if `T` is `true`: `assertType<Equal<typeof x, string>>()`. */
export function assertType<_T extends true>(): void {}
