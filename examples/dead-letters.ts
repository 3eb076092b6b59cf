/**
 * Records that cannot be decoded go to `orders-dead-letters`, with headers that say where they came from and what was wrong with them;
 * they are committed with the checkpoint like all other output. The good ones are printed.
 *
 *   KAFKA_BROKERS=localhost:9092 node examples/dead-letters.ts
 */
import {
  deadLetter,
  type KafkaRecord,
  kafkaSource,
  OffsetsInitializer,
  StreamExecutionEnvironment,
  WatermarkStrategy,
} from 'millrace'
import type { Order } from './order.ts'

/** Decodes an order and checks it; what it throws is what the dead letter says. */
function decodeOrder(record: KafkaRecord): Order {
  const order = JSON.parse(Buffer.from(record.value ?? []).toString('utf8'))
  if (typeof order.user !== 'string') throw new TypeError('an order needs a user')
  if (!Number.isFinite(order.amount)) throw new TypeError('an order needs an amount')
  return order
}

const env = StreamExecutionEnvironment.getExecutionEnvironment()
env.enableCheckpointing(1_000)

env
  .fromSource(
    kafkaSource<Order>({
      topics: ['orders'],
      groupId: 'dead-letters',
      // Stops at the end of the topic as it is at the first start.
      bounded: OffsetsInitializer.latest(),
      deserializer: decodeOrder,
      onDeserializationError: deadLetter('orders-dead-letters'),
    }),
    WatermarkStrategy.noWatermarks(),
    'orders',
  )
  .uid('orders')
  .map(({ orderId, user, amount }) => `order ${orderId}: ${user} pays ${amount}`)
  .print()

await env.execute('dead-letters')
