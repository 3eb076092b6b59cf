/**
 * Unaligned checkpoints at one gate: whatever the order in which records and barriers arrive and are read, what was processed at the freeze
 * and what was kept in flight are together exactly what was sent before the barrier on each channel.
 */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { InFlightElement } from '../../src/checkpoint/in-flight.ts'
import type { RecordVector } from '../../src/core/element.ts'
import { recordVector } from '../../src/core/element.ts'
import type { ChainDriver } from '../../src/runtime/chain-driver.ts'
import { LocalChannel } from '../../src/runtime/channel.ts'
import { GateInput } from '../../src/runtime/gate-input.ts'
import { InputGate } from '../../src/runtime/input-gate.ts'
import { IN_FLIGHT_CODEC } from '../../src/state/in-flight-codec.ts'

type Step =
  | { readonly do: 'send'; readonly channel: number; readonly records: number }
  | { readonly do: 'barrier'; readonly channel: number }
  | { readonly do: 'end'; readonly channel: number }
  | { readonly do: 'read' }
  | { readonly do: 'pass'; readonly ms: number }

const step = (channels: number): fc.Arbitrary<Step> =>
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant('send' as const),
        channel: fc.nat(channels - 1),
        records: fc.integer({ min: 1, max: 3 }),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constant('barrier' as const), channel: fc.nat(channels - 1) }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('end' as const), channel: fc.nat(channels - 1) }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('read' as const) }) },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 30 }) }),
    },
  )

interface Taken {
  readonly processed: readonly string[]
  readonly bytes: Promise<Uint8Array | undefined> | undefined
}

/** Runs the steps; barriers carry 1, 2, 3 … by channel. Answers with what each snapshot held and what had been sent before its barriers. */
async function run(channels: number, steps: readonly Step[], overtakeAfterMs: number) {
  let now = 0
  const queues = Array.from({ length: channels }, () => new LocalChannel())
  const gate = new InputGate(
    queues.map((channel, index) => ({
      channel,
      input: 0,
      from: `up ${index}`,
      place: { edge: 'up→down', from: index },
    })),
  )
  const processed: string[] = []
  const driver = {
    records: (_input: number, vector: RecordVector) => {
      processed.push(...(vector.values as string[]))
      return undefined
    },
    room: () => undefined,
    valve: async () => undefined,
    endInput: async () => undefined,
    endOfData: async () => undefined,
  } as unknown as ChainDriver
  const snapshots = new Map<number, Taken>()
  const input = new GateInput(
    gate,
    'EXACTLY_ONCE',
    driver,
    {
      checkpoint: async (n, _kind, unaligned) => {
        snapshots.set(n, { processed: [...processed], bytes: unaligned?.capture?.() })
      },
      cancelled: () => undefined,
    },
    {
      clock: { now: () => now },
      timers: { schedule: () => ({ cancel: () => undefined }) } as never,
      wake: () => undefined,
      writer: () => IN_FLIGHT_CODEC.writer('down'),
    },
  )
  const sent: string[][] = queues.map(() => [])
  const barriers = queues.map(() => 0)
  const ended = queues.map(() => false)
  const before = new Map<string, readonly string[]>()
  for (const each of steps) {
    if (each.do === 'pass') now += each.ms
    else if (each.do === 'read') await input.step()
    else if (!ended[each.channel]) {
      const channel = queues[each.channel]!
      if (each.do === 'send') {
        const values = Array.from(
          { length: each.records },
          (_, i) => `${each.channel}:${sent[each.channel]!.length + i}`,
        )
        sent[each.channel]!.push(...values)
        channel.push(
          recordVector(
            values,
            values.map(() => 0),
          ),
        )
      } else if (each.do === 'barrier') {
        const n = ++barriers[each.channel]!
        before.set(`${each.channel}/${n}`, [...sent[each.channel]!])
        channel.push({ kind: 'barrier', n, checkpointKind: 'checkpoint', overtakeAt: now + overtakeAfterMs })
      } else {
        ended[each.channel] = true
        channel.push({ kind: 'end-of-channel' })
      }
    }
  }
  // Everything that was begun comes to its end.
  for (const [index, channel] of queues.entries()) if (!ended[index]) channel.push({ kind: 'end-of-channel' })
  while ((await input.step()) === 'worked');
  return { snapshots, before, sent, processed, barriers }
}

test('processed and in flight are together what came before the barriers', async () => {
  let unaligned = 0
  await fc.assert(
    fc.asyncProperty(
      fc
        .integer({ min: 1, max: 3 })
        .chain((channels) =>
          fc.tuple(
            fc.constant(channels),
            fc.array(step(channels), { minLength: 5, maxLength: 60 }),
            fc.constantFrom(0, 10),
          ),
        ),
      async ([channels, steps, overtakeAfterMs]) => {
        const { snapshots, before, sent, processed, barriers } = await run(channels, steps, overtakeAfterMs)
        expect(processed.toSorted()).toEqual(sent.flat().toSorted())
        for (const [n, { processed: done, bytes }] of snapshots) {
          // A newer barrier that overtakes gives the older checkpoint up.
          const stored = await bytes?.catch(() => 'given up' as const)
          if (stored === 'given up') continue
          if (bytes !== undefined) unaligned++
          const inFlight: InFlightElement[] = stored === undefined ? [] : IN_FLIGHT_CODEC.read(stored, 'down')
          const kept = inFlight.flatMap(({ element }) => (element.kind === 'records' ? element.values : []))
          const expected = Array.from({ length: channels }, (_, channel) =>
            // A channel that ended without this barrier gave all it had.
            n <= barriers[channel]! ? before.get(`${channel}/${n}`)! : sent[channel]!,
          ).flat()
          expect([...done, ...kept].toSorted()).toEqual(expected.toSorted())
        }
      },
    ),
    { numRuns: 2_000 },
  )
  // The property says nothing if no barrier ever overtook.
  expect(unaligned).toBeGreaterThan(500)
})
