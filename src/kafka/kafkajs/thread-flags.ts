/**
 * Node.js flags that a thread started from a file takes over. All of them by default, but a thread of its own must not have some
 * (`--input-type` and `--eval` belong to text, a profile or a debugger to the record thread), and Node.js refuses those of the whole
 * process when they are passed on by name. So: what finds and compiles modules, what warns, and what a connection goes by.
 */

/** Kept as they are, also with `--no-` in front. */
const SWITCHES =
  /^--(no-)?(strip-types|experimental-(strip-types|transform-types|(vm|wasm|addon)-modules|require-module|detect-module|import-meta-resolve)|preserve-symlinks(-main)?|enable-source-maps|warnings|deprecation|trace-warnings|addons|network-family-autoselection|tls-(min|max)-v1\.\d|use-system-ca)$/

/** Kept with their value, which follows after `=` or as the next argument. */
const WITH_VALUE =
  /^(--(conditions|import|require|loader|experimental-loader|disable-warning|dns-result-order|network-family-autoselection-attempt-timeout)|-C|-r)(=|$)/

/** The flags of `execArgv` for a thread of its own. Values of flags that are left out never begin with a dash, so they are left out too. */
export function threadFlags(execArgv: readonly string[]): string[] {
  const kept: string[] = []
  for (let i = 0; i < execArgv.length; i++) {
    const flag = execArgv[i] as string
    if (SWITCHES.test(flag)) kept.push(flag)
    const valued = WITH_VALUE.exec(flag)
    if (valued === null) continue
    kept.push(flag)
    const value = execArgv[i + 1]
    if (valued[3] === '' && value !== undefined) {
      kept.push(value)
      i++
    }
  }
  return kept
}
