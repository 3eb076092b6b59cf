/**
 * Files from a stream: JSON lines in a folder for each day, and CSV for a spreadsheet, both exactly once.
 *
 *   OUT=/tmp/out node examples/file-sink.ts
 *
 * The input is bounded, so everything is visible when the job has finished; an endless job shows files as they are full or old enough.
 */
import {
  dateTimeBucket,
  fileFormats,
  fileSink,
  StreamExecutionEnvironment,
  WatermarkStrategy,
} from 'millrace'

interface Order {
  readonly user: string
  readonly amount: number
  readonly at: number
}

const DAY_MS = 86_400_000
const out = process.env['OUT'] ?? 'out'
const start = Date.UTC(2026, 0, 1)

const env = StreamExecutionEnvironment.getExecutionEnvironment()
env.enableCheckpointing(500)
const orders = env
  .fromSequence(1, 1_000)
  .map((n): Order => ({ user: `user ${n % 10}`, amount: n / 100, at: start + (n % 3) * DAY_MS }))
  .assignTimestampsAndWatermarks(
    WatermarkStrategy.forBoundedOutOfOrderness<Order>(3 * DAY_MS).withTimestampAssigner((order) => order.at),
  )

orders
  .sinkTo(
    fileSink<Order>({
      path: `${out}/orders`,
      format: fileFormats.jsonLines(),
      compression: 'gzip',
      bucket: dateTimeBucket({ pattern: 'yyyy-MM-dd', zone: 'Europe/Berlin' }),
      rolling: { maxBytes: 64 * 1024 * 1024, maxAgeMs: 60_000 },
    }),
  )
  .uid('orders')
orders
  .filter((order) => order.amount > 9)
  .uid('large')
  .sinkTo(
    fileSink<Order>({
      path: `${out}/large`,
      prefix: 'large',
      format: fileFormats.csv({
        columns: [
          'user',
          'amount',
          { name: 'day', value: (order) => new Date(order.at).toISOString().slice(0, 10) },
        ],
      }),
    }),
  )
  .uid('large-orders')
await env.execute('files')
