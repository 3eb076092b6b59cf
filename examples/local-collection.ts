/**
 * A job without Kafka: counts words of a few lines and prints the running counts.
 *
 *   node examples/local-collection.ts
 */
import { StreamExecutionEnvironment } from 'millrace'

const env = StreamExecutionEnvironment.getExecutionEnvironment()

env
  .fromCollection(['to be or not to be', 'that is the question'])
  .flatMap((line) => line.split(' '))
  .map((word) => ({ word, count: 1 }))
  .keyBy(({ word }) => word)
  .sum('count')
  .uid('count')
  .map(({ word, count }) => `${word} ${count}`)
  .print()

await env.execute('word-count')
