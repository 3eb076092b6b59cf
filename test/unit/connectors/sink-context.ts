/** Contexts of sources and sinks for tests without a runtime. */
import type { CommitPermit, SinkWriterContext, SourceReaderContext } from '../../../src/core/connector.ts'
import { NO_TIMESTAMP, recordVector } from '../../../src/core/element.ts'
import type { Counter, World } from '../../../src/core/ports.ts'

let uuids = 0
const world = { random: { next: () => 0.5, uuid: () => `uuid-${++uuids}` } } as unknown as World

export function countingCounter(): Counter {
  let count = 0
  return {
    inc: (by = 1) => {
      count += by
    },
    get count() {
      return count
    },
  }
}

interface Settings {
  readonly attempt?: number
  readonly subtaskIndex?: number
  readonly parallelism?: number
  readonly checkpointingEnabled?: boolean
  readonly uid?: string
}

const info = ({ attempt = 1, subtaskIndex = 0, parallelism = 1, uid = 'out' }: Settings) => ({
  jobName: 'job',
  operatorName: 'out',
  uid,
  subtaskIndex,
  parallelism,
  attempt,
})

export function sinkContext(settings: Settings = {}): SinkWriterContext {
  return {
    info: info(settings),
    world,
    recordsOut: countingCounter(),
    checkpointingEnabled: settings.checkpointingEnabled ?? true,
    restoredCheckpointId: undefined,
  } as unknown as SinkWriterContext
}

export function readerContext(vectorSize: number): SourceReaderContext {
  return { info: info({}), world, vectorSize, recordsIn: countingCounter() }
}

export const vector = <T>(...values: T[]) =>
  recordVector(values, new Array<number>(values.length).fill(NO_TIMESTAMP))

export const permit = (checkpointId: number) => ({ checkpointId }) as CommitPermit
