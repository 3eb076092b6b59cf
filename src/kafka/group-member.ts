/**
 * One member of a job's worker group (protocol type `millrace`): joins, answers rebalances at once, beats. It makes no decision about tasks.
 *
 *   Joining ──joined, synced──► Member ──27──► Joining (same member id; tasks go on)
 *      ▲                          │ 22, 25, or no heartbeat for a session time-out
 *      └──── (new member id) ◄────┴──► Lost is reported: whoever leads now may take the job over
 *
 * Runs on a thread of its own in production (group-thread.ts), so that a blocked record thread keeps its membership.
 */
import { deadline } from '../core/deadline.ts'
import type { World } from '../core/ports.ts'
import { isMillraceError, KafkaError } from '../errors.ts'
import { type JoinedGroup, type KafkaCluster, KafkaCode } from './kafka-cluster.ts'

export const PROTOCOL_TYPE = 'millrace'

export interface GroupMemberOptions {
  readonly groupId: string
  /** The protocol's name: workers with another graph are refused by the broker. */
  readonly fingerprint: string
  readonly incarnation: string
  readonly sessionTimeoutMs: number
  readonly rebalanceTimeoutMs: number
  readonly heartbeatMs: number
  /** Another graph under this name: fail, or wait until its workers are gone. */
  readonly onMismatch: 'fail' | 'wait'
}

export interface Membership {
  readonly leader: boolean
  readonly generation: number
  readonly memberId: string
  readonly workers: number
}

export type GroupEvent =
  | { readonly type: 'joined'; readonly membership: Membership }
  | { readonly type: 'lost'; readonly reason: string }
  | { readonly type: 'waiting'; readonly runningFingerprint: string }
  | { readonly type: 'conflict'; readonly runningFingerprint: string }
  | { readonly type: 'failed'; readonly message: string; readonly code: string }

/** How long leaving may take. */
const LEAVE_MS = 2_000
/** Milliseconds between two tries to join while the group cannot be joined. */
const RETRY_MS = 1_000

export class GroupMember {
  readonly #cluster: KafkaCluster
  readonly #world: World
  readonly #options: GroupMemberOptions
  readonly #emit: (event: GroupEvent) => void
  readonly #onBeat: (at: number) => void
  #memberId = ''
  #membership: Membership | undefined
  #lastBeat = 0
  #stopped = false
  #loop: Promise<void> = Promise.resolve()
  /** Since when workers with another graph are in the group. */
  #mismatchSince: number | undefined

  /** `onBeat` gets the epoch ms of each successful heartbeat or join. */
  constructor(
    cluster: KafkaCluster,
    world: World,
    options: GroupMemberOptions,
    emit: (event: GroupEvent) => void,
    onBeat: (at: number) => void,
  ) {
    this.#onBeat = onBeat
    this.#cluster = cluster
    this.#world = world
    this.#options = options
    this.#emit = emit
  }

  start(): void {
    this.#loop = this.#run().catch((error: unknown) => {
      if (this.#stopped) return
      this.#emit({
        type: 'failed',
        message: error instanceof Error ? error.message : String(error),
        code: isMillraceError(error) ? error.code : 'MILLRACE_INTERNAL',
      })
    })
  }

  /** One heartbeat now; throws unless it succeeds in the current generation and this member leads it. */
  async assertLeader(): Promise<void> {
    const membership = this.#membership
    if (membership === undefined || !membership.leader) throw new Error('this worker does not lead the group')
    const { generation, memberId } = membership
    const asked = this.#world.clock.now()
    try {
      await this.#cluster.heartbeat(
        { groupId: this.#options.groupId, generation, memberId },
        { timeoutMs: this.#options.sessionTimeoutMs },
      )
    } catch (error) {
      // A rebalance under way does not take leadership away; the next generation decides that.
      if (!(error instanceof KafkaError) || error.brokerCode !== KafkaCode.REBALANCE_IN_PROGRESS) throw error
    }
    this.#beaten(asked)
  }

  /** `at`: when the heartbeat was sent: the broker's session began anew at that moment or later, however long the answer took. */
  #beaten(at: number): void {
    this.#lastBeat = Math.max(this.#lastBeat, at)
    this.#onBeat(this.#lastBeat)
  }

  async leave(): Promise<void> {
    this.#stopped = true
    if (this.#memberId !== '') {
      await this.#leaveAs(this.#memberId)
      return
    }
    // A join that is under way is carried through, and left: nobody would beat for a member that joins later.
    const wait = deadline(this.#world.timers, LEAVE_MS)
    await Promise.race([this.#loop, wait.expired])
    wait.cancel()
  }

  async #leaveAs(memberId: string): Promise<void> {
    try {
      await this.#cluster.leaveGroup({ groupId: this.#options.groupId, memberId }, { timeoutMs: LEAVE_MS })
    } catch (error) {
      // The session time-out removes the member instead; others wait that much longer.
      this.#world.logger.debug('could not leave the worker group', { error })
    }
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      const joined = await this.#join()
      if (joined === undefined) continue
      if (this.#stopped) {
        // Asked to leave while the join was under way: the group must not wait for a member that never beats.
        await this.#leaveAs(joined.memberId)
        return
      }
      this.#mismatchSince = undefined
      this.#memberId = joined.memberId
      this.#beaten(this.#world.clock.now())
      const leader = joined.leaderId === joined.memberId
      const members = joined.members.map((member) => member.memberId)
      const roster = Buffer.from(JSON.stringify({ leader: joined.leaderId, workers: members.length }))
      let workers = members.length
      try {
        const assignment = await this.#cluster.syncGroup({
          groupId: this.#options.groupId,
          generation: joined.generation,
          memberId: joined.memberId,
          assignments: leader ? members.map((memberId) => ({ memberId, assignment: roster })) : [],
        })
        workers = workersOf(assignment, workers)
      } catch (error) {
        if (this.#mustRejoin(error)) continue
        if (!isMillraceError(error) || !error.retriable) throw error
        // Brokers that are away: whoever is still a member when they are back joins again.
        await this.#world.timers.sleep(RETRY_MS)
        continue
      }
      this.#membership = { leader, generation: joined.generation, memberId: joined.memberId, workers }
      this.#emit({ type: 'joined', membership: this.#membership })
      await this.#beat(this.#membership)
    }
  }

  async #join(): Promise<JoinedGroup | undefined> {
    const { groupId, fingerprint, incarnation, sessionTimeoutMs, rebalanceTimeoutMs } = this.#options
    try {
      return await this.#cluster.joinGroup({
        groupId,
        protocolType: PROTOCOL_TYPE,
        protocols: [{ name: fingerprint, metadata: Buffer.from(JSON.stringify({ incarnation })) }],
        sessionTimeoutMs,
        rebalanceTimeoutMs,
        memberId: this.#memberId,
      })
    } catch (error) {
      if (error instanceof KafkaError && error.brokerCode === KafkaCode.INCONSISTENT_GROUP_PROTOCOL) {
        await this.#mismatch()
        return undefined
      }
      if (this.#mustRejoin(error)) return undefined
      if (isMillraceError(error) && error.retriable) {
        await this.#world.timers.sleep(RETRY_MS)
        return undefined
      }
      throw error
    }
  }

  /** Workers with another graph are in the group. */
  async #mismatch(): Promise<void> {
    const { groupId, sessionTimeoutMs, rebalanceTimeoutMs, onMismatch } = this.#options
    const now = this.#world.clock.now()
    this.#mismatchSince ??= now
    const runningFingerprint = await this.#runningFingerprint(groupId)
    if (this.#stopped) return
    // A dead worker of an older version of the job stays a member for a session time-out.
    const patience = sessionTimeoutMs + rebalanceTimeoutMs + RETRY_MS
    if (onMismatch === 'fail' && now - this.#mismatchSince > patience) {
      this.#stopped = true
      this.#emit({ type: 'conflict', runningFingerprint })
      return
    }
    this.#emit({ type: 'waiting', runningFingerprint })
    await this.#world.timers.sleep(RETRY_MS)
  }

  async #runningFingerprint(groupId: string): Promise<string> {
    try {
      return (await this.#cluster.describeGroup(groupId)).protocol
    } catch (error) {
      // It is only for the message; the next try to join says whether they are still there.
      if (isMillraceError(error) && error.retriable) return 'unknown'
      throw error
    }
  }

  /** Beats until the member must join again. */
  async #beat(membership: Membership): Promise<void> {
    const { groupId, heartbeatMs, sessionTimeoutMs } = this.#options
    const { generation, memberId } = membership
    while (!this.#stopped) {
      await this.#world.timers.sleep(heartbeatMs)
      if (this.#stopped) return
      const sent = this.#world.clock.now()
      try {
        await this.#cluster.heartbeat({ groupId, generation, memberId }, { timeoutMs: sessionTimeoutMs / 2 })
        this.#beaten(sent)
      } catch (error) {
        if (this.#stopped) return
        if (error instanceof KafkaError && error.brokerCode === KafkaCode.REBALANCE_IN_PROGRESS) return
        if (this.#mustRejoin(error)) {
          this.#lose(`the group does not know this worker any more: ${(error as Error).message}`)
          return
        }
        if (!isMillraceError(error) || !error.retriable) throw error
        if (this.#world.clock.now() - this.#lastBeat > sessionTimeoutMs) {
          this.#lose(`no heartbeat for ${this.#world.clock.now() - this.#lastBeat} ms: ${error.message}`)
          return
        }
      }
    }
  }

  #mustRejoin(error: unknown): boolean {
    if (!(error instanceof KafkaError)) return false
    if (error.brokerCode === KafkaCode.REBALANCE_IN_PROGRESS) return true
    if (error.brokerCode !== KafkaCode.UNKNOWN_MEMBER_ID && error.brokerCode !== KafkaCode.ILLEGAL_GENERATION)
      return false
    if (error.brokerCode === KafkaCode.UNKNOWN_MEMBER_ID) this.#memberId = ''
    return true
  }

  #lose(reason: string): void {
    this.#membership = undefined
    this.#memberId = ''
    this.#emit({ type: 'lost', reason })
  }
}

function workersOf(assignment: Buffer, otherwise: number): number {
  if (assignment.length === 0) return otherwise
  const roster = JSON.parse(assignment.toString('utf8')) as { workers?: number }
  return roster.workers ?? otherwise
}
