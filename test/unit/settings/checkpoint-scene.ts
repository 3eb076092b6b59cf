/** A job on virtual time that copies records exactly once, whose checkpoints can be watched and held up. */
import {
  json,
  kafkaSink,
  kafkaSource,
  OffsetsInitializer,
  type Sink,
  type StreamExecutionEnvironment,
  WatermarkStrategy,
} from 'millrace'
import { TestDriver, type TestDriverOptions } from 'millrace/testing'

/** When the sources were told to take checkpoint `n`, in ms since the job runs. */
export interface Trigger {
  readonly n: number
  readonly at: number
}

export class CheckpointScene {
  readonly triggers: Trigger[] = []
  /** How long the next flushes of the slow sink take, in ms; none: no time. */
  readonly holds: number[] = []
  /** What the slow sink has written, each record once for each time. */
  readonly slow: number[] = []
  #driver: TestDriver | undefined
  #startedAt = 0

  /** Copies `in` to `out`. `configure` makes the settings as a job's code does. The slow sink is a task of its own: it holds up none of the others. */
  static async start(
    configure: (env: StreamExecutionEnvironment) => void,
    options: TestDriverOptions = {},
  ): Promise<CheckpointScene> {
    const scene = new CheckpointScene()
    const build = (env: StreamExecutionEnvironment): void => {
      configure(env)
      const numbers = env
        .fromSource(
          kafkaSource<number>({
            topics: ['in'],
            groupId: 'g',
            startingOffsets: OffsetsInitializer.earliest(),
            value: json(),
          }),
          WatermarkStrategy.noWatermarks(),
          'in',
        )
        .uid('in')
      numbers.sinkTo(scene.#watching()).uid('watch')
      numbers.sinkTo(kafkaSink<number>({ topic: 'out', value: json() })).uid('out')
      numbers
        .map((n) => n)
        .uid('behind')
        .startNewChain()
        .sinkTo(scene.#holding())
        .uid('slow')
    }
    scene.#driver = await TestDriver.start(build, { topics: { in: 1, out: 1 }, ...options })
    scene.#startedAt = scene.#driver.now()
    return scene
  }

  get driver(): TestDriver {
    return this.#driver!
  }

  /** Milliseconds since the job ran first. */
  elapsed(): number {
    return this.driver.now() - this.#startedAt
  }

  /** Restarts after failures, by what the job logged, and the wait before each in ms. */
  restarts(): number[] {
    return this.driver.logs.flatMap(({ message }) => {
      const delay = /starts again in (\d+) ms/.exec(message)?.[1]
      return delay === undefined ? [] : [Number(delay)]
    })
  }

  /** Numbers that readers of `out` see. */
  async output(): Promise<number[]> {
    return (await this.driver.committed<number>('out')).toSorted((a, b) => a - b)
  }

  /** Beside the source in its chain: the barrier comes here when the checkpoint is triggered. */
  #watching(): Sink<number> {
    return {
      kind: 'watch',
      describe: () => ({}),
      createWriter: ({ world }) => ({
        write: () => undefined,
        flush: () => undefined,
        snapshotState: (n) => {
          this.triggers.push({ n, at: world.clock.now() - this.#startedAt })
          return []
        },
        close: () => undefined,
      }),
    }
  }

  #holding(): Sink<number> {
    return {
      kind: 'hold',
      describe: () => ({}),
      createWriter: ({ world }) => ({
        write: ({ values }) => void this.slow.push(...(values as number[])),
        flush: () => world.timers.sleep(this.holds.shift() ?? 0),
        close: () => undefined,
      }),
    }
  }
}

/** Records with the numbers 1 to `count`. */
export function numbers(count: number): { value: number }[] {
  return Array.from({ length: count }, (_, i) => ({ value: i + 1 }))
}
