import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { crc32c } from '@node-rs/crc32'
import { BATCH_HEADER_BYTES, encodePlainBatch } from '../../../src/testing/plain-batch.ts'
import { JobScene } from '../job-scene.ts'
import { exactly, numbers, sorted } from '../numbers.ts'

jest.setTimeout(120_000)

const COPY = 'integration/jobs/copy.ts'

/** The batch with its records compressed by gzip. */
function gzipped(plain: Buffer): Buffer {
  const batch = Buffer.concat([
    plain.subarray(0, BATCH_HEADER_BYTES),
    gzipSync(plain.subarray(BATCH_HEADER_BYTES)),
  ])
  batch.writeInt32BE(batch.length - 12, 8)
  batch.writeInt16BE(batch.readInt16BE(21) | 1, 21)
  batch.writeUInt32BE(crc32c(batch.subarray(21)), 17)
  return batch
}

function residentMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_024
}

describe('a job with slow user code', () => {
  let scene: JobScene

  beforeEach(async () => {
    scene = await JobScene.open()
  })
  afterEach(() => scene.close())

  test('that blocks the process for longer than the session time-out keeps the job, and its output is exact', async () => {
    const topics = { IN: await scene.topic('in', 1), OUT: await scene.topic('out', 1) }
    await scene.produce(topics.IN, 0, numbers(0, 100))
    const job = scene.start(COPY, { ...topics, BLOCK: '15000' })
    await job.said('FIRST')
    const standby = scene.start(COPY, topics)
    await standby.said('standing by')
    await job.said('UNBLOCKED')
    await scene.produce(topics.IN, 0, numbers(100, 200))
    const values = await scene.readUntil(topics.OUT, (all) => all.length >= 200)
    expect(sorted(values)).toEqual(exactly(0, 200))
    expect(job.running).toBe(true)
    expect(job.stderr).not.toMatch(/gives the job up|starts again/)
    expect(standby.stdout).not.toContain('FIRST')
  })

  // Memory of a process can be read where there is a /proc.
  const onLinux = process.platform === 'linux' ? test : test.skip
  onLinux('has flat memory, though all it reads unpacks to twenty times its size', async () => {
    const partitions = 20
    const topics = { IN: await scene.topic('in', partitions), OUT: await scene.topic('out', 1) }
    const value = JSON.stringify(Array.from({ length: 400 }, (_, i) => `word-${i % 12}`).join(' '))
    const batch = gzipped(encodePlainBatch({ records: Array.from({ length: 5_000 }, () => ({ value })) }))
    for (let partition = 0; partition < partitions; partition++)
      for (let i = 0; i < 4; i++) {
        const [answer] = await scene.cluster.produce({
          acks: -1,
          transactionalId: null,
          partitions: [{ topic: topics.IN, partition, batch }],
        })
        expect(answer?.errorCode).toBe(0)
      }
    const job = scene.start(COPY, { ...topics, SLOW: '2' })
    await job.said('FIRST')
    const samples: number[] = []
    const began = Date.now()
    while (Date.now() - began < 16_000) {
      samples.push(residentMb(job.pid))
      await sleep(250)
    }
    const half = samples.length >> 1
    const early = Math.max(...samples.slice(0, half))
    const late = Math.max(...samples.slice(half))
    console.log(
      `resident: at most ${early.toFixed(0)} MB in the first 8 s, ${late.toFixed(0)} MB in the next 8 s`,
    )
    expect(late).toBeLessThan(Math.max(early * 1.3, 300))
    expect(late).toBeLessThan(400)
    expect(job.running).toBe(true)
  })
})
