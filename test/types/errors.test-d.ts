import {
  type ERROR_CODES,
  type ErrorCode,
  type Fault,
  type IllegalTransitionError,
  isMillraceError,
  KafkaError,
  MillraceError,
} from '../../src/errors.ts'
import { assertType, type Equal } from './assert-type.ts'

// A code is one of the closed list, so that a switch over codes can be complete.
assertType<Equal<ErrorCode, keyof typeof ERROR_CODES>>()
assertType<Equal<MillraceError['code'], ErrorCode>>()
assertType<Equal<Fault, 'user' | 'external' | 'internal'>>()
new MillraceError('MILLRACE_TOPIC_MISSING', 'no such topic')
// @ts-expect-error a code that is not in the list
new MillraceError('MILLRACE_TOPIC_MISING', 'no such topic')

// The guard narrows what a catch clause gives.
declare const thrown: unknown
if (isMillraceError(thrown)) {
  assertType<Equal<typeof thrown, MillraceError>>()
  assertType<Equal<typeof thrown.retriable, boolean>>()
}
// @ts-expect-error not narrowed
thrown.code

// Facts of an error are read-only.
const error = new KafkaError('MILLRACE_KAFKA_PROTOCOL', 'refused', {
  brokerCode: 47,
  brokerError: 'INVALID_PRODUCER_EPOCH',
  api: 'EndTxn',
})
assertType<Equal<typeof error.brokerCode, number>>()
// @ts-expect-error read-only
error.brokerCode = 48
// @ts-expect-error a KafkaError always has the broker's code
new KafkaError('MILLRACE_KAFKA_PROTOCOL', 'refused', { brokerError: 'X', api: 'EndTxn' })
assertType<Equal<IllegalTransitionError['code'], ErrorCode>>()
