import { beforeEach, describe, expect, test } from '@jest/globals'
import type { Logger, TimerHandle, Timers } from '../../../src/core/ports.ts'
import { type ProgressSnapshot, progressText, showProgress } from '../../../src/runtime/progress.ts'
import { StatusLine } from '../../../src/runtime/status-line.ts'

/** A clock and timers that move when told; all that progress needs of time. */
class HandTime {
  at = 1_000_000
  #entries: { at: number; action: () => void }[] = []

  readonly clock = { now: () => this.at }
  readonly timers = {
    schedule: (delayMs: number, action: () => void): TimerHandle => {
      const entry = { at: this.at + delayMs, action }
      this.#entries.push(entry)
      return {
        cancel: () => {
          this.#entries = this.#entries.filter((other) => other !== entry)
        },
      }
    },
  } as unknown as Timers

  get pending(): number {
    return this.#entries.length
  }

  advance(milliseconds: number): void {
    const end = this.at + milliseconds
    for (;;) {
      const next = this.#entries.filter((entry) => entry.at <= end).sort((a, b) => a.at - b.at)[0]
      if (next === undefined) break
      this.#entries = this.#entries.filter((entry) => entry !== next)
      this.at = next.at
      next.action()
    }
    this.at = end
  }
}

let time: HandTime
let snapshot: ProgressSnapshot
let logged: string[]
let drawn: string[]

beforeEach(() => {
  time = new HandTime()
  snapshot = { state: 'RUNNING', recordsIn: 0, lag: undefined, checkpoint: undefined }
  logged = []
  drawn = []
})

function start(isTTY: boolean): { stop(): void } {
  const screen = new StatusLine({
    isTTY,
    columns: 120,
    write: (text) => void drawn.push(text.replace('\r\u001b[2K', '')),
  })
  const logger = { info: (message: string) => void logged.push(message) } as unknown as Logger
  return showProgress({ read: () => snapshot, screen, logger, clock: time.clock, timers: time.timers })
}

describe('on a terminal', () => {
  test('a line is drawn each second with the rate of that second', () => {
    start(true)
    snapshot = { ...snapshot, recordsIn: 12_345, lag: 9_000n }
    time.advance(1_000)
    snapshot = {
      ...snapshot,
      recordsIn: 12_355,
      lag: 0n,
      checkpoint: { id: 7, completedAt: time.at - 1_500 },
    }
    time.advance(1_000)
    expect(drawn).toEqual([
      'RUNNING  12,345 records/s  lag 9,000  no checkpoint yet',
      'RUNNING  10 records/s  lag 0  checkpoint 7, 3 s ago',
    ])
    expect(logged).toEqual([])
  })

  test('records of a restarted attempt, which counts from zero, are not negative', () => {
    start(true)
    snapshot = { ...snapshot, recordsIn: 500 }
    time.advance(1_000)
    snapshot = { ...snapshot, state: 'RESTARTING', recordsIn: 20 }
    time.advance(1_000)
    expect(drawn.at(-1)).toBe('RESTARTING  20 records/s  no checkpoint yet')
  })

  test('stopping takes the line away and leaves no timer', () => {
    const progress = start(true)
    time.advance(1_000)
    progress.stop()
    expect(drawn.at(-1)).toBe('')
    expect(time.pending).toBe(0)
  })
})

describe('elsewhere', () => {
  test('a log line comes twice a minute, with the rate over that time', () => {
    start(false)
    time.advance(29_999)
    expect(logged).toEqual([])
    snapshot = { ...snapshot, recordsIn: 3_000 }
    time.advance(1)
    time.advance(30_000)
    expect(logged).toEqual([
      'RUNNING  100 records/s  no checkpoint yet',
      'RUNNING  0 records/s  no checkpoint yet',
    ])
    expect(drawn).toEqual([])
  })
})

test.each([
  [0, '0 s'],
  [-5, '0 s'],
  [119_000, '119 s'],
  [121_000, '2 min'],
  [7_199_000, '119 min'],
  [7_200_000, '2 h'],
])('%d ms ago is told as %s', (milliseconds, text) => {
  const now = 10_000_000
  const checkpoint = { id: 1, completedAt: now - milliseconds }
  expect(progressText({ ...snapshot, checkpoint }, 0, now)).toContain(`checkpoint 1, ${text} ago`)
})
