import { inspect } from 'node:util'
import { describe, expect, test } from '@jest/globals'
import {
  IllegalTransitionError,
  isMillraceError,
  JobFailedError,
  KafkaError,
  MillraceError,
} from '../../src/errors.ts'

describe('MillraceError', () => {
  test('takes fault, retriable and remedy from the table of codes', () => {
    const error = new MillraceError('MILLRACE_TOPIC_MISSING', "Topic 'orders' does not exist")
    expect(error).toMatchObject({ code: 'MILLRACE_TOPIC_MISSING', fault: 'user', retriable: false })
    expect(error.remedy).toMatch(/Create the topic/)
  })

  test('lets the place that throws it overrule the table, and keeps cause and details', () => {
    const cause = new Error('socket closed')
    const error = new MillraceError('MILLRACE_TOPIC_MISSING', 'gone', {
      cause,
      retriable: true,
      fault: 'external',
      remedy: 'Wait.',
      details: { topic: 'orders' },
    })
    expect(error).toMatchObject({ retriable: true, fault: 'external', remedy: 'Wait.', cause })
    expect(error.details).toEqual({ topic: 'orders' })
  })

  test('is named after its class, so that a log line says which one it is', () => {
    const error = new KafkaError('MILLRACE_KAFKA_PROTOCOL', 'refused', {
      brokerCode: 47,
      brokerError: 'INVALID_PRODUCER_EPOCH',
      api: 'EndTxn',
    })
    expect(error.name).toBe('KafkaError')
    expect(error).toMatchObject({ brokerCode: 47, brokerError: 'INVALID_PRODUCER_EPOCH', api: 'EndTxn' })
  })

  test('an illegal transition names machine, state, event and checkpoint', () => {
    expect(new IllegalTransitionError('coordinator', 'Completing', 'abort', 7).message).toBe(
      "coordinator: 'abort' is not legal in state Completing (checkpoint 7)",
    )
    expect(new IllegalTransitionError('coordinator', 'Idle', 'abort').message).not.toMatch(/checkpoint/)
  })
})

describe('JobFailedError', () => {
  const cause = new TypeError('x is undefined')
  const error = new JobFailedError('MILLRACE_JOB_FAILED', "job 'etl' FAILED", { cause })

  test('is short as Node.js prints what nobody catches, and keeps all that a program reads', () => {
    expect(inspect(error, { customInspect: false }).split('\n')).toEqual([
      "[JobFailedError: job 'etl' FAILED] {",
      "  code: 'MILLRACE_JOB_FAILED',",
      '  [cause]: [Getter]',
      '}',
    ])
    expect(error.cause).toBe(cause)
    expect(error.remedy).not.toBe('')
    expect(error.details).toEqual({})
  })

  test('shows its causes to whoever prints it', () => {
    expect(inspect(error)).toContain(
      "JobFailedError: job 'etl' FAILED [MILLRACE_JOB_FAILED] caused by TypeError: x is undefined\n    at ",
    )
    expect(inspect(new JobFailedError('MILLRACE_JOB_FAILED', 'x'))).toBe(
      'JobFailedError: x [MILLRACE_JOB_FAILED]',
    )
  })
})

describe('isMillraceError', () => {
  test('knows an error of another copy of the package by its code', () => {
    expect(isMillraceError(Object.assign(new Error('x'), { code: 'MILLRACE_INTERNAL' }))).toBe(true)
  })

  test('refuses other errors and other values', () => {
    for (const other of [
      new Error('x'),
      Object.assign(new Error('x'), { code: 'ENOENT' }),
      null,
      'MILLRACE_X',
      7,
    ])
      expect(isMillraceError(other)).toBe(false)
  })
})
