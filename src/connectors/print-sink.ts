/** Writes a line for each value to standard output. At least once: after a failure lines may come again. */
import type { Sink, SinkWriterContext } from '../core/connector.ts'

export interface PrintSinkOptions {
  /** Comes before each value. */
  readonly prefix?: string
  /** Where lines go; `process.stdout` unless given. */
  readonly output?: NodeJS.WritableStream
}

/**
 * Prints values as Flink does: `value`, `prefix> value`, and with several subtasks `2> value` or `prefix:2> value`, the subtask counted from 1.
 * Texts are printed as they are, other values as JSON.
 * @example stream.sinkTo(printSink({ prefix: 'late' }))
 */
export function printSink<T>(options: PrintSinkOptions = {}): Sink<T> {
  return {
    kind: 'print',
    describe: () => ({}),
    createWriter: (context) => {
      const output = options.output ?? process.stdout
      const start = lineStart(options.prefix, context.info)
      return {
        write: (vector) => {
          context.recordsOut.inc(vector.values.length)
          const room = output.write(vector.values.map((value) => `${start}${textOf(value)}\n`).join(''))
          return room ? undefined : new Promise((resolve) => output.once('drain', resolve))
        },
        flush: () =>
          new Promise((resolve, reject) => output.write('', (error) => (error ? reject(error) : resolve()))),
        close: () => undefined,
      }
    },
  }
}

function lineStart(prefix: string | undefined, info: SinkWriterContext['info']): string {
  const subtask = info.parallelism > 1 ? String(info.subtaskIndex + 1) : undefined
  const parts = [prefix, subtask].filter((part) => part !== undefined && part !== '')
  return parts.length === 0 ? '' : `${parts.join(':')}> `
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  if (typeof value === 'bigint') return String(value)
  return JSON.stringify(value, plainJson) ?? String(value)
}

/** What JSON has no form for: bigints as their digits, maps as lists of pairs, sets as lists, bytes in base64. */
function plainJson(this: Record<string, unknown>, key: string, value: unknown): unknown {
  // Buffers have a JSON form of their own, which is already in `value`.
  const original = this[key]
  if (original instanceof Uint8Array) return Buffer.from(original).toString('base64')
  if (typeof value === 'bigint') return String(value)
  if (value instanceof Map || value instanceof Set) return [...value]
  return value
}
