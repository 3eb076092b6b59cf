import type { KafkajsLogger } from 'kafkajs/src/network/connection.js'
import type { Logger } from '../../core/ports.ts'

/**
 * Passes kafkajs's own log lines on at level debug: it reports what is retried a moment later as an error, and errors
 * that matter are thrown to the caller anyway.
 */
export function kafkajsLogger(logger: Logger, namespace = 'kafkajs'): KafkajsLogger {
  const line = (message: string, extra: object = {}) => logger.debug(message, { namespace, ...extra })
  return {
    namespace: (name) => kafkajsLogger(logger, name),
    debug: line,
    info: line,
    warn: line,
    error: line,
  }
}
