/**
 * From one SQLite table to another one, with a source and a sink of one's own: reads `orders` row by row, writes the total of each user.
 *
 *   DATABASE=/tmp/orders.db node examples/sqlite-source-and-sink.ts
 *
 * The database is made and filled if it is not there. Without Kafka the job's checkpoints live in this process; with a Kafka source or sink in the
 * job, the same connectors go on after a crash where they were.
 */
import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { StreamExecutionEnvironment } from 'millrace'
import { sqliteSink } from './sqlite-sink.ts'
import { sqliteSource } from './sqlite-source.ts'

interface Order {
  readonly id: number
  readonly user: string
  readonly amount: number
}

const file = process.env['DATABASE'] ?? 'orders.db'
if (!existsSync(file)) {
  const database = new DatabaseSync(file)
  database.exec(`
    CREATE TABLE orders (id INTEGER PRIMARY KEY, user TEXT, amount REAL);
    CREATE TABLE totals (user TEXT, amount REAL);
  `)
  const insert = database.prepare('INSERT INTO orders (user, amount) VALUES (?, ?)')
  for (let i = 0; i < 1_000; i++) insert.run(['ann', 'bob', 'cleo'][i % 3] as string, i)
  database.close()
}

const env = StreamExecutionEnvironment.getExecutionEnvironment()
env.enableCheckpointing(200)
env
  .fromSource(sqliteSource<Order>({ file, table: 'orders', id: 'id' }))
  .uid('orders')
  .keyBy((order) => order.user)
  .sum('amount')
  .uid('sum')
  .sinkTo(sqliteSink<Order>({ file, table: 'totals', row: ({ user, amount }) => ({ user, amount }) }))
  .uid('totals')
await env.execute('sqlite-totals')
