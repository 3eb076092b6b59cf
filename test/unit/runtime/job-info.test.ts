import { describe, expect, test } from '@jest/globals'
import { infoText } from '../../../src/cli/info.ts'
import type { JobInfo, TaskInfo } from '../../../src/core/job-info.ts'
import { findings, tasksInfo } from '../../../src/runtime/job-info.ts'

function task(name: string, change: Partial<TaskInfo> = {}): TaskInfo {
  return {
    id: name,
    name,
    load: { busy: 0, idle: 1_000, backpressured: 0 },
    state: 'waiting for records',
    watermarkHeldBackBy: [],
    alignment: undefined,
    operators: [],
    ...change,
  }
}

const load = (busy: number, backpressured: number) => ({
  load: { busy, backpressured, idle: 1_000 - busy - backpressured },
})

describe('findings', () => {
  test('a job that has nothing to wait for has none', () => {
    expect(findings([task('source', load(100, 0)), task('sink')], [])).toEqual([])
  })

  test('a checkpoint that takes long, with the subtasks that owe it', () => {
    const pending = { n: 7, phase: 'collecting', ms: 12_400, missing: ['count (2)', 'sink (1)'] }
    expect(findings([], [pending, { ...pending, n: 8, ms: 9_999 }])).toEqual([
      'checkpoint 7 has been under way for 12 s; it waits for count (2), sink (1)',
    ])
    expect(findings([], [{ ...pending, missing: [] }])).toEqual([
      'checkpoint 7 has been under way for 12 s; it waits for its commit point',
    ])
  })

  test('channels that a barrier blocks for long, and whose barrier is missing', () => {
    const alignment = {
      checkpoint: 7,
      missing: ['orders (2)'],
      blocked: [
        { from: 'orders (1)', ms: 4_200 },
        { from: 'clicks (1)', ms: 100 },
      ],
    }
    expect(findings([task('count (1)', { alignment })], [])).toEqual([
      'count (1): checkpoint 7 blocks orders (1), clicks (1) for 4 s, until the barrier comes from orders (2)',
    ])
    const soon = { ...alignment, blocked: [{ from: 'orders (1)', ms: 1_900 }] }
    expect(findings([task('count (1)', { alignment: soon })], [])).toEqual([])
  })

  test('backpressure names who is too slow behind those that wait', () => {
    const tasks = [
      task('source (1)', load(100, 800)),
      task('map (1)', load(50, 600)),
      task('slow (1)', load(980, 0)),
    ]
    expect(findings(tasks, [])).toEqual([
      'source (1), map (1) wait for room: slow (1) is busy 980 ms of every second',
    ])
    expect(findings([task('source (1)', load(100, 800))], [])).toEqual(['backpressure on source (1)'])
  })

  test('what holds event time back', () => {
    expect(findings([task('window (1)', { watermarkHeldBackBy: ['orders (1): orders-3'] })], [])).toEqual([
      'event time of window (1) waits for orders (1): orders-3',
    ])
  })
})

describe('a task', () => {
  const seen = (hasEventTime: boolean) =>
    tasksInfo([
      {
        id: 'a',
        name: 'a (1)',
        load: { rates: () => ({ busy: 1, idle: 2, backpressured: 3 }) },
        describe: () => 'waiting',
        watermarkHeldBackBy: () => ['in-0'],
        hasEventTime,
        alignment: () => undefined,
        describeOperators: () => [],
      } as never,
    ])[0]

  test('where no watermarks are made is not held back by anybody', () => {
    expect(seen(false)?.watermarkHeldBackBy).toEqual([])
    expect(seen(true)?.watermarkHeldBackBy).toEqual(['in-0'])
  })
})

describe('the page of millrace info', () => {
  const INFO: JobInfo = {
    job: 'totals',
    status: 'RUNNING',
    run: 'r1',
    attempt: 3,
    upMs: 3_723_000,
    workers: 2,
    restarts: 1,
    lastFailure: { at: 0, message: 'the broker went away' },
    lastCheckpoint: { n: 41, agoMs: 400 },
    pending: [{ n: 42, phase: 'collecting', ms: 1_500, missing: ['count (2)'] }],
    tasks: [
      task('count (2)', {
        state: 'checkpoint 42 waits for the barrier from orders (2)',
        alignment: { checkpoint: 42, missing: ['orders (2)'], blocked: [{ from: 'orders (1)', ms: 1_400 }] },
        operators: ["transaction 'millrace.totals.out.0.1' is open"],
      }),
    ],
    findings: ['something'],
  }

  test('shows state, attempt, checkpoints, and what each task waits for', () => {
    expect(infoText(INFO).split('\n')).toEqual([
      'totals: RUNNING, up 62 min',
      'run r1, attempt 3, 1 restart, 2 workers',
      'checkpoint 41 completed 0.4 s ago',
      'checkpoint 42 under way for 1.5 s (collecting): waits for count (2)',
      'last failure 1970-01-01T00:00:00.000Z: the broker went away',
      '',
      'TASK       BUSY ms/s  BACKPRESSURED  IDLE  WAITS FOR',
      "count (2)  0          0              1000  checkpoint 42 waits for the barrier from orders (2); orders (1) is blocked for 1.4 s; transaction 'millrace.totals.out.0.1' is open",
      '',
      'Look at:',
      '  something',
      '',
    ])
  })

  test('of a job that was just started says so', () => {
    const { tasks: _tasks, ...rest } = INFO
    const none = {
      run: '',
      attempt: undefined,
      upMs: undefined,
      lastFailure: undefined,
      lastCheckpoint: undefined,
    }
    const text = infoText({ ...rest, ...none, status: 'CREATED', pending: [], findings: [], tasks: [] })
    expect(text).toContain('totals: CREATED\nrun none, attempt none')
    expect(text).toContain('no checkpoint yet')
    expect(text).not.toContain('Look at')
  })
})
