/**
 * `state.backend.redis.url`, in the forms that people know:
 *
 *   redis://user:password@host:6379/0                                one server; rediss:// with TLS
 *   redis+sentinel://user:password@host1:26379,host2:26379/primary/0  the server that Sentinel names
 *   redis+cluster://user:password@host1:7000,host2:7000              a cluster; rediss+sentinel:// and rediss+cluster:// with TLS
 */
import { ConfigError } from '../errors.ts'

export interface RedisAddress {
  readonly host: string
  readonly port: number
}

/** Where Redis is, and as whom to go there. */
export interface RedisTarget {
  readonly kind: 'single' | 'sentinel' | 'cluster'
  readonly tls: boolean
  readonly addresses: readonly RedisAddress[]
  readonly username?: string
  readonly password?: string
  readonly db: number
  /** Name of the primary, for Sentinel. */
  readonly primary?: string
  /** For people: without user and password. */
  readonly name: string
}

const FORM = /^(redis|rediss)(?:\+(sentinel|cluster))?:\/\/(?:(.*)@)?([^/?@]+)(?:\/(.*))?$/
const DEFAULT_PORTS = { single: 6379, sentinel: 26_379, cluster: 6379 }
const KEY = 'state.backend.redis.url'

/** @throws ConfigError MILLRACE_INVALID_OPTION; the message does not repeat the URL, which may hold a password */
export function parseRedisUrl(url: string): RedisTarget {
  const parts = FORM.exec(url.trim())
  if (parts === null)
    throw invalid(
      'is no Redis URL; write redis://host:port, rediss://, redis+sentinel://host:port,host:port/primary or redis+cluster://host:port,host:port',
    )
  const [, scheme, mode, login, hosts, path = ''] = parts
  const kind = (mode ?? 'single') as RedisTarget['kind']
  const addresses = hosts!.split(',').map((text) => addressOf(text, DEFAULT_PORTS[kind]))
  if (kind === 'single' && addresses.length > 1)
    throw invalid('names several servers; write redis+sentinel:// or redis+cluster://')
  const segments = path === '' ? [] : path.split('/')
  const primary = kind === 'sentinel' ? segments.shift() : undefined
  if (kind === 'sentinel' && !primary)
    throw invalid('must end with the name of the primary: redis+sentinel://host:port/name')
  const db = Number(segments[0] ?? '0')
  if (!Number.isInteger(db) || db < 0 || segments.length > 1)
    throw invalid(`names no database: '${segments.join('/')}'`)
  if (kind === 'cluster' && db !== 0) throw invalid('names a database; a cluster has only 0')
  return {
    kind,
    tls: scheme === 'rediss',
    addresses,
    db,
    ...credentials(login),
    ...(primary === undefined ? {} : { primary: decode(primary) }),
    name: `${scheme}${mode === undefined ? '' : `+${mode}`}://${hosts}${path === '' ? '' : `/${path}`}`,
  }
}

function credentials(login: string | undefined): { username?: string; password?: string } {
  if (login === undefined || login === '') return {}
  const colon = login.indexOf(':')
  const [username, password] = colon < 0 ? [login, ''] : [login.slice(0, colon), login.slice(colon + 1)]
  return { ...optional('username', decode(username)), ...optional('password', decode(password)) }
}

function optional<K extends string>(name: K, value: string | null): { [key in K]?: string } {
  return value === null || value === '' ? {} : ({ [name]: value } as { [key in K]: string })
}

function addressOf(text: string, defaultPort: number): RedisAddress {
  const parts = /^(\[[^\]]+\]|[^:[\]]+)(?::(\d+))?$/.exec(text.trim())
  const port = Number(parts?.[2] ?? defaultPort)
  if (parts === null || port < 1 || port > 65_535) throw invalid(`has no host and port at '${text}'`)
  return { host: parts[1]!.replace(/^\[|\]$/g, ''), port }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch (error) {
    if (error instanceof URIError) return text
    throw error
  }
}

function invalid(what: string): ConfigError {
  return new ConfigError('MILLRACE_INVALID_OPTION', `${KEY} ${what}`, { details: { key: KEY } })
}
