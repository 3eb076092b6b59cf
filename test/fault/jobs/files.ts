/**
 * Copies whole numbers of the topic IN to files below OUT: JSON lines that live through a checkpoint or two, and Parquet, which does not.
 * PARALLELISM. Says FIRST with the first number.
 */
import {
  fileFormats,
  fileSink,
  json,
  kafkaSource,
  OffsetsInitializer,
  RestartStrategies,
  StreamExecutionEnvironment,
  WatermarkStrategy,
} from 'millrace'

const { env: set } = process
const out = set['OUT'] as string
const env = StreamExecutionEnvironment.getExecutionEnvironment()
env.enableCheckpointing(200)
env.setParallelism(Number(set['PARALLELISM'] ?? 1))
env.setRestartStrategy(RestartStrategies.fixedDelay(3, 200))
let first = true
const numbers = env
  .fromSource(
    kafkaSource<number>({
      topics: [set['IN'] as string],
      groupId: `${set['JOB_NAME']}-readers`,
      startingOffsets: OffsetsInitializer.earliest(),
      value: json(),
    }),
    WatermarkStrategy.noWatermarks(),
    'numbers',
  )
  .uid('in')
  .map((value) => {
    if (first) console.log('FIRST')
    first = false
    return value
  })
  .rebalance()
numbers
  .sinkTo(
    fileSink<number>({
      path: `${out}/lines`,
      format: fileFormats.jsonLines(),
      rolling: { maxAgeMs: 500, inactivityMs: 500 },
      bucket: (n) => `tens-${Math.floor(n / 10) % 3}`,
    }),
  )
  .uid('lines')
numbers
  .map((n) => ({ n }))
  .sinkTo(
    fileSink<{ n: number }>({
      path: `${out}/parquet`,
      format: fileFormats.parquet({ schema: { n: 'int32' } }),
    }),
  )
  .uid('parquet')
await env.execute(set['JOB_NAME'] as string)
