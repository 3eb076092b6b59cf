/** A world on virtual time whose log and metrics can be read: for tests of the runtime without Kafka. */
import type { World } from '../../../src/core/ports.ts'
import { SeededRandom } from '../../../src/testing/seeded-random.ts'
import { VirtualTime } from '../../../src/testing/virtual-time.ts'
import { type LogLine, RecordingMetrics, recordingLogger } from '../kafka/simulated-scene.ts'

export class VirtualWorld {
  readonly time = new VirtualTime()
  readonly lines: LogLine[] = []
  readonly metrics = new RecordingMetrics()
  readonly world: World = {
    clock: this.time,
    timers: this.time,
    random: new SeededRandom(3),
    logger: recordingLogger(this.lines),
    metrics: this.metrics,
  }

  run<T>(promise: Promise<T> | T, maxMs = 600_000): Promise<T> {
    return this.time.settle(Promise.resolve(promise), { maxMs })
  }

  /** The error that the promise rejects with. */
  async failure(promise: Promise<unknown>): Promise<any> {
    let rejected: { error: unknown } | undefined
    await this.run(
      promise.then(
        () => undefined,
        (error: unknown) => {
          rejected = { error }
        },
      ),
    )
    if (rejected === undefined) throw new Error('it did not fail')
    return rejected.error
  }

  warnings(): string[] {
    return this.lines.filter(({ level }) => level === 'warn').map(({ message }) => message)
  }
}
