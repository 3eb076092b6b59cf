import { expect, test } from '@jest/globals'
import { produceError } from '../../../src/kafka/produce-error.ts'

const identity = { transactionalId: 'millrace.job.sink.0.0', producerId: 9n, producerEpoch: 2 }

test.each<[number, string, boolean, string]>([
  [47, 'MILLRACE_TRANSACTION_FENCED', true, 'INVALID_PRODUCER_EPOCH'],
  [90, 'MILLRACE_TRANSACTION_FENCED', true, 'PRODUCER_FENCED'],
  [49, 'MILLRACE_TRANSACTION_FENCED', true, 'INVALID_PRODUCER_ID_MAPPING'],
  [45, 'MILLRACE_KAFKA_PROTOCOL', true, 'OUT_OF_ORDER_SEQUENCE_NUMBER'],
  [59, 'MILLRACE_KAFKA_PROTOCOL', true, 'UNKNOWN_PRODUCER_ID'],
  [48, 'MILLRACE_KAFKA_PROTOCOL', true, 'INVALID_TXN_STATE'],
  [29, 'MILLRACE_KAFKA_UNAUTHORIZED', false, 'TOPIC_AUTHORIZATION_FAILED'],
  [3, 'MILLRACE_TOPIC_MISSING', false, 'UNKNOWN_TOPIC_OR_PARTITION'],
  [10, 'MILLRACE_SERIALIZATION', false, 'MESSAGE_TOO_LARGE'],
  [18, 'MILLRACE_SERIALIZATION', false, 'RECORD_LIST_TOO_LARGE'],
  [87, 'MILLRACE_SERIALIZATION', false, 'INVALID_RECORD'],
  [1234, 'MILLRACE_KAFKA_PROTOCOL', false, 'error 1234'],
])(
  'broker error %d becomes %s, retriable: %p, and names place and cause',
  (errorCode, code, retriable, name) => {
    const error = produceError(
      { topic: 'out', partition: 4, errorCode, errorMessage: 'said the broker', baseOffset: -1n },
      777,
      identity,
    )
    expect(error).toMatchObject({
      code,
      retriable,
      details: { topic: 'out', partition: 4, brokerCode: errorCode, batchBytes: 777 },
    })
    expect(error.message).toContain(name)
    expect(error.message).toContain('out-4')
    expect(error.message).toContain('said the broker')
    if (code !== 'MILLRACE_SERIALIZATION')
      expect(error).toMatchObject({ brokerCode: errorCode, brokerError: name, api: 'Produce' })
  },
)
