/**
 * The membership thread of a worker without a thread: served over a connection and timers of its own, so that it can die or stand still
 * apart from the record thread. The two speak by messages that come later, in order.
 */
import type { Timers, World } from '../core/ports.ts'
import type { GroupMemberOptions } from '../kafka/group-member.ts'
import type { FromMember, MemberLink, ToMember } from '../kafka/group-messages.ts'
import { serveMember } from '../kafka/member-service.ts'
import type { ProcessTimers } from './process-timers.ts'
import type { SimulatedClient } from './simulated-client.ts'

/** What a membership is made of. */
export interface SimulatedMembershipOptions {
  readonly client: SimulatedClient
  readonly timers: ProcessTimers
  /** Of the record thread: messages to it come as one of its timers. */
  readonly recordTimers: Timers
  /** Of the membership thread, but for its timers. */
  readonly world: World
  readonly member: GroupMemberOptions
}

/** Joins the worker group. */
export function simulatedMembership(options: SimulatedMembershipOptions): MemberLink {
  const { client, timers, recordTimers, world, member } = options
  let lastBeat = 0
  const toRecords = mailbox<FromMember>(recordTimers, (message) => link.onMessage?.(message))
  const serve = serveMember(client, { ...world, timers }, member, {
    send: toRecords,
    beat: (at) => {
      lastBeat = at
    },
    left: () => undefined,
  })
  const link: MemberLink = {
    send: mailbox<ToMember>(timers, serve),
    onMessage: undefined,
    lastBeat: () => lastBeat,
    terminate: () => {
      timers.cut()
      client.kill()
    },
  }
  return link
}

/** Messages to another thread: delivered later, in order. */
function mailbox<T>(timers: Timers, deliver: (message: T) => void): (message: T) => void {
  const waiting: T[] = []
  return (message) => {
    waiting.push(message)
    timers.schedule(0, () => deliver(waiting.shift()!))
  }
}
