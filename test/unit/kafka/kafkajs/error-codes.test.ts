import { describe, expect, test } from '@jest/globals'
import {
  brokerError,
  errorName,
  isLeaderMoved,
  isTransient,
  unreachable,
} from '../../../../src/kafka/kafkajs/error-codes.ts'

describe('error codes', () => {
  test('have the names of the protocol guide, those of newer brokers a number', () => {
    expect([errorName(0), errorName(-1), errorName(51), errorName(90), errorName(120)]).toEqual([
      'NONE',
      'UNKNOWN_SERVER_ERROR',
      'CONCURRENT_TRANSACTIONS',
      'PRODUCER_FENCED',
      'TRANSACTION_ABORTABLE',
    ])
    expect(errorName(9_999)).toBe('UNKNOWN_ERROR_9999')
  })

  test('of fenced or lost transactions are never repeated', () => {
    for (const code of [45, 46, 47, 48, 49, 50, 59, 90]) expect(isTransient(code)).toBe(false)
  })

  test('of a moved leader are repeated and make metadata stale', () => {
    for (const code of [5, 6]) expect([isTransient(code), isLeaderMoved(code)]).toEqual([true, true])
  })
})

describe('errors', () => {
  test('of a missing permission name the resource and the kind of ACL', () => {
    const error = brokerError('Produce', 29, "topic 'orders'")
    expect(error).toMatchObject({
      code: 'MILLRACE_KAFKA_UNAUTHORIZED',
      brokerCode: 29,
      brokerError: 'TOPIC_AUTHORIZATION_FAILED',
      api: 'Produce',
      retriable: false,
    })
    expect(error.message).toContain("topic 'orders'")
    for (const code of [30, 31, 53, 58])
      expect(brokerError('X', code, 'r').code).toBe('MILLRACE_KAFKA_UNAUTHORIZED')
  })

  test('of other codes name request, code and name, and say whether trying again helps', () => {
    expect(brokerError('EndTxn', 48, "transactional id 'a'", 'because')).toMatchObject({
      code: 'MILLRACE_KAFKA_PROTOCOL',
      message: "EndTxn failed with INVALID_TXN_STATE (48) for transactional id 'a': because",
      retriable: false,
    })
    expect(brokerError('EndTxn', 51, 'x').retriable).toBe(true)
  })

  test('of silence name the brokers that were tried', () => {
    expect(unreachable('Metadata', ['a:1', 'b:2'], new Error('refused'))).toMatchObject({
      code: 'MILLRACE_KAFKA_UNREACHABLE',
      message: 'Metadata: no answer from Kafka (tried a:1, b:2): refused',
      brokerCode: -1,
      retriable: true,
    })
  })
})
