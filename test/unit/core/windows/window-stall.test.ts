import { expect, test } from '@jest/globals'
import type { Logger } from '../../../../src/core/ports.ts'
import { STALL_MS } from '../../../../src/core/time/watermark-stall.ts'
import {
  TumblingEventTimeWindows,
  TumblingProcessingTimeWindows,
} from '../../../../src/core/windows/assigners.ts'
import type { WindowAssigner } from '../../../../src/core/windows/window-assigner.ts'
import { contextFor, RecordingOutput } from '../operators/recording-output.ts'
import { sums, windowsOf } from './window-harness.ts'

/** An operator, and what it warns of. */
async function openedWith(assigner: WindowAssigner<any, any>, heldBackBy?: () => string[]) {
  const warnings: string[] = []
  const logger: Logger = {
    debug() {},
    info() {},
    error() {},
    warn: (message) => warnings.push(message),
    child: () => logger,
  }
  const context = contextFor(new RecordingOutput(), { keyed: true }, 'totals')
  const operator = windowsOf(assigner).aggregate(sums, undefined).factory()
  operator.setup({
    ...context,
    world: { ...context.world, logger },
    ...(heldBackBy && { watermarkHeldBackBy: heldBackBy }),
  })
  await operator.open?.()
  const record = () =>
    operator.processVector({ kind: 'records', values: [{ k: 'a', v: 1 }], timestamps: [1] })
  return { operator, context, warnings, record }
}

/** What the operator warns of while records come for `ms` and the watermark stands still. */
async function warningsOf(assigner: WindowAssigner<any, any>, ms: number, heldBackBy?: () => string[]) {
  const { context, warnings, record } = await openedWith(assigner, heldBackBy)
  for (let waited = 0; waited <= ms; waited += ms / 4) {
    await record()
    await context.time.advance(ms / 4)
  }
  return warnings
}

test('event-time windows that fill without a watermark say so, and what holds it back', async () => {
  const warnings = await warningsOf(TumblingEventTimeWindows.of(10), STALL_MS, () => ['orders (1): orders-3'])
  expect(warnings).toEqual([
    "Windows of operator 'totals' wait: 4 records came, but the watermark has not risen for 60 s; it is held back by orders (1): orders-3. Partitions without records hold it back unless the watermark strategy has withIdleness(ms)",
  ])
})

test('they wait in silence at first, and processing-time windows always', async () => {
  expect(await warningsOf(TumblingEventTimeWindows.of(10), 0.8 * STALL_MS - 4)).toEqual([])
  expect(await warningsOf(TumblingProcessingTimeWindows.of(10), 2 * STALL_MS)).toEqual([])
  expect(await warningsOf(TumblingEventTimeWindows.of(10), STALL_MS)).toEqual([
    expect.stringMatching(/60 s\. Partitions without records/),
  ])
})

test('they say so too when no more records come; a watermark starts the time anew', async () => {
  const { operator, context, warnings, record } = await openedWith(TumblingEventTimeWindows.of(10))
  await record()
  await context.time.advance(STALL_MS - 1)
  await record()
  expect(warnings).toEqual([])
  await context.time.advance(1)
  expect(warnings).toEqual([expect.stringContaining('2 records came')])
  await context.time.advance(3 * STALL_MS)
  await operator.processWatermark(1)
  await context.time.advance(3 * STALL_MS)
  await record()
  await context.time.advance(STALL_MS - 1)
  await operator.processWatermark(2)
  await context.time.advance(3 * STALL_MS)
  expect(warnings).toHaveLength(1)
  await record()
  await context.time.advance(STALL_MS)
  expect(warnings).toEqual([expect.anything(), expect.stringContaining('1 records came')])
})

test('nothing is left behind by an operator that is closed', async () => {
  const { operator, context, warnings, record } = await openedWith(TumblingEventTimeWindows.of(10))
  await record()
  await operator.close?.()
  await context.time.advance(2 * STALL_MS)
  expect(warnings).toEqual([])
  expect(context.time.pending).toBe(0)
})
