import { expect, test } from '@jest/globals'
import { TaskLoad } from '../../../src/runtime/task-load.ts'

function load() {
  const clock = { at: 0, now: () => clock.at }
  return { clock, load: new TaskLoad(clock) }
}

test('time is idle, backpressured, or busy', () => {
  const { clock, load: made } = load()
  made.begin('idle')
  clock.at = 200
  made.end()
  clock.at = 500
  made.begin('backpressured')
  clock.at = 1_000
  expect(made.waiting()).toEqual({ for: 'backpressured', ms: 500 })
  expect(made.rates()).toEqual({ idle: 200, backpressured: 500, busy: 300 })
  made.end()
  expect(made.waiting()).toBeUndefined()
})

test('rates are of the recent past, and asking twice changes nothing', () => {
  const { clock, load: made } = load()
  made.begin('idle')
  clock.at = 10_000
  made.rates()
  made.end()
  clock.at = 11_000
  made.rates()
  clock.at = 12_000
  expect(made.rates().busy).toBe(1_000)
  expect(made.rates().busy).toBe(1_000)
})

test('waiting for one thing ends waiting for another', () => {
  const { clock, load: made } = load()
  made.begin('idle')
  clock.at = 100
  made.begin('backpressured')
  clock.at = 200
  made.end()
  made.end()
  expect(made.rates()).toEqual({ idle: 500, backpressured: 500, busy: 0 })
})

test('waits for room until the last edge has some, and names who has none', () => {
  const { clock, load: made } = load()
  const first = made.beginRoom(() => ['count (1/2)'])
  const second = made.beginRoom(() => ['count (1/2)', 'sink'])
  expect(made.fullReceivers).toEqual(['count (1/2)', 'sink'])
  clock.at = 300
  second()
  expect(made.waiting()).toEqual({ for: 'backpressured', ms: 300 })
  clock.at = 500
  first()
  expect(made.waiting()).toBeUndefined()
  clock.at = 1_000
  expect(made.rates()).toEqual({ idle: 0, backpressured: 500, busy: 500 })
})
