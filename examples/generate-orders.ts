/**
 * Writes 100,000 made-up orders to the topic `orders`, each of them once, and ends. The other examples read them.
 *
 *   KAFKA_BROKERS=localhost:9092 node examples/generate-orders.ts
 *
 * A second start finds the job finished and does nothing; `millrace run --fresh examples/generate-orders.ts` writes more.
 */
import { DeliveryGuarantee, json, kafkaSink, StreamExecutionEnvironment } from 'millrace'
import type { Order } from './order.ts'

const COUNTRIES = ['DE', 'FR', 'US', 'GB', 'ES', 'IT', 'PL', 'NL'] as const
const ORDERS = 100_000
/** One order a millisecond up to now. */
const FIRST_ORDER_AT = Date.now() - ORDERS

const env = StreamExecutionEnvironment.getExecutionEnvironment()
env.enableCheckpointing(1_000)

env
  .fromSequence(0, ORDERS - 1)
  .map(
    (orderId): Order => ({
      orderId,
      user: `u${(orderId * 7_919) % 1_000}`,
      amount: ((orderId * 104_729) % 400) / 4,
      country: COUNTRIES[orderId % COUNTRIES.length]!,
      ts: FIRST_ORDER_AT + orderId,
    }),
  )
  .sinkTo(
    kafkaSink<Order>({
      topic: 'orders',
      key: (order) => order.user,
      value: json(),
      deliveryGuarantee: DeliveryGuarantee.EXACTLY_ONCE,
    }),
  )
  .uid('orders')

await env.execute('generate-orders')
