/** A job's module as production loads it: it makes its environment and executes it. */
import { json, kafkaSink, kafkaSource, OffsetsInitializer, StreamExecutionEnvironment } from 'millrace'

const env = StreamExecutionEnvironment.getExecutionEnvironment()
env.enableCheckpointing(1_000)
env
  .fromSource(
    kafkaSource<{ n: number }>({
      topics: ['numbers'],
      groupId: 'doubling',
      startingOffsets: OffsetsInitializer.earliest(),
      value: json(),
    }),
  )
  .uid('read')
  .map(({ n }) => ({ n: 2 * n }))
  .uid('double')
  .sinkTo(kafkaSink({ topic: 'doubles', value: json() }))
  .uid('write')
await env.execute('doubling')
