/** How long a topic keeps what a job writes to it: Kafka goes by the records' own time, so old event times are removed at once. */
import type { KafkaCluster } from './kafka-cluster.ts'
import { knownSettings } from './known-settings.ts'

/** Records younger than this are not asked about: no sensible topic removes them. */
const UNSUSPICIOUS_MS = 3_600_000

/** Milliseconds for which the topic keeps a record, by the time that its writer gave it; undefined = not limited by that, or not known. */
export async function retentionByRecordTime(
  cluster: Pick<KafkaCluster, 'describeConfigs'>,
  topic: string,
): Promise<number | undefined> {
  const settings = await knownSettings(cluster, { type: 'topic', name: topic }, [
    'cleanup.policy',
    'message.timestamp.type',
    'retention.ms',
  ])
  const retention = Number(settings.get('retention.ms') ?? Number.NaN)
  const byTime = settings.get('cleanup.policy')?.split(',').includes('delete') ?? false
  return byTime && settings.get('message.timestamp.type') !== 'LogAppendTime' && retention >= 0
    ? retention
    : undefined
}

/** Warns, once a topic, when a sink writes records that are too old to stay there. */
export class RetentionWatch {
  readonly #cluster: Pick<KafkaCluster, 'describeConfigs'>
  readonly #warn: (message: string) => void
  /** Age in ms above which a record of the topic deserves a look. */
  readonly #suspicious = new Map<string, number>()

  constructor(cluster: Pick<KafkaCluster, 'describeConfigs'>, warn: (message: string) => void) {
    this.#cluster = cluster
    this.#warn = warn
  }

  /** Says that a record with this time (epoch ms) was written. */
  saw(topic: string, timestamp: number, now: number): void {
    if (now - timestamp > (this.#suspicious.get(topic) ?? UNSUSPICIOUS_MS))
      void this.#look(topic, timestamp, now)
  }

  async #look(topic: string, timestamp: number, now: number): Promise<void> {
    this.#suspicious.set(topic, Number.POSITIVE_INFINITY)
    let retention: number | undefined
    try {
      retention = await retentionByRecordTime(this.#cluster, topic)
    } catch {
      // A look at what cannot be reached now is taken with a later record.
      this.#suspicious.delete(topic)
      return
    }
    if (retention === undefined) return
    if (now - timestamp <= retention) {
      this.#suspicious.set(topic, retention)
      return
    }
    this.#warn(
      `records of ${timeOf(timestamp)} are written to topic ${topic}, which keeps records for retention.ms=${retention} by their own time: the brokers remove them soon. Raise retention.ms of the topic, or give the sink timestamp: () => Date.now()`,
    )
  }
}

function timeOf(timestamp: number): string {
  const date = new Date(timestamp)
  return Number.isNaN(date.getTime()) ? `time ${timestamp}` : date.toISOString()
}
