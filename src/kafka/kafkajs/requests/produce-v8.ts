import type { ProducedPartition, ProducePartition } from '../../kafka-cluster.ts'
import { byTopic, type RequestKind } from '../request.ts'

export interface ProduceInput {
  readonly acks: -1 | 1
  readonly transactionalId: string | null
  readonly timeoutMs: number
  readonly partitions: readonly ProducePartition[]
}

/** Produce v8: the first version with error messages, the last one that is not flexible. Batches are sent as they are. */
export const produceV8: RequestKind<
  ProduceInput,
  { readonly throttleMs: number; readonly partitions: readonly ProducedPartition[] }
> = {
  api: 'Produce',
  apiKey: 0,
  version: 8,
  flexible: false,
  encode(out, { acks, transactionalId, timeoutMs, partitions }) {
    out.nullableString(transactionalId).int16(acks).int32(timeoutMs)
    out.array(byTopic(partitions), ([topic, parts]) =>
      out.string(topic).array(parts, ({ partition, batch }) => out.int32(partition).bytes(batch)),
    )
  },
  decode(body) {
    const partitions: ProducedPartition[] = []
    body.array(() => {
      const topic = body.string()
      body.array(() => {
        const partition = body.int32()
        const errorCode = body.int16()
        const baseOffset = body.int64()
        body.int64()
        body.int64()
        body.array(() => {
          body.int32()
          body.nullableString()
        })
        partitions.push({ topic, partition, errorCode, baseOffset, errorMessage: body.nullableString() })
      })
    })
    return { throttleMs: body.int32(), partitions }
  },
}
