/**
 * Exactly-once ETL: keeps the orders of at least 20, adds their amount in euros, writes them to `big-orders`.
 *
 *   KAFKA_BROKERS=localhost:9092 node examples/orders-etl.ts
 *
 * It runs until it is stopped: Ctrl-C takes a last checkpoint, commits its output and leaves; the next start goes on from there.
 */
import {
  DeliveryGuarantee,
  json,
  kafkaSink,
  kafkaSource,
  OffsetsInitializer,
  StreamExecutionEnvironment,
  WatermarkStrategy,
} from 'millrace'
import type { Order } from './order.ts'

const EUROS_PER_DOLLAR = 0.875

const env = StreamExecutionEnvironment.getExecutionEnvironment()
env.enableCheckpointing(1_000)

env
  .fromSource(
    kafkaSource<Order>({
      topics: ['orders'],
      groupId: 'orders-etl',
      startingOffsets: OffsetsInitializer.earliest(),
      value: json(),
    }),
    WatermarkStrategy.noWatermarks(),
    'orders',
  )
  .uid('orders')
  .filter((order) => order.amount >= 20)
  .map((order) => ({ ...order, euros: order.amount * EUROS_PER_DOLLAR }))
  .sinkTo(
    kafkaSink({
      topic: 'big-orders',
      key: (order) => order.user,
      value: json(),
      deliveryGuarantee: DeliveryGuarantee.EXACTLY_ONCE,
    }),
  )
  .uid('big-orders')

await env.execute('orders-etl')
