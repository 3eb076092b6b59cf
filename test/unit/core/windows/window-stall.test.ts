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

/** What the operator warns of while records come for `ms` and the watermark stands still. */
async function warningsOf(assigner: WindowAssigner<any, any>, ms: number, heldBackBy?: () => string[]) {
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
  for (let waited = 0; waited <= ms; waited += ms / 4) {
    await operator.processVector({ kind: 'records', values: [{ k: 'a', v: 1 }], timestamps: [1] })
    await context.time.advance(ms / 4)
  }
  return warnings
}

test('event-time windows that fill without a watermark say so, and what holds it back', async () => {
  const warnings = await warningsOf(TumblingEventTimeWindows.of(10), STALL_MS, () => ['orders (1): orders-3'])
  expect(warnings).toEqual([
    "Windows of operator 'totals' wait: 5 records came, but the watermark has not risen for 60 s; it is held back by orders (1): orders-3. Partitions without records hold it back unless the watermark strategy has withIdleness(ms)",
  ])
})

test('they wait in silence at first, and processing-time windows always', async () => {
  expect(await warningsOf(TumblingEventTimeWindows.of(10), STALL_MS - 4)).toEqual([])
  expect(await warningsOf(TumblingProcessingTimeWindows.of(10), 2 * STALL_MS)).toEqual([])
  expect(await warningsOf(TumblingEventTimeWindows.of(10), STALL_MS)).toEqual([
    expect.stringMatching(/60 s\. Partitions without records/),
  ])
})
