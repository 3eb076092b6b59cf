/**
 * Counts whole numbers by key, and with every record writes the key's new count; what else it does is set by variables.
 *
 * IN, OUT: topics. WINDOWS: a topic for the sums of one endless event-time window. INTERVAL: ms between checkpoints (0 = off). PARALLELISM.
 * SLOW: ms a record. STATE: state.backend. CHECKPOINTS, SAVEPOINTS: folders.
 * On SIGUSR2 it does what ON_SIGNAL says (savepoint or stop) and prints `SAVEPOINT <folder>`.
 */
import {
  type Collector,
  DeliveryGuarantee,
  json,
  KeyedProcessFunction,
  kafkaSink,
  kafkaSource,
  OffsetsInitializer,
  type RuntimeContext,
  StreamExecutionEnvironment,
  TumblingEventTimeWindows,
  type ValueState,
  ValueStateDescriptor,
  WatermarkStrategy,
} from 'millrace'

const { env: set } = process
const KEYS = 10

interface Count {
  readonly key: number
  readonly count: number
}

class CountPerKey extends KeyedProcessFunction<number, number, Count> {
  #count!: ValueState<number>
  override open(context: RuntimeContext): void {
    this.#count = context.getState(new ValueStateDescriptor<number>('count'))
  }
  override processElement(_value: number, context: this['Context'], out: Collector<Count>): void {
    const count = (this.#count.value() ?? 0) + 1
    this.#count.update(count)
    out.collect({ key: context.getCurrentKey(), count })
  }
}

async function slowly(value: number): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, Number(set['SLOW'])))
  return value
}

const env = StreamExecutionEnvironment.getExecutionEnvironment({
  'state.backend': set['STATE'] ?? 'jobmanager',
  'restart-strategy.type': 'none',
  ...(set['CHECKPOINTS'] === undefined ? {} : { 'state.checkpoints.dir': set['CHECKPOINTS'] }),
  ...(set['SAVEPOINTS'] === undefined ? {} : { 'state.savepoints.dir': set['SAVEPOINTS'] }),
  'state.backend.fs.memory-threshold': '0 kb',
})
const interval = Number(set['INTERVAL'] ?? 200)
if (interval > 0) env.enableCheckpointing(interval)
env.setParallelism(Number(set['PARALLELISM'] ?? 1))
const sink = <T>(topic: string) =>
  kafkaSink<T>({ topic, value: json(), deliveryGuarantee: DeliveryGuarantee.EXACTLY_ONCE })
let numbers = env
  .fromSource(
    kafkaSource<number>({
      topics: [set['IN'] as string],
      groupId: `${set['JOB_NAME']}-readers`,
      startingOffsets: OffsetsInitializer.earliest(),
      value: json(),
    }),
    WatermarkStrategy.forMonotonousTimestamps<number>().withTimestampAssigner((value) => value),
    'numbers',
  )
  .uid('in')
if (set['SLOW'] !== undefined) numbers = numbers.map(slowly).uid('slow')
numbers
  .keyBy((value) => value % KEYS)
  .process(new CountPerKey())
  .uid('count')
  .sinkTo(sink<Count>(set['OUT'] as string))
  .uid('out')
if (set['WINDOWS'] !== undefined)
  numbers
    .keyBy(() => 0)
    .window(TumblingEventTimeWindows.of(1e12))
    .reduce((a, b) => a + b)
    .uid('sum')
    .sinkTo(sink<number>(set['WINDOWS']))
    .uid('windows')
const client = await env.executeAsync(set['JOB_NAME'] as string)
process.on('SIGUSR2', () => {
  const made = set['ON_SIGNAL'] === 'savepoint' ? client.triggerSavepoint() : client.stopWithSavepoint()
  made.then(
    (path) => console.log(`SAVEPOINT ${path}`),
    (error: unknown) => console.log(`NO SAVEPOINT ${String(error)}`),
  )
})
await client.getJobExecutionResult()
