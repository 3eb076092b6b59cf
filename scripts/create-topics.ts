/**
 * `node scripts/create-topics.ts [--job NAME]… [--replication N] [--brokers HOST:PORT,…] [FILE…]`
 *
 * Creates the topics that the files in topics/ define, and leaves those alone that exist. Job topics (`job-topic:`) are made once for each --job.
 * Without files: all of topics/. Brokers come from --brokers or KAFKA_BROKERS. Exits 1 if an existing topic differs from its definition.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parseArgs } from 'node:util'
import { parse } from 'yaml'
import type { Logger } from '../src/core/ports.ts'
import type { NewTopic } from '../src/kafka/kafka-cluster.ts'
import { KafkajsCluster } from '../src/kafka/kafkajs/kafkajs-cluster.ts'
import { jobTopic } from '../src/kafka/transactional-id.ts'

const FOLDER = join(import.meta.dirname, '..', 'topics')

/** What a file in topics/ says. */
interface TopicDefinition {
  readonly topic?: string
  readonly 'job-topic'?: 'control' | 'checkpoints'
  readonly partitions: number
  readonly configs?: Readonly<Record<string, string | number>>
}

/** Reads one definition. @throws Error that names the file and what is wrong. */
function readDefinition(path: string): TopicDefinition {
  const definition = parse(readFileSync(path, 'utf8')) as TopicDefinition
  const known = ['topic', 'job-topic', 'partitions', 'configs']
  const unknown = Object.keys(definition).filter((key) => !known.includes(key))
  if (unknown.length > 0)
    throw new Error(`${path}: unknown ${unknown.join(', ')}; known are ${known.join(', ')}`)
  if ((definition.topic === undefined) === (definition['job-topic'] === undefined))
    throw new Error(`${path}: give either topic or job-topic`)
  if (!Number.isInteger(definition.partitions) || definition.partitions < 1)
    throw new Error(`${path}: partitions must be a whole number from 1`)
  return definition
}

/** The topics that a definition stands for. */
function topicsOf(
  definition: TopicDefinition,
  jobs: readonly string[],
  replicationFactor: number,
): NewTopic[] {
  const kind = definition['job-topic']
  const names = kind === undefined ? [definition.topic!] : jobs.map((job) => jobTopic(job, kind))
  const configs = Object.fromEntries(
    Object.entries(definition.configs ?? {}).map(([name, value]) => [name, String(value)]),
  )
  return names.map((topic) => ({ topic, partitions: definition.partitions, replicationFactor, configs }))
}

/** How existing topics differ from what is wanted; empty if they do not. */
async function differences(cluster: KafkajsCluster, wanted: readonly NewTopic[]): Promise<string[]> {
  const found: string[] = []
  const described = new Map(
    (await cluster.describeTopics(wanted.map(({ topic }) => topic))).map((d) => [d.topic, d]),
  )
  for (const { topic, partitions, configs = {} } of wanted) {
    const actual = described.get(topic)
    if (actual === undefined) {
      found.push(`${topic}: was not created`)
      continue
    }
    if (actual.partitions.length !== partitions)
      found.push(`${topic}: has ${actual.partitions.length} partitions, its definition ${partitions}`)
    const settings = await cluster.describeConfigs({ type: 'topic', name: topic }, Object.keys(configs))
    for (const { name, value } of settings)
      if (value !== configs[name])
        found.push(`${topic}: ${name} is ${value}, its definition says ${configs[name]}`)
  }
  return found
}

const quiet: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => quiet }

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    job: { type: 'string', multiple: true, default: [] },
    replication: { type: 'string', default: '-1' },
    brokers: { type: 'string' },
  },
})
const brokers = values.brokers ?? process.env['KAFKA_BROKERS']
if (brokers === undefined) throw new Error('name the brokers with --brokers or KAFKA_BROKERS')
const files =
  positionals.length > 0
    ? positionals
    : readdirSync(FOLDER)
        .filter((file) => file.endsWith('.yaml'))
        .sort()
        .map((file) => join(FOLDER, file))

const cluster = new KafkajsCluster({ brokers: brokers.split(','), clientId: 'millrace-create-topics' }, quiet)
try {
  await cluster.connect()
  const wanted = files.flatMap((file) => {
    const topics = topicsOf(readDefinition(file), values.job, Number(values.replication))
    if (topics.length === 0) console.log(`${basename(file)}: name a job with --job to create it`)
    return topics
  })
  const names = wanted.map(({ topic }) => topic)
  const before = new Set((await cluster.describeTopics(names)).map(({ topic }) => topic))
  await cluster.createTopics(wanted)
  for (const topic of names) console.log(`${topic}: ${before.has(topic) ? 'exists' : 'created'}`)
  const problems = await differences(cluster, wanted)
  for (const problem of problems) console.error(problem)
  if (problems.length > 0) process.exitCode = 1
} finally {
  await cluster.close()
}
