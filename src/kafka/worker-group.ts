/**
 * Leadership by a Kafka group (protocol §2.11 and §2.13): Kafka does membership, failure detection and the choice of the leader; the record thread only
 * hears what changed. A rebalance never stops tasks by itself: whoever leads goes on leading through it.
 *
 *   Starting ──joined as leader──► Leading ──joined as follower, lost──► (onLost) ──► Following ──joined as leader──► Leading
 *      └──joined as follower──► Following (hot standby)
 */
import type { Leadership } from '../checkpoint/leadership.ts'
import { deadline } from '../core/deadline.ts'
import type { World } from '../core/ports.ts'
import { ERROR_CODES, type ErrorCode, MillraceError } from '../errors.ts'
import type { GroupEvent, GroupMemberOptions } from './group-member.ts'
import type { FromMember, MemberLink } from './group-messages.ts'

/** Codes cross the thread as text. */
function codeOf(code: string): ErrorCode {
  return code in ERROR_CODES ? (code as ErrorCode) : 'MILLRACE_INTERNAL'
}

/** How long leaving may take; the session time-out does it otherwise. */
const LEAVE_MS = 1_500

export class WorkerGroup implements Leadership {
  onLost: ((reason: string) => void) | undefined
  readonly #link: MemberLink
  readonly #options: GroupMemberOptions
  readonly #world: World
  #workers = 1
  #leader = false
  #failure: MillraceError | undefined
  #waiters: { resolve: () => void; reject: (error: unknown) => void }[] = []
  #said = ''
  #nextId = 0
  readonly #asserting = new Map<number, (error: string | undefined) => void>()
  #left: (() => void) | undefined
  #closed = false

  constructor(link: MemberLink, options: GroupMemberOptions, world: World) {
    this.#link = link
    this.#options = options
    this.#world = world
    link.onMessage = (message) => this.#message(message)
  }

  get workers(): number {
    return this.#workers
  }

  /** Milliseconds since the last successful heartbeat: beyond the session time-out this worker must not write any more. */
  silentFor(): number {
    return this.#world.clock.now() - this.#link.lastBeat()
  }

  async lead(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure
    if (this.#leader) return
    await new Promise<void>((resolve, reject) => this.#waiters.push({ resolve, reject }))
  }

  async assertLeader(): Promise<void> {
    const id = this.#nextId++
    const over = this.#closed ? 'this worker has left' : this.#failure?.message
    const error =
      over ??
      (await new Promise<string | undefined>((resolve) => {
        this.#asserting.set(id, resolve)
        this.#link.send({ type: 'assert-leader', id })
      }))
    if (error !== undefined)
      throw new MillraceError('MILLRACE_ATTEMPT_LOST', `this worker does not lead the job: ${error}`)
  }

  async leave(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    const left = new Promise<void>((resolve) => {
      this.#left = resolve
    })
    this.#link.send({ type: 'leave' })
    const wait = deadline(this.#world.timers, LEAVE_MS)
    await Promise.race([left, wait.expired])
    wait.cancel()
    this.#link.terminate()
    this.#settleAsserting('this worker has left')
  }

  #settleAsserting(error: string): void {
    for (const settle of this.#asserting.values()) settle(error)
    this.#asserting.clear()
  }

  #message(message: FromMember): void {
    switch (message.type) {
      case 'event':
        this.#event(message.event)
        return
      case 'asserted':
        this.#asserting.get(message.id)?.(message.error)
        this.#asserting.delete(message.id)
        return
      case 'log':
        this.#world.logger[message.level](message.message, message.fields)
        return
      case 'left':
        this.#left?.()
        return
    }
  }

  #event(event: GroupEvent): void {
    if (this.#closed) return
    const { logger } = this.#world
    const { groupId, fingerprint } = this.#options
    switch (event.type) {
      case 'joined': {
        const { leader, workers, generation } = event.membership
        this.#workers = workers
        logger.debug(`joined worker group ${groupId}`, { generation, leader, workers })
        if (leader) this.#becomeLeader()
        else {
          this.#say('another worker leads this job: standing by')
          this.#lose('another worker was chosen to lead')
        }
        return
      }
      case 'lost':
        this.#lose(event.reason)
        return
      case 'waiting':
        this.#say(
          `waiting: workers with another graph of this job are in the group (theirs ${event.runningFingerprint}, this one ${fingerprint}); a dead one leaves within ${this.#options.sessionTimeoutMs} ms`,
        )
        return
      case 'conflict':
        this.#fail(
          new MillraceError(
            'MILLRACE_JOB_CONFLICT',
            `a job with another graph runs under this name: its fingerprint is ${event.runningFingerprint}, this one's is ${fingerprint}`,
            { details: { running: event.runningFingerprint, own: fingerprint } },
          ),
        )
        return
      case 'failed':
        this.#fail(
          new MillraceError(
            codeOf(event.code),
            `membership in worker group ${groupId} failed: ${event.message}`,
          ),
        )
        return
    }
  }

  #becomeLeader(): void {
    if (this.#leader) return
    this.#leader = true
    this.#said = ''
    for (const waiter of this.#waiters.splice(0)) waiter.resolve()
  }

  #lose(reason: string): void {
    if (!this.#leader) return
    this.#leader = false
    this.onLost?.(reason)
  }

  #fail(error: MillraceError): void {
    this.#failure = error
    for (const waiter of this.#waiters.splice(0)) waiter.reject(error)
    this.#settleAsserting(error.message)
    this.#lose(error.message)
  }

  #say(message: string): void {
    if (this.#said === message) return
    this.#said = message
    this.#world.logger.info(message)
  }
}
