/**
 * Several inputs, without Kafka. `union` merges streams of one type; `connect` gives two streams of different types to one operator, here
 * with a key on both sides, so that an order and its payment meet in one state whichever comes first.
 *
 *   node examples/union-and-connect.ts
 */
import {
  type Collector,
  KeyedCoProcessFunction,
  type RuntimeContext,
  StreamExecutionEnvironment,
  type ValueState,
  ValueStateDescriptor,
} from 'millrace'

interface Order {
  readonly orderId: number
  readonly user: string
  readonly amount: number
}

interface Payment {
  readonly orderId: number
  readonly paid: number
}

/** Keeps whatever came first until the other one is there. */
class MatchPayments extends KeyedCoProcessFunction<number, Order, Payment, string> {
  private order!: ValueState<Order>
  private payment!: ValueState<Payment>

  override open(context: RuntimeContext): void {
    this.order = context.getState(new ValueStateDescriptor<Order>('order'))
    this.payment = context.getState(new ValueStateDescriptor<Payment>('payment'))
  }

  override processElement1(order: Order, _context: this['Context'], out: Collector<string>): void {
    const payment = this.payment.value()
    if (payment === null) this.order.update(order)
    else {
      this.payment.clear()
      out.collect(settled(order, payment))
    }
  }

  override processElement2(payment: Payment, _context: this['Context'], out: Collector<string>): void {
    const order = this.order.value()
    if (order === null) this.payment.update(payment)
    else {
      this.order.clear()
      out.collect(settled(order, payment))
    }
  }
}

function settled(order: Order, payment: Payment): string {
  const open = order.amount - payment.paid
  return `order ${order.orderId} of ${order.user}: ${open === 0 ? 'paid' : `${open} open`}`
}

const env = StreamExecutionEnvironment.getExecutionEnvironment()

const shop = env.fromCollection<Order>([
  { orderId: 1, user: 'ann', amount: 20 },
  { orderId: 2, user: 'bob', amount: 35 },
])
const phone = env.fromCollection<Order>([{ orderId: 3, user: 'cem', amount: 50 }])
const payments = env.fromCollection<Payment>([
  { orderId: 3, paid: 50 },
  { orderId: 1, paid: 20 },
  { orderId: 2, paid: 30 },
])

shop
  .union(phone)
  .keyBy((order) => order.orderId)
  .connect(payments.keyBy((payment) => payment.orderId))
  .process(new MatchPayments())
  .uid('match')
  .print()

await env.execute('union-and-connect')
