/** Errors of Redis and of its client as coded ones. What Redis says is kept, addresses are named, passwords are not. */
import { type ErrorCode, isMillraceError, MillraceError } from '../errors.ts'

/** First words of answers that pass when the server is back to normal. */
const PASSING = [
  'LOADING',
  'READONLY',
  'BUSY',
  'MASTERDOWN',
  'CLUSTERDOWN',
  'TRYAGAIN',
  'MISCONF',
  'NOREPLICAS',
  'UNBLOCKED',
  'MOVED',
  'ASK',
]
const REFUSED = ['NOAUTH', 'WRONGPASS', 'NOPERM', 'NOPROTO']

/** What a script of ours refused; its words are in redis-scripts/. */
export interface ScriptRefusal {
  readonly reason: 'OWNER' | 'SEALED' | 'CHANGED' | 'GONE' | 'CHAIN' | 'SHORT' | 'FORMAT' | 'RESTARTED'
  readonly words: readonly string[]
}

/** The refusal in an error; undefined if it is another error. */
export function scriptRefusal(error: unknown): ScriptRefusal | undefined {
  const found = /^MILLRACE_(OWNER|SEALED|CHANGED|GONE|CHAIN|SHORT|FORMAT|RESTARTED) (.*)/.exec(textOf(error))
  if (found === null) return undefined
  // Redis adds where in the script it happened.
  const words = found[2]!.replace(/ script: [0-9a-f]{40}.*$/, '').split(' ')
  return { reason: found[1] as ScriptRefusal['reason'], words }
}

/** An error of the client or the server as a coded one. Script refusals and coded errors stay as they are. */
export function redisFailure(error: unknown, server: string, doing: string): unknown {
  if (isMillraceError(error) || scriptRefusal(error) !== undefined) return error
  const text = textOf(error)
  const code = codeOf(text)
  return new MillraceError(code, `Redis at ${server} could not ${doing}: ${text}`, {
    cause: error,
    details: { server },
  })
}

/** True for trouble that trying again may end: no connection, no answer, a server that is loading or was replaced. */
export function isRedisUnavailable(error: unknown): boolean {
  return isMillraceError(error) && error.code === 'MILLRACE_REDIS_UNAVAILABLE'
}

/** Another server may answer than before, or the same one after a restart. Comparing and asking again may mend it. */
export function handedOver(server: string, when: string, cause?: unknown): MillraceError {
  return new MillraceError(
    'MILLRACE_REDIS_UNAVAILABLE',
    `Redis at ${server} restarted or handed over ${when}`,
    cause === undefined ? {} : { cause },
  )
}

function codeOf(text: string): ErrorCode {
  const first = /^[A-Z]+/.exec(text)?.[0] ?? ''
  if (first === 'OOM' || /used memory > 'maxmemory'/.test(text)) return 'MILLRACE_REDIS_FULL'
  if (REFUSED.includes(first)) return 'MILLRACE_REDIS_REFUSED'
  if (PASSING.includes(first) || PASSING.some((word) => text.includes(`-${word} `)))
    return 'MILLRACE_REDIS_UNAVAILABLE'
  // An answer of the server that no case above knows: the request itself is at fault.
  return /^(ERR|WRONGTYPE|NOSCRIPT|CROSSSLOT|EXECABORT) /.test(text)
    ? 'MILLRACE_REDIS_REFUSED'
    : 'MILLRACE_REDIS_UNAVAILABLE'
}

function textOf(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('message' in error)) return String(error)
  const { message } = error
  // An AggregateError of a refused connection has its words in its code.
  return typeof message === 'string' && message !== ''
    ? message
    : String('code' in error ? error.code : error)
}
