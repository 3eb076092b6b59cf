/**
 * A job whose state outgrows the largest file that its process may write, and shrinks again before its end. Run under `ulimit -f`.
 * Prints how it ended, how many checkpoints failed, and what of half-written files is left.
 */
import { readdirSync } from 'node:fs'
import {
  type Collector,
  KeyedProcessFunction,
  type RuntimeContext,
  StreamExecutionEnvironment,
  type ValueState,
  ValueStateDescriptor,
} from 'millrace'

const folder = process.env['CHECKPOINTS'] as string
const KEYS = 200
const GROWING = 2_000
const RECORDS = 4_000

class Hoard extends KeyedProcessFunction<number, number, number> {
  #hoard!: ValueState<string>
  override open(context: RuntimeContext): void {
    this.#hoard = context.getState(new ValueStateDescriptor<string>('hoard'))
  }
  override processElement(value: number, _context: this['Context'], out: Collector<number>): void {
    if (value <= GROWING) this.#hoard.update('x'.repeat(1_000))
    else this.#hoard.clear()
    out.collect(value)
  }
}

let failed = 0
const write = process.stderr.write.bind(process.stderr)
process.stderr.write = ((text: string) => {
  if (String(text).includes('could not store its snapshot')) failed++
  return write(text)
}) as typeof process.stderr.write

const env = StreamExecutionEnvironment.getExecutionEnvironment({
  'state.backend': 'filesystem',
  'state.checkpoints.dir': folder,
  'execution.checkpointing.tolerable-failed-checkpoints': 1_000_000,
})
env.enableCheckpointing(10)
env
  .fromSequence(1, RECORDS)
  .setParallelism(1)
  .keyBy((value) => value % KEYS)
  .process(new Hoard())
  .uid('hoard')
  .setParallelism(1)
  .sinkTo({
    kind: 'slow',
    describe: () => ({}),
    createWriter: () => ({
      write: () => new Promise<void>((resolve) => setTimeout(resolve, 20)),
      flush: () => undefined,
      close: () => undefined,
    }),
  })
const result = await env.execute('full-disk')
const left = readdirSync(folder, { recursive: true }).map(String)
console.log(
  JSON.stringify({
    status: result.getJobStatus(),
    failed,
    temporary: left.filter((name) => name.endsWith('.tmp')),
  }),
)
