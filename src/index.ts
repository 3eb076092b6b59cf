/**
 * The public API. A job module imports from here only. Importing it starts nothing and loads no Kafka client: execution is loaded by the
 * first `execute`.
 */
import { registerBuiltInConnectors } from './api/built-in-connectors.ts'
import { registerJobExecutor } from './api/job-executor.ts'
import { collectingSink } from './connectors/collect-sink.ts'
import { collectionSource, sequenceSource } from './connectors/collection-source.ts'
import { printSink } from './connectors/print-sink.ts'

registerBuiltInConnectors({ collectionSource, sequenceSource, printSink, collectingSink })
registerJobExecutor(async () => {
  const { createJobExecutor } = await import('./runtime/deployment.ts')
  return createJobExecutor()
})

// Jobs: streams, settings, execution.
export { BroadcastStream } from './api/broadcast-stream.ts'
export { CheckpointConfig } from './api/checkpoint-config.ts'
export {
  AllWindowedStream,
  BroadcastConnectedStream,
  ConnectedStreams,
  DataStream,
  DataStreamSource,
  KeyedBroadcastConnectedStream,
  KeyedConnectedStreams,
  KeyedStream,
  type OperatorStream,
  SingleOutputStreamOperator,
  WindowedStream,
} from './api/data-stream.ts'
export { DataStreamSink } from './api/data-stream-sink.ts'
export { type StateBackendName, StreamExecutionEnvironment } from './api/environment.ts'
export type { IntervalJoin, IntervalJoined } from './api/interval-join.ts'
export type { JobClient, JobExecutionResult } from './api/job-client.ts'
export type {
  CoGroupedKeys,
  CoGroupedStreams,
  JoinedKeys,
  JoinedStreams,
  JoinKey,
  WindowedCoGroup,
  WindowedJoin,
} from './api/joined-streams.ts'
export type { OpenStream, StreamOf } from './api/open-stream.ts'
export { reinterpretAsKeyedStream } from './api/reinterpreted-stream.ts'
export { type ExponentialDelayOptions, RestartStrategies } from './api/restart-strategies.ts'
export type { ConfigValue } from './api/settings.ts'
export type { WindowReduce } from './api/window-specs.ts'
// Connectors and serdes.
export { type CollectSink, collectSink } from './connectors/collect-sink.ts'
export {
  type BucketContext,
  type BucketFunction,
  type DateTimeBucketOptions,
  dateTimeBucket,
} from './connectors/file-buckets.ts'
export type { CsvColumn, CsvOptions } from './connectors/file-csv.ts'
export type { FileEncoder, FileFormat } from './connectors/file-format.ts'
export type { JsonLinesOptions } from './connectors/file-json-lines.ts'
export type { ParquetColumn, ParquetOptions } from './connectors/file-parquet.ts'
export type { ParquetType } from './connectors/file-parquet-types.ts'
export {
  FileSink,
  type FileSinkOptions,
  fileFormats,
  fileSink,
  type RollingPolicy,
} from './connectors/file-sink.ts'
export { type PrintSinkOptions, printSink } from './connectors/print-sink.ts'
export type {
  CommitPermit,
  Committer,
  CommitterContext,
  GroupOffset,
  Serde,
  SerdeContext,
  Sink,
  SinkWriter,
  SinkWriterContext,
  Source,
  SourceContext,
  SourceReader,
  SourceReaderContext,
  SourceSplit,
  SplitEnumerator,
  SplitRecords,
  SubtaskInfo,
  TwoPhaseCommittingSink,
  TwoPhaseSinkWriter,
} from './core/connector.ts'
export {
  CheckpointingMode,
  DeliveryGuarantee,
  ExternalizedCheckpointCleanup,
  JobStatus,
} from './core/constants.ts'
export { type RecordVector, recordVector } from './core/element.ts'
// Functions.
export {
  AbstractRichFunction,
  type BroadcastContext,
  type BroadcastOnTimerContext,
  BroadcastProcessFunction,
  type Collector,
  CoProcessFunction,
  type FilterFunction,
  type FlatMapFunction,
  type FunctionInitializationContext,
  type FunctionSnapshotContext,
  type KeyedBroadcastContext,
  KeyedBroadcastProcessFunction,
  type KeyedContext,
  KeyedCoProcessFunction,
  KeyedProcessFunction,
  type KeyedTimerService,
  type KeySelector,
  type MapFunction,
  type OnTimerContext,
  type ProcessContext,
  ProcessFunction,
  type ReadOnlyBroadcastContext,
  type ReadOnlyBroadcastProcessContext,
  type RichFunction,
  type RuntimeContext,
} from './core/functions.ts'
export type {
  AsyncContext,
  AsyncMapFunction,
  AsyncMapOptions,
  AsyncRetry,
} from './core/operators/async-settings.ts'
export type { CoFlatMapFunction, CoMapFunction } from './core/operators/co-process.ts'
export {
  type ProcessJoin,
  type ProcessJoinContext,
  ProcessJoinFunction,
} from './core/operators/join-context.ts'
export { OutputTag } from './core/output-tag.ts'
export type { RestartStrategyConfig } from './core/restart-strategy-config.ts'
// State.
export {
  type AggregateFunction,
  type AggregatingState,
  AggregatingStateDescriptor,
  type AsyncMapState,
  AsyncMapStateDescriptor,
  type BroadcastState,
  type Key,
  type ListState,
  ListStateDescriptor,
  type MapState,
  MapStateDescriptor,
  type OperatorStateStore,
  type ReadOnlyBroadcastState,
  type ReduceFunction,
  type ReducingState,
  ReducingStateDescriptor,
  type StateOf,
  StateTtlConfig,
  type ValueState,
  ValueStateDescriptor,
} from './core/state.ts'
// Event time.
export {
  type TimestampAssigner,
  type WatermarkGenerator,
  type WatermarkOutput,
  WatermarkStrategy,
} from './core/time/watermarks.ts'
// Windows.
export {
  GlobalWindows,
  SlidingEventTimeWindows,
  SlidingProcessingTimeWindows,
  TumblingEventTimeWindows,
  TumblingProcessingTimeWindows,
} from './core/windows/assigners.ts'
export {
  CalendarEventTimeWindows,
  type CalendarOptions,
  type CalendarUnit,
  type WeekDay,
} from './core/windows/calendar-assigner.ts'
export {
  CountEvictor,
  DeltaEvictor,
  Evictor,
  type EvictorContext,
  type EvictorOptions,
  TimeEvictor,
  type TimestampedValue,
} from './core/windows/evictors.ts'
export type {
  CoGroupFunction,
  FlatJoinFunction,
  JoinFunction,
  TaggedElement,
} from './core/windows/joined-windows.ts'
export { ProcessingTimeoutTrigger } from './core/windows/processing-timeout-trigger.ts'
export {
  EventTimeSessionWindows,
  ProcessingTimeSessionWindows,
  type SessionGap,
} from './core/windows/session-assigners.ts'
export { GlobalWindow, TimeWindow, type Window } from './core/windows/time-window.ts'
export { type OnMergeContext, Trigger, type TriggerContext, TriggerResult } from './core/windows/trigger.ts'
export {
  ContinuousEventTimeTrigger,
  ContinuousProcessingTimeTrigger,
  CountTrigger,
  type DeltaFunction,
  DeltaTrigger,
  EventTimeTrigger,
  NeverTrigger,
  ProcessingTimeTrigger,
  PurgingTrigger,
} from './core/windows/triggers.ts'
export { WindowAssigner, type WindowAssignerContext } from './core/windows/window-assigner.ts'
export {
  type AllWindowFunction,
  type ProcessAllWindow,
  ProcessAllWindowFunction,
  type ProcessWindow,
  type ProcessWindowContext,
  ProcessWindowFunction,
  type WindowFunction,
} from './core/windows/window-function.ts'
// Errors.
export {
  ConfigError,
  CorruptBatchError,
  DataLossError,
  DeserializationError,
  ERROR_CODES,
  type ErrorCode,
  type ErrorDetails,
  type Fault,
  GraphError,
  IllegalTransitionError,
  isMillraceError,
  JobFailedError,
  KafkaError,
  MillraceError,
  SerializationError,
  StateLostError,
  StateValueError,
  UserFunctionError,
} from './errors.ts'
// Kafka.
export {
  type DeadLetterPolicy,
  type DeserializationPolicy,
  deadLetter,
  type KafkaRecord,
} from './kafka/deserialization.ts'
export { KafkaSink, kafkaSink } from './kafka/kafka-sink.ts'
export type { KafkaSinkOptions, SinkKey } from './kafka/kafka-sink-options.ts'
export {
  type DeserializerKafkaSourceOptions,
  KafkaSource,
  type KafkaSourceOptions,
  kafkaSource,
  type NullableKafkaSourceOptions,
} from './kafka/kafka-source.ts'
export type { DataLossPolicy } from './kafka/kafka-source-reader.ts'
export { type OffsetMap, OffsetsInitializer } from './kafka/offsets.ts'
export type { SchemaReference } from './serdes/registry-api.ts'
export {
  type AvroOptions,
  avro,
  type JsonSchemaOptions,
  jsonSchema,
  type ProtobufOptions,
  protobuf,
  type SchemaRegistryOptions,
} from './serdes/schema-registry.ts'
export { bytes, float64, integer, json, long, string } from './serdes/serdes.ts'
