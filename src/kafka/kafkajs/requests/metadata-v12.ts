import type { RequestKind } from '../request.ts'

export interface MetadataTopic {
  readonly errorCode: number
  readonly topic: string
  readonly topicId: string
  readonly internal: boolean
  readonly partitions: readonly MetadataPartition[]
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
  encode(out, topics) {
    if (topics === null) out.uvarint(0)
    else out.compactArray(topics, (topic) => out.raw(NO_TOPIC_ID).compactString(topic).tags())
    out.bool(false).bool(false).tags()
  },
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
      body.int32()
      body.tags()
      return { errorCode, topic, topicId, internal, partitions }
    })
    return { brokers, clusterId, controllerId, topics }
  },
}
