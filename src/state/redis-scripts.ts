/**
 * The Lua scripts of redis-scripts/. Each file says at its top what its keys and arguments are; the end of its name is the number of keys
 * (n = as many as there are). They are files, not strings in code, and the build copies them beside this module.
 */
import { readFileSync } from 'node:fs'

const FILES = {
  claim: 'claim-1',
  inspect: 'inspect-n',
  write: 'write-3n',
  load: 'load-n',
  seal: 'seal-3n',
  fold: 'fold-5',
  scan: 'scan-n',
  drop: 'drop-n',
} as const

/** Name of a script. */
export type RedisScript = keyof typeof FILES

/** All scripts, by name. */
export function redisScripts(): ReadonlyMap<RedisScript, string> {
  return new Map(
    (Object.keys(FILES) as RedisScript[]).map((name) => [
      name,
      readFileSync(new URL(`./redis-scripts/${FILES[name]}.lua`, import.meta.url), 'utf8'),
    ]),
  )
}
