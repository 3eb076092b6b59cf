/** Starts the membership thread and speaks with it. */
import { Worker } from 'node:worker_threads'
import type { GroupMemberOptions } from '../group-member.ts'
import type { FromMember, MemberLink } from '../group-messages.ts'
import type { KafkaConnectionConfig } from '../kafka-cluster.ts'
import type { GroupThreadData } from './group-thread.ts'
import { threadFlags } from './thread-flags.ts'

/** Starts the membership thread. */
export function startGroupThread(connection: KafkaConnectionConfig, member: GroupMemberOptions): MemberLink {
  const lastBeat = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT)
  const data: GroupThreadData = { connection, member, lastBeat }
  // The same file whether it runs from source (.ts) or from the built package (.js).
  const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js'
  const worker = new Worker(new URL(`./group-thread${extension}`, import.meta.url), {
    workerData: data,
    execArgv: threadFlags(process.execArgv),
  })
  const beats = new Float64Array(lastBeat)
  const link: MemberLink = {
    send: (message) => worker.postMessage(message),
    onMessage: undefined,
    lastBeat: () => beats[0] as number,
    terminate: () => void worker.terminate(),
  }
  worker.on('message', (message: FromMember) => link.onMessage?.(message))
  worker.on('error', (error) =>
    link.onMessage?.({
      type: 'event',
      event: {
        type: 'failed',
        message: `the membership thread died: ${error.message}`,
        code: 'MILLRACE_INTERNAL',
      },
    }),
  )
  return link
}
