/**
 * The far end of a MemberLink: a group member that is told by messages and answers by messages. Production runs it on a thread of its
 * own, simulation in the same process.
 */
import type { World } from '../core/ports.ts'
import { GroupMember, type GroupMemberOptions } from './group-member.ts'
import type { FromMember, ToMember } from './group-messages.ts'
import type { KafkaCluster } from './kafka-cluster.ts'

/** Where a member's words go. */
export interface MemberAudience {
  send(message: FromMember): void
  /** Epoch ms of each successful heartbeat. */
  beat(at: number): void
  /** The member has left and its connection is closed: nothing more comes. */
  left(): void
}

/** Starts a member over `cluster`, which it closes when it leaves. Returns what takes messages to it. */
export function serveMember(
  cluster: KafkaCluster,
  world: World,
  options: GroupMemberOptions,
  audience: MemberAudience,
): (message: ToMember) => void {
  const member = new GroupMember(
    cluster,
    world,
    options,
    (event) => audience.send({ type: 'event', event }),
    (at) => audience.beat(at),
  )
  member.start()
  return (message) => {
    if (message.type === 'leave') {
      void member.leave().then(async () => {
        await cluster.close()
        audience.send({ type: 'left' })
        audience.left()
      })
      return
    }
    member.assertLeader().then(
      () => audience.send({ type: 'asserted', id: message.id, error: undefined }),
      (error: unknown) =>
        audience.send({
          type: 'asserted',
          id: message.id,
          error: error instanceof Error ? error.message : String(error),
        }),
    )
  }
}
