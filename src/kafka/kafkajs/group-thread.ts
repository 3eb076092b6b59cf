/**
 * Entry of the membership thread: a group member with a connection of its own, so that a record thread that is busy for a minute keeps
 * its place in the group. Talks to worker-group.ts by messages.
 */
import { isMainThread, parentPort, workerData } from 'node:worker_threads'
import type { LogFields, Logger, MetricGroup, World } from '../../core/ports.ts'
import type { GroupMemberOptions } from '../group-member.ts'
import type { FromMember } from '../group-messages.ts'
import type { KafkaConnectionConfig } from '../kafka-cluster.ts'
import { serveMember } from '../member-service.ts'
import { KafkajsCluster } from './kafkajs-cluster.ts'

/** What the thread is started with. */
export interface GroupThreadData {
  readonly connection: KafkaConnectionConfig
  readonly member: GroupMemberOptions
  /** Float64Array of one: epoch ms of the last heartbeat, read by the record thread. */
  readonly lastBeat: SharedArrayBuffer
}

function main(port: NonNullable<typeof parentPort>, data: GroupThreadData): void {
  const send = (message: FromMember): void => port.postMessage(message)
  const log =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (message: string, fields?: LogFields): void => {
      const plain =
        fields === undefined
          ? undefined
          : Object.fromEntries(
              Object.entries(fields).map(([key, value]) => [
                key,
                value instanceof Error ? value.message : value,
              ]),
            )
      send({ type: 'log', level, message, fields: plain })
    }
  const logger: Logger = {
    debug: log('debug'),
    info: log('info'),
    warn: log('warn'),
    error: log('error'),
    child: () => logger,
  }
  const beats = new Float64Array(data.lastBeat)
  const world: World = {
    clock: { now: () => Date.now() },
    timers: {
      schedule: (delayMs, action) => {
        const timer = setTimeout(action, delayMs)
        return { cancel: () => clearTimeout(timer) }
      },
      turn: () => new Promise((resolve) => setImmediate(resolve)),
      sleep: (delayMs) => new Promise((resolve) => setTimeout(resolve, delayMs)),
    },
    random: { next: Math.random, uuid: () => crypto.randomUUID() },
    logger,
    metrics: NO_METRICS,
  }
  const cluster = new KafkajsCluster(data.connection, logger)
  port.on(
    'message',
    serveMember(cluster, world, data.member, {
      send,
      beat: (at) => {
        beats[0] = at
      },
      left: () => port.close(),
    }),
  )
}

/** The thread has no metrics of its own. */
const NO_METRICS: MetricGroup = {
  counter: () => ({ inc: () => undefined, count: 0 }),
  gauge: () => undefined,
  histogram: () => ({ record: () => undefined }),
  group: () => NO_METRICS,
}

if (!isMainThread && parentPort !== null) main(parentPort, workerData as GroupThreadData)
