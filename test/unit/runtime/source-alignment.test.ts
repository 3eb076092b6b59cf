import { describe, expect, test } from '@jest/globals'
import { recordVector } from '../../../src/core/element.ts'
import { type AlignedMember, WatermarkAlignment } from '../../../src/core/time/watermark-alignment.ts'
import { SourceWatermarker, WatermarkStrategy } from '../../../src/core/time/watermarks.ts'
import { SourceAlignment } from '../../../src/runtime/source-alignment.ts'
import { SourceInput } from '../../../src/runtime/source-input.ts'
import { QueueReader, type Wired, wire } from './chain-fixture.ts'
import { VirtualWorld } from './virtual-world.ts'

const info = { jobName: 'job', operatorName: 'src', uid: 'src', subtaskIndex: 0, parallelism: 1, attempt: 1 }
const settings = { group: 'g', maxDriftMs: 100, updateIntervalMs: 1 }

/** A reader that can leave out single splits. */
class PausingReader extends QueueReader {
  readonly paused = new Set<string>()
  pauseOrResumeSplits(pause: readonly string[], resume: readonly string[]): void {
    for (const id of pause) this.paused.add(id)
    for (const id of resume) this.paused.delete(id)
  }
}

interface Scene {
  readonly virtual: VirtualWorld
  readonly wired: Wired
  readonly input: SourceInput
  readonly other: AlignedMember
  readonly watermarker: SourceWatermarker<unknown>
}

function scene(reader: QueueReader, idleMs?: number): Scene {
  const virtual = new VirtualWorld()
  const wired = wire(virtual, undefined)
  const base = WatermarkStrategy.forMonotonousTimestamps<unknown>()
  const watermarker = new SourceWatermarker<unknown>(
    idleMs === undefined ? base : base.withIdleness(idleMs),
    info,
  )
  for (const id of ['s', 't']) watermarker.splitAdded(id)
  const alignment = new WatermarkAlignment()
  const other = alignment.join('other', settings)
  const own = new SourceAlignment(alignment.join('src', settings), watermarker, reader, virtual.world)
  const input = new SourceInput(reader, watermarker, wired.driver, virtual.world, () => undefined, own)
  void input.start()
  return { virtual, wired, input, other, watermarker }
}

const put = (reader: QueueReader, splitId: string, time: number) =>
  reader.queue.push({ splitId, vector: recordVector([time], [time]) })

/** Steps until the source has nothing to do, then lets one watermark interval pass. */
async function interval({ virtual, input }: Scene): Promise<void> {
  while ((await input.step()) === 'worked');
  await virtual.time.advance(200)
  await input.periodic()
}

describe('a source of an alignment group', () => {
  test('does not read splits that are ahead, until the others have caught up', async () => {
    const reader = new PausingReader()
    const made = scene(reader)
    made.other.report(0, false, made.virtual.time.now())
    put(reader, 's', 1_000)
    put(reader, 't', 50)
    await interval(made)
    expect([...reader.paused]).toEqual(['s'])
    expect(made.input.describe()).toMatch(/^s of the source are ahead of alignment group 'g'.*other/)
    made.other.report(950, false, made.virtual.time.now())
    put(reader, 't', 960)
    await interval(made)
    expect([...reader.paused]).toEqual([])
  })

  test('is not polled at all while its slowest split is ahead, if its reader cannot leave out splits', async () => {
    const reader = new QueueReader()
    const made = scene(reader)
    made.other.report(0, false, made.virtual.time.now())
    put(reader, 's', 1_000)
    put(reader, 't', 900)
    await interval(made)
    put(reader, 's', 1_001)
    expect(await made.input.step()).toBe('idle')
    expect(reader.queue).toHaveLength(1)
    made.other.report(850, false, made.virtual.time.now())
    await made.virtual.time.advance(200)
    await made.input.periodic()
    expect(await made.input.step()).toBe('worked')
  })

  test('a split that is not read on purpose does not turn idle', async () => {
    const reader = new PausingReader()
    const made = scene(reader, 1_000)
    made.other.report(0, false, made.virtual.time.now())
    put(reader, 's', 1_000)
    await interval(made)
    for (let i = 0; i < 10; i++) {
      put(reader, 't', 10 + i)
      await interval(made)
    }
    expect([...reader.paused]).toEqual(['s'])
    // If s had turned idle and come back, t alone would hold nothing back but s would have to catch up.
    expect(made.watermarker.current()).toEqual({ watermark: 18, idle: false })
    for (let i = 0; i < 10; i++) await interval(made)
    expect(made.watermarker.holdingBack()).toEqual(['s'])
    expect(made.watermarker.current()).toEqual({ watermark: 999, idle: false })
  })

  test('is waited for by nobody once it has ended', async () => {
    const reader = new PausingReader()
    const made = scene(reader)
    put(reader, 's', 10)
    put(reader, 't', 10)
    await interval(made)
    made.other.report(500, false, 10_000_000)
    expect(made.other.limit).toBe(109)
    reader.finished = true
    await made.input.step()
    made.other.report(500, false, 20_000_000)
    expect(made.other.limit).toBe(600)
  })
})

describe('time in which a source could not be polled', () => {
  test('is no silence of its splits: backpressure makes none idle', async () => {
    const reader = new QueueReader()
    const virtual = new VirtualWorld()
    const wired = wire(virtual, undefined, { capacity: 1 })
    const watermarker = new SourceWatermarker<unknown>(
      WatermarkStrategy.forMonotonousTimestamps<unknown>().withIdleness(1_000),
      info,
    )
    for (const id of ['s', 't']) watermarker.splitAdded(id)
    const input = new SourceInput(reader, watermarker, wired.driver, virtual.world, () => undefined)
    void input.start()
    put(reader, 's', 5)
    put(reader, 't', 3)
    const first = input.step()
    await virtual.time.advance(60_000)
    wired.taken()
    await first
    await virtual.time.advance(200)
    // t has been silent only since it could be polled.
    await input.periodic()
    expect(watermarker.holdingBack()).toContain('t')
    expect(watermarker.current().idle).toBe(false)
    await virtual.time.advance(2_000)
    await input.periodic()
    await input.periodic()
    expect(watermarker.holdingBack()).not.toContain('t')
  })
})
