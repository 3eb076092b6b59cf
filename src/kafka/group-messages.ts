/** What the record thread and the membership thread say to each other. */
import type { LogFields } from '../core/ports.ts'
import type { GroupEvent } from './group-member.ts'

/** To the member. */
export type ToMember = { readonly type: 'assert-leader'; readonly id: number } | { readonly type: 'leave' }

/** From the member. */
export type FromMember =
  | { readonly type: 'event'; readonly event: GroupEvent }
  | { readonly type: 'asserted'; readonly id: number; readonly error: string | undefined }
  | {
      readonly type: 'log'
      readonly level: 'debug' | 'info' | 'warn' | 'error'
      readonly message: string
      readonly fields: LogFields | undefined
    }
  | { readonly type: 'left' }

/** A member that the record thread can talk to: a thread, or in simulation a plain object. */
export interface MemberLink {
  send(message: ToMember): void
  onMessage: ((message: FromMember) => void) | undefined
  /** Epoch ms of the last heartbeat. */
  lastBeat(): number
  terminate(): void
}
