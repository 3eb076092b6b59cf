/**
 * Copies a topic of Avro records to a topic of Protocol Buffers, with the registry of SCHEMA_REGISTRY_URL, which the job itself does not name.
 * IN, OUT, LETTERS: topics.
 */
import {
  avro,
  DeliveryGuarantee,
  deadLetter,
  kafkaSink,
  kafkaSource,
  OffsetsInitializer,
  protobuf,
  RestartStrategies,
  StreamExecutionEnvironment,
  WatermarkStrategy,
} from 'millrace'

interface Reading {
  readonly sensor: string
  readonly count: number | bigint
}

const { env: set } = process
const env = StreamExecutionEnvironment.getExecutionEnvironment()
env.enableCheckpointing(200)
env.setRestartStrategy(RestartStrategies.fixedDelay(20, 200))
env
  .fromSource(
    kafkaSource<Reading>({
      topics: [set['IN'] as string],
      startingOffsets: OffsetsInitializer.earliest(),
      value: avro(),
      onDeserializationError: set['LETTERS'] === undefined ? 'fail' : deadLetter(set['LETTERS']),
    }),
    WatermarkStrategy.noWatermarks(),
    'readings',
  )
  .uid('in')
  .sinkTo(
    kafkaSink<Reading>({
      topic: set['OUT'] as string,
      value: protobuf({
        schema: 'syntax = "proto3"; message Reading { string sensor = 1; int64 count = 2; }',
        register: true,
      }),
      deliveryGuarantee: DeliveryGuarantee.EXACTLY_ONCE,
    }),
  )
  .uid('out')
await env.execute(set['JOB_NAME'] as string)
