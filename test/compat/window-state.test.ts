import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { WindowSettings } from '../../src/api/window-specs.ts'
import { TumblingEventTimeWindows } from '../../src/core/windows/assigners.ts'
import { EventTimeSessionWindows } from '../../src/core/windows/session-assigners.ts'
import { ContinuousEventTimeTrigger } from '../../src/core/windows/triggers.ts'
import { OperatorHarness } from '../../src/testing/operator-harness.ts'

interface Row {
  readonly k: string
  readonly v: number
}
type Golden = Record<string, { readonly keyGroup: number; readonly bytes: string }[]>

const golden: Golden = JSON.parse(readFileSync(new URL('state/windows-1.json', import.meta.url), 'utf8'))

const keyOf = (row: Row) => row.k
const sum = {
  createAccumulator: () => ({ count: 0, sum: 0 }),
  add: (row: Row, total: { count: number; sum: number }) => ({
    count: total.count + 1,
    sum: total.sum + row.v,
  }),
  getResult: (total: { count: number; sum: number }) => total,
  merge: (a: { count: number; sum: number }, b: { count: number; sum: number }) => ({
    count: a.count + b.count,
    sum: a.sum + b.sum,
  }),
}
const lists = (key: string, context: any, rows: readonly Row[], out: any) =>
  out.collect(`${key} ${context.window().start}-${context.window().end}: ${rows.map(({ v }) => v).join(' ')}`)

/** Each kind of window, and what it fires after a restore. */
const jobs = {
  tumbling: {
    spec: new WindowSettings(TumblingEventTimeWindows.of(10), keyOf, true).aggregate(sum, undefined),
    fires: [
      { count: 2, sum: 3 },
      { count: 1, sum: 4 },
    ],
  },
  sessions: {
    spec: new WindowSettings(EventTimeSessionWindows.withGap(6), keyOf, true).process(lists),
    fires: ['a 0-10: 1 2', 'b 12-18: 4'],
  },
  triggered: {
    spec: triggered().process(lists),
    fires: ['a 0-10: 1 2', 'b 10-20: 4', 'b 10-20: 4'],
  },
}

function triggered(): WindowSettings {
  const windows = new WindowSettings(TumblingEventTimeWindows.of(10), keyOf, true)
  windows.setTrigger(ContinuousEventTimeTrigger.of(8))
  return windows
}

for (const [name, { spec, fires }] of Object.entries(jobs)) {
  test(`${name}: state of windows is written as in the golden file`, async () => {
    const harness = await OperatorHarness.of<Row, unknown>(spec.factory, { keyed: true })
    for (const [k, v, time] of [
      ['a', 1, 0],
      ['a', 2, 4],
      ['b', 4, 12],
    ] as const)
      await harness.processElement({ k, v }, time)
    await harness.processWatermark(8)
    const { keyGroups } = await harness.snapshot()
    expect(
      keyGroups.map(({ keyGroup, bytes }) => ({ keyGroup, bytes: Buffer.from(bytes).toString('base64') })),
    ).toEqual(golden[name])
  })

  test(`${name}: windows go on from the golden file`, async () => {
    const keyGroups = golden[name]!.map(({ keyGroup, bytes }) => ({
      keyGroup,
      bytes: new Uint8Array(Buffer.from(bytes, 'base64')),
    }))
    const restore = { checkpointId: 1, operatorState: {}, committables: [], keyGroups }
    const harness = await OperatorHarness.of<Row, unknown>(spec.factory, { keyed: true, restore })
    await harness.processWatermark(100)
    expect(harness.values()).toEqual(fires)
    expect([harness.stateEntries(), harness.timerCount()]).toEqual([0, 0])
  })
}
