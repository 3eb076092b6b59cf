import { PassThrough } from 'node:stream'
import { describe, expect, test } from '@jest/globals'
import { printSink } from '../../../src/connectors/print-sink.ts'
import { sinkContext, vector } from './sink-context.ts'

async function printed(values: unknown[], options: { prefix?: string } = {}, subtask = {}): Promise<string> {
  const output = new PassThrough()
  const writer = printSink({ ...options, output }).createWriter(sinkContext(subtask))
  await writer.write(vector(...values))
  await writer.flush(false)
  return String(output.read())
}

describe('print', () => {
  test('writes a line a value: texts as they are, other values as JSON', async () => {
    expect(await printed(['a b', 1, { user: 'x' }, [1, null], undefined, 5n])).toBe(
      'a b\n1\n{"user":"x"}\n[1,null]\nundefined\n5\n',
    )
  })

  test('has a form for what JSON has none for', async () => {
    const value = { big: 2n ** 60n, map: new Map([['a', 1]]), set: new Set([1]), bytes: Buffer.from('ab') }
    expect(JSON.parse(await printed([value]))).toEqual({
      big: '1152921504606846976',
      map: [['a', 1]],
      set: [1],
      bytes: 'YWI=',
    })
  })

  test.each([
    [{ prefix: 'late' }, {}, 'late> x\n'],
    [{}, { subtaskIndex: 1, parallelism: 2 }, '2> x\n'],
    [{ prefix: 'late' }, { subtaskIndex: 0, parallelism: 2 }, 'late:1> x\n'],
  ])('%j in subtask %j begins the line as Flink does', async (options, subtask, line) => {
    expect(await printed(['x'], options, subtask)).toBe(line)
  })

  test('waits while the output is full', async () => {
    const output = new PassThrough({ highWaterMark: 1 })
    const writer = printSink({ output }).createWriter(sinkContext())
    const waiting = writer.write(vector('text'))
    expect(waiting).toBeInstanceOf(Promise)
    output.resume()
    await waiting
  })
})
