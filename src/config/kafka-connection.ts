/** How to reach the brokers, from the `kafka.*` options. */
import { readFile } from 'node:fs/promises'
import type { Config } from '../config.ts'
import { ConfigError, MillraceError } from '../errors.ts'

/** What a Kafka client needs to connect. The certificates are the files' content. */
export interface KafkaConnection {
  readonly brokers: readonly string[]
  readonly clientId: string
  /** true, or options of node:tls. */
  readonly ssl: boolean | Readonly<Record<string, string>>
  readonly sasl?: {
    readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512'
    readonly username: string
    readonly password: string
  }
  readonly requestTimeoutMs: number
}

/** The options that name a PEM file, and what node:tls calls its content. */
const TLS_FILES = { ca: 'kafka.ssl.ca', cert: 'kafka.ssl.cert', key: 'kafka.ssl.key' } as const

/** @throws MILLRACE_KAFKA_NOT_CONFIGURED without brokers, MILLRACE_INVALID_OPTION when a certificate cannot be read. */
export async function kafkaConnection(config: Config, jobName: string): Promise<KafkaConnection> {
  const brokers = config.get('kafka.brokers')
  if (brokers === undefined || brokers.length === 0)
    throw new MillraceError(
      'MILLRACE_KAFKA_NOT_CONFIGURED',
      `job '${jobName}' uses Kafka, but no brokers are configured`,
    )
  const mechanism = config.get('kafka.sasl.mechanism')
  return {
    brokers,
    clientId: config.get('kafka.client-id'),
    ssl: config.get('kafka.ssl') ? await tlsOptions(config) : false,
    requestTimeoutMs: config.get('kafka.request-timeout'),
    ...(mechanism === undefined
      ? {}
      : {
          sasl: {
            mechanism,
            username: config.get('kafka.sasl.username') ?? '',
            password: config.get('kafka.sasl.password') ?? '',
          },
        }),
  }
}

/** True = TLS as Node.js does it by itself. */
async function tlsOptions(config: Config): Promise<true | Readonly<Record<string, string>>> {
  const files = Object.entries(TLS_FILES).flatMap(([name, option]) => {
    const path = config.get(option)
    return path === undefined ? [] : [{ name, option, path }]
  })
  if (files.length === 0) return true
  const read = files.map(async ({ name, option, path }) => [name, await readPem(option, path)] as const)
  return Object.fromEntries(await Promise.all(read))
}

async function readPem(option: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    throw new ConfigError(
      'MILLRACE_INVALID_OPTION',
      `${option} names ${path}, which cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`,
      {
        cause,
        details: { key: option, path },
        remedy: `Let ${option} name a PEM file that this process may read.`,
      },
    )
  }
}
