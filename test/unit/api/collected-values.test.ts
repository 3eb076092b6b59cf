import { beforeEach, describe, expect, test } from '@jest/globals'
import { type DataStream, StreamExecutionEnvironment } from 'millrace'
import type { SinkNode } from '../../../src/core/graph/stream-graph.ts'
import { sinkContext, vector } from '../connectors/sink-context.ts'
import { RecordingExecutor } from './recording-executor.ts'

let executor: RecordingExecutor
let numbers: DataStream<number>
/** Makes values visible as a running job would. */
let emit: (...values: number[]) => void | Promise<void>

beforeEach(() => {
  executor = new RecordingExecutor()
  numbers = StreamExecutionEnvironment.getExecutionEnvironment().fromCollection<number>([])
  executor.onSubmit = ({ graph }) => {
    const writer = (graph.nodes.at(-1) as SinkNode).sink.createWriter(
      sinkContext({ checkpointingEnabled: false }),
    )
    emit = (...values) => writer.write(vector(...values))
  }
})

describe('executeAndCollect', () => {
  test('yields values as they become visible, and ends with the job', async () => {
    const values = numbers.executeAndCollect()
    const first = values.next()
    await Promise.resolve()
    emit(1, 2)
    expect(await first).toEqual({ value: 1, done: false })
    expect(await values.next()).toEqual({ value: 2, done: false })
    const third = values.next()
    emit(3)
    executor.finish()
    expect(await third).toEqual({ value: 3, done: false })
    expect(await values.next()).toEqual({ value: undefined, done: true })
    expect(executor.cancelled).toEqual([])
  })

  test('starts the job when it is called, and reports a failed start to its reader', async () => {
    executor.onSubmit = () => {
      throw new Error('no brokers')
    }
    const values = numbers.executeAndCollect()
    await new Promise((resolve) => setImmediate(resolve))
    expect(executor.submissions).toHaveLength(1)
    await expect(values.next()).rejects.toThrow('no brokers')
  })

  test('throws what the job failed with, after the values before it', async () => {
    const values = numbers.executeAndCollect()
    const first = values.next()
    await Promise.resolve()
    emit(1)
    executor.end.reject(new Error('broken'))
    expect(await first).toEqual({ value: 1, done: false })
    await expect(values.next()).rejects.toThrow('broken')
    expect(executor.cancelled).toEqual([])
  })

  test('cancels the job when the loop is left', async () => {
    const values = numbers.executeAndCollect()
    await Promise.resolve()
    emit(1, 2, 3)
    for await (const value of values) if (value === 2) break
    expect(executor.cancelled).toEqual(['collect'])
  })

  test('with a limit resolves with that many values and cancels the rest', async () => {
    const values = numbers.executeAndCollect(2)
    await Promise.resolve()
    emit(1, 2, 3)
    expect(await values).toEqual([1, 2])
    expect(executor.cancelled).toEqual(['collect'])
  })

  test('with a limit above the number of values resolves when the job ends', async () => {
    const values = numbers.executeAndCollect(10)
    await Promise.resolve()
    emit(1)
    executor.finish()
    expect(await values).toEqual([1])
  })
})
