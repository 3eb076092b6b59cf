import type { RequestKind } from '../request.ts'
import type { RequestWriter } from '../request-writer.ts'

export interface MetadataTopic {
  readonly errorCode: number
  readonly topic: string
  readonly topicId: string
  readonly internal: boolean
  readonly partitions: readonly MetadataPartition[]
  /** Bit n is set if the principal may do operation n of Kafka's AclOperation; unless it was asked for, only the lowest bit of all. */
  readonly operations: number
}

export interface MetadataPartition {
  readonly errorCode: number
  readonly partition: number
  readonly leader: number
  readonly replicas: readonly number[]
  readonly isr: readonly number[]
}

export interface Metadata {
  readonly brokers: readonly { readonly nodeId: number; readonly host: string; readonly port: number }[]
  readonly clusterId: string
  readonly controllerId: number
  readonly topics: readonly MetadataTopic[]
}

const NO_TOPIC_ID = Buffer.alloc(16)

/** Metadata v12, the first version with topic ids for names. Null asks for all topics. Never creates a topic. */
export const metadataV12: RequestKind<readonly string[] | null, Metadata> = {
  api: 'Metadata',
  apiKey: 3,
  version: 12,
  flexible: true,
  encode: (out, topics) => encode(out, topics, false),
  decode(body) {
    body.int32()
    const brokers = body.compactArray(() => {
      const broker = { nodeId: body.int32(), host: body.compactString(), port: body.int32() }
      body.compactNullableString()
      body.tags()
      return broker
    })
    const clusterId = body.compactNullableString() ?? ''
    const controllerId = body.int32()
    const topics = body.compactArray(() => {
      const errorCode = body.int16()
      const topic = body.compactNullableString() ?? ''
      const topicId = body.uuid()
      const internal = body.bool()
      const partitions = body.compactArray(() => {
        const partition = { errorCode: body.int16(), partition: body.int32(), leader: body.int32() }
        body.int32()
        const replicas = body.compactArray(() => body.int32())
        const isr = body.compactArray(() => body.int32())
        body.compactArray(() => body.int32())
        body.tags()
        return { ...partition, replicas, isr }
      })
      const operations = body.int32()
      body.tags()
      return { errorCode, topic, topicId, internal, partitions, operations }
    })
    return { brokers, clusterId, controllerId, topics }
  },
}

/** The same, also asking what this principal may do with each topic. */
export const metadataWithOperationsV12: RequestKind<readonly string[] | null, Metadata> = {
  ...metadataV12,
  encode: (out, topics) => encode(out, topics, true),
}

function encode(out: RequestWriter, topics: readonly string[] | null, operations: boolean): void {
  if (topics === null) out.uvarint(0)
  else out.compactArray(topics, (topic) => out.raw(NO_TOPIC_ID).compactString(topic).tags())
  // Never create a topic.
  out.bool(false).bool(operations).tags()
}
