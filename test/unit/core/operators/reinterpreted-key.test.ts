import { expect, test } from '@jest/globals'
import type { Collector } from '../../../../src/core/functions.ts'
import { KeyedProcessFunction } from '../../../../src/core/functions.ts'
import { keyedProcessOperator } from '../../../../src/core/operators/process.ts'
import { reinterpretedKey } from '../../../../src/core/operators/reinterpreted-key.ts'
import { HeapKeyedStateBackend } from '../../../../src/state/heap-backend.ts'
import { OperatorHarness } from '../../../../src/testing/operator-harness.ts'

class Pass extends KeyedProcessFunction<string, string, string> {
  override processElement(value: string, _context: this['Context'], out: Collector<string>) {
    out.collect(value)
  }
}

const keys = Array.from({ length: 60 }, (_, i) => `key-${i}`)
const open = (keyOf: (value: string) => string, parallelism: number) =>
  OperatorHarness.of<string, string>(keyedProcessOperator(new Pass(), keyOf as never), {
    keyed: true,
    name: 'count',
    parallelism,
    subtaskIndex: 0,
    keyedState: (clock, range) =>
      new HeapKeyedStateBackend({ range, maxParallelism: 128, operatorName: 'count', clock }),
  })

test('keys that belong to the subtask pass', async () => {
  const harness = await open(
    reinterpretedKey((value: string) => value),
    3,
  )
  const own = keys.filter((key) => harness.owns(key))
  await harness.processElements(own)
  expect(harness.values()).toEqual(own)
  expect(own.length).toBeGreaterThan(5)
})

test('a key of another subtask fails the task, and says whose it is and what to do', async () => {
  const harness = await open(
    reinterpretedKey((value: string) => value),
    3,
  )
  const foreign = keys.find((key) => !harness.owns(key))!
  await expect(harness.processElement(foreign)).rejects.toMatchObject({
    code: 'MILLRACE_KEY_NOT_OWNED',
    message: expect.stringMatching(
      /'count' reads a stream through reinterpretAsKeyedStream.*key group \d+ of 128 belongs to subtask [23] of 3, and it came to subtask 1/,
    ),
    remedy: expect.stringContaining('keyBy'),
    details: expect.objectContaining({ key: JSON.stringify(foreign), subtaskIndex: 0 }),
  })
})

test('one subtask owns every key', async () => {
  const harness = await open(
    reinterpretedKey((value: string) => value),
    1,
  )
  await harness.processElements(keys)
  expect(harness.values()).toEqual(keys)
})
