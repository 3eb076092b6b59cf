/**
 * Copies a topic of whole numbers to another one; what else it does is set by variables, so that many cases share it.
 *
 * IN, OUT: topics. INTERVAL: milliseconds between checkpoints (0 = off). PARALLELISM. BOUNDED=yes: stops at the end as seen at the start.
 * POLICY: fail | skip | a topic for dead letters. TIMEOUT: transaction time-out in ms. DISCOVERY: ms between two looks for partitions.
 * PREFIX: transactionalIdPrefix of the sink. CHECKPOINT_TIMEOUT: ms. EXTRA=yes: one operator more, so that the graph is another.
 * BLOCK: ms for which the first record blocks the process. HANG: value at which the function never comes back. SLOW: ms a record.
 */
import {
  type DeadLetterPolicy,
  DeliveryGuarantee,
  deadLetter,
  json,
  kafkaSink,
  kafkaSource,
  OffsetsInitializer,
  RestartStrategies,
  StreamExecutionEnvironment,
  WatermarkStrategy,
} from 'millrace'

const { env: set } = process
const number = (name: string): number | undefined => (set[name] === undefined ? undefined : Number(set[name]))

function policy(): 'fail' | 'skip' | DeadLetterPolicy {
  const chosen = set['POLICY'] ?? 'fail'
  return chosen === 'fail' || chosen === 'skip' ? chosen : deadLetter(chosen)
}

let first = true
function block(): void {
  if (first) console.log('FIRST')
  const ms = first ? number('BLOCK') : undefined
  first = false
  if (ms === undefined) return
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
  console.log('UNBLOCKED')
}

async function numbered(value: number): Promise<number> {
  if (value === number('HANG')) {
    console.log('HANGING')
    await new Promise(() => undefined)
  }
  const slow = number('SLOW')
  if (slow !== undefined) await new Promise((resolve) => setTimeout(resolve, slow))
  return value
}

const env = StreamExecutionEnvironment.getExecutionEnvironment()
const interval = number('INTERVAL') ?? 200
if (interval > 0) env.enableCheckpointing(interval)
env.getCheckpointConfig().setCheckpointTimeout(number('CHECKPOINT_TIMEOUT') ?? 60_000)
env.setParallelism(number('PARALLELISM') ?? 1)
env.setRestartStrategy(RestartStrategies.fixedDelay(3, 200))
const discovery = number('DISCOVERY')
const timeout = number('TIMEOUT')
let numbers = env
  .fromSource(
    kafkaSource<number>({
      topics: [set['IN'] as string],
      groupId: `${set['JOB_NAME']}-readers`,
      startingOffsets: OffsetsInitializer.earliest(),
      value: json(),
      onDeserializationError: policy(),
      ...(set['BOUNDED'] === 'yes' ? { bounded: OffsetsInitializer.latest() } : {}),
      ...(discovery === undefined ? {} : { discoveryIntervalMs: discovery }),
    }),
    WatermarkStrategy.noWatermarks(),
    'numbers',
  )
  .uid('in')
  .map((value) => {
    block()
    return value
  })
if (set['HANG'] !== undefined || set['SLOW'] !== undefined) numbers = numbers.map(numbered)
if (set['EXTRA'] === 'yes') numbers = numbers.filter(() => true).name('another operator')
numbers
  .sinkTo(
    kafkaSink<number>({
      topic: set['OUT'] as string,
      value: json(),
      deliveryGuarantee: DeliveryGuarantee.EXACTLY_ONCE,
      ...(timeout === undefined ? {} : { transactionTimeoutMs: timeout }),
      ...(set['PREFIX'] === undefined ? {} : { transactionalIdPrefix: set['PREFIX'] }),
    }),
  )
  .uid('out')
const client = await env.executeAsync(set['JOB_NAME'] as string)
// A test ends the job with this signal the way a program does that holds the client.
process.once('SIGUSR2', () => void client.cancel())
await client.getJobExecutionResult()
