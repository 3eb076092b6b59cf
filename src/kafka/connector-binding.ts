/** The Kafka sources and sinks of one job graph, and what must hold between them and the job. */
import type { JobGraph } from '../core/graph/job-graph.ts'
import type { JobSettings } from '../core/job-settings.ts'
import type { Logger } from '../core/ports.ts'
import { ConfigError } from '../errors.ts'
import { KafkaBound, type KafkaEnvironment } from './kafka-environment.ts'
import { KafkaSink } from './kafka-sink.ts'
import { transactionalIdPrefix } from './transactional-id.ts'
import type { TransactionalSink } from './transactions.ts'

/** A Kafka sink in its place in the graph. */
export interface BoundSink {
  readonly name: string
  readonly uid: string
  readonly parallelism: number
  readonly sink: KafkaSink<any>
}

/** True if a source or sink of the graph is Kafka's: then the job needs brokers. */
export function usesKafka(graph: JobGraph): boolean {
  return graph.vertices.some((vertex) => vertex.operators.some(({ node }) => boundOf(node) !== undefined))
}

function boundOf(node: { kind: string; source?: unknown; sink?: unknown }): KafkaBound | undefined {
  const connector = node.kind === 'source' ? node.source : node.kind === 'sink' ? node.sink : undefined
  return connector instanceof KafkaBound ? connector : undefined
}

/**
 * Hands the environment to every Kafka source and sink, before any of them creates anything. `bounded`: every source of the job ends.
 * @throws ConfigError for a source in the workers' own group: its commits and the workers' membership would be in one group.
 */
export function bindConnectors(
  graph: JobGraph,
  environment: KafkaEnvironment,
  workerGroup: string,
): { readonly sinks: readonly BoundSink[]; readonly bounded: boolean } {
  const sinks: BoundSink[] = []
  let bounded = true
  for (const vertex of graph.vertices)
    for (const { node, name, uid } of vertex.operators) {
      boundOf(node)?.bind(environment)
      if (node.kind === 'source') {
        bounded &&= node.source.bounded
        if (node.source.describe()['groupId'] === workerGroup)
          throw new ConfigError(
            'MILLRACE_INVALID_OPTION',
            `source '${name}': groupId ${workerGroup} is the group of the job's own workers; choose another one`,
          )
      }
      if (node.kind === 'sink' && node.sink instanceof KafkaSink)
        sinks.push({ name, uid, parallelism: vertex.parallelism, sink: node.sink })
    }
  return { sinks, bounded }
}

/** The sinks that write in transactions, with the names of their ids. */
export function transactionalSinks(jobName: string, sinks: readonly BoundSink[]): TransactionalSink[] {
  return sinks
    .filter(({ sink }) => sink.exactlyOnce)
    .map(({ uid, parallelism, sink }) => ({
      uid,
      prefix: transactionalIdPrefix(jobName, uid, sink.options.transactionalIdPrefix),
      parallelism,
      transactionTimeoutMs: sink.transactionTimeoutMs,
    }))
}

/** Says what a transactional sink cannot keep under these settings, or keeps in a way that may surprise. */
export function warnAboutGuarantees(
  sinks: readonly BoundSink[],
  settings: JobSettings,
  logger: Logger,
): void {
  for (const { name, sink } of sinks) {
    if (!sink.exactlyOnce) continue
    if (settings.checkpointing.intervalMs === undefined)
      logger.warn(
        `sink '${name}' is EXACTLY_ONCE and checkpointing is off: its output becomes visible at the end of the job, in one piece`,
      )
    else if (settings.checkpointing.mode === 'AT_LEAST_ONCE')
      logger.warn(
        `sink '${name}' is transactional, but the checkpointing mode is AT_LEAST_ONCE: records around a barrier may be repeated after a failure`,
      )
  }
}
