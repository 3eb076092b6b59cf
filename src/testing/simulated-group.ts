/**
 * One group under the classic protocol, as its coordinator runs it.
 *
 *             first join                   all rejoined, or rebalance time-out            leader's SyncGroup
 *   Empty ───────────────► PreparingRebalance ───────────────────────────► CompletingRebalance ─────────► Stable
 *     ▲                        ▲       │ nobody left                             │ join, leave, death         │
 *     └────────────────────────│───────┘                                         │                            │
 *                              └─────────────────────────────────────────────────┴────────────────────────────┘
 *
 * The generation grows at each arrival in CompletingRebalance or Empty. A member that hasn't been heard of for its session time-out is
 * removed, one that waits for an answer isn't.
 */
import type { TimerHandle, Timers } from '../core/ports.ts'
import type {
  DescribedGroup,
  JoinedGroup,
  JoinGroupRequest,
  ResourceOperation,
} from '../kafka/kafka-cluster.ts'
import { BrokerCode, BrokerRefusal } from './simulated-broker-error.ts'

type State = 'Empty' | 'PreparingRebalance' | 'CompletingRebalance' | 'Stable' | 'Dead'

interface Waiting<T> {
  resolve(value: T): void
  reject(error: BrokerRefusal): void
}

interface Member {
  readonly memberId: string
  readonly clientId: string
  protocols: JoinGroupRequest['protocols']
  sessionTimeoutMs: number
  rebalanceTimeoutMs: number
  assignment: Buffer
  synced: boolean
  awaitingJoin: Waiting<JoinedGroup> | undefined
  awaitingSync: Waiting<Buffer> | undefined
  session: TimerHandle | undefined
}

/** Who this member is, and what it knows of the group. */
export interface MemberRef {
  readonly generation: number
  readonly memberId: string
}

const NO_ASSIGNMENT = Buffer.alloc(0)
/** Brokers without an authorizer let everybody do everything. */
export const GROUP_OPERATIONS: ReadonlySet<ResourceOperation> = new Set(['Read', 'Delete', 'Describe'])

function sameProtocols(a: JoinGroupRequest['protocols'], b: JoinGroupRequest['protocols']): boolean {
  return (
    a.length === b.length && a.every((p, i) => p.name === b[i]!.name && p.metadata.equals(b[i]!.metadata))
  )
}

/** A request that came twice, by a retry or over an old connection, is answered twice. */
function besides<T>(first: Waiting<T> | undefined, second: Waiting<T>): Waiting<T> {
  if (first === undefined) return second
  return {
    resolve: (value) => {
      first.resolve(value)
      second.resolve(value)
    },
    reject: (error) => {
      first.reject(error)
      second.reject(error)
    },
  }
}

/** Membership of one group. */
export class SimulatedGroup {
  readonly groupId: string
  readonly #timers: Timers
  readonly #initialDelayMs: number
  readonly #members = new Map<string, Member>()
  /** Ids given out by MEMBER_ID_REQUIRED whose owners haven't joined yet: a rebalance waits for them too. */
  readonly #promised = new Map<string, TimerHandle>()
  #state: State = 'Empty'
  #generation = 0
  #protocolType = ''
  #protocol = ''
  #leaderId = ''
  /** True while the first members of an empty group wait for others (group.initial.rebalance.delay.ms). */
  #gathering = false
  #rebalance: TimerHandle | undefined
  #syncDeadline: TimerHandle | undefined

  constructor(groupId: string, timers: Timers, initialDelayMs: number) {
    this.groupId = groupId
    this.#timers = timers
    this.#initialDelayMs = initialDelayMs
  }

  get isEmpty(): boolean {
    return this.#members.size === 0 && this.#promised.size === 0
  }

  /** Registers the id that a newcomer must come back with. */
  promise(memberId: string, sessionTimeoutMs: number): void {
    const expire = (): void => {
      this.#promised.delete(memberId)
      this.#maybeCompleteRebalance()
    }
    this.#promised.set(memberId, this.#timers.schedule(sessionTimeoutMs, expire, true))
  }

  /** @throws BrokerRefusal 23 when the request has no protocol that all members have; the member's own present ones count too. */
  checkProtocols(request: JoinGroupRequest): void {
    const members = [...this.#members.values()]
    const shared = request.protocols.some(({ name }) =>
      members.every((m) => m.protocols.some((p) => p.name === name)),
    )
    if (!shared || (members.length > 0 && request.protocolType !== this.#protocolType)) {
      throw new BrokerRefusal(BrokerCode.INCONSISTENT_GROUP_PROTOCOL)
    }
  }

  /** Answers when the rebalance is over. The request carries a member id. */
  join(clientId: string, request: JoinGroupRequest): Promise<JoinedGroup> {
    this.checkProtocols(request)
    const promised = this.#promised.get(request.memberId)
    const known = this.#members.get(request.memberId)
    if (promised === undefined && known === undefined) throw new BrokerRefusal(BrokerCode.UNKNOWN_MEMBER_ID)
    promised?.cancel()
    this.#promised.delete(request.memberId)
    if (known !== undefined && !this.#needsRebalance(known, request))
      return Promise.resolve(this.#joined(known))
    if (this.#members.size === 0) this.#protocolType = request.protocolType
    const member: Member = known ?? {
      memberId: request.memberId,
      clientId,
      protocols: [],
      sessionTimeoutMs: 0,
      rebalanceTimeoutMs: 0,
      assignment: NO_ASSIGNMENT,
      synced: false,
      awaitingJoin: undefined,
      awaitingSync: undefined,
      session: undefined,
    }
    member.protocols = request.protocols
    member.sessionTimeoutMs = request.sessionTimeoutMs
    member.rebalanceTimeoutMs = request.rebalanceTimeoutMs
    this.#members.set(member.memberId, member)
    this.#touch(member)
    const answer = new Promise<JoinedGroup>((resolve, reject) => {
      member.awaitingJoin = besides(member.awaitingJoin, { resolve, reject })
    })
    this.#prepareRebalance()
    return answer
  }

  sync(
    request: MemberRef & { readonly assignments: readonly { memberId: string; assignment: Buffer }[] },
  ): Promise<Buffer> {
    const member = this.#member(request)
    if (this.#state === 'PreparingRebalance') throw new BrokerRefusal(BrokerCode.REBALANCE_IN_PROGRESS)
    this.#touch(member)
    member.synced = true
    if (this.#state === 'Stable') return Promise.resolve(member.assignment)
    const answer = new Promise<Buffer>((resolve, reject) => {
      member.awaitingSync = besides(member.awaitingSync, { resolve, reject })
    })
    if (member.memberId === this.#leaderId) this.#becomeStable(request.assignments)
    return answer
  }

  heartbeat(ref: MemberRef): void {
    const member = this.#member(ref)
    this.#touch(member)
    if (this.#state === 'PreparingRebalance') throw new BrokerRefusal(BrokerCode.REBALANCE_IN_PROGRESS)
  }

  leave(memberId: string): void {
    const promised = this.#promised.get(memberId)
    if (promised !== undefined) {
      promised.cancel()
      this.#promised.delete(memberId)
      this.#maybeCompleteRebalance()
      return
    }
    const member = this.#members.get(memberId)
    if (member === undefined) throw new BrokerRefusal(BrokerCode.UNKNOWN_MEMBER_ID)
    this.#remove(member)
  }

  /** As DescribeGroups tells it: protocol and metadata only while Stable. */
  describe(): DescribedGroup {
    const stable = this.#state === 'Stable'
    return {
      groupId: this.groupId,
      errorCode: 0,
      state: this.#state,
      protocolType: this.#protocolType,
      protocol: stable ? this.#protocol : '',
      members: [...this.#members.values()].map((member) => ({
        memberId: member.memberId,
        clientId: member.clientId,
        clientHost: '/127.0.0.1',
        metadata: stable ? this.#metadata(member) : NO_ASSIGNMENT,
      })),
      operations: GROUP_OPERATIONS,
    }
  }

  /** The coordinator moved: the new one gives every member a whole session again. */
  reloadSessions(): void {
    for (const member of this.#members.values()) this.#touch(member)
  }

  #member({ memberId, generation }: MemberRef): Member {
    const member = this.#members.get(memberId)
    if (member === undefined) throw new BrokerRefusal(BrokerCode.UNKNOWN_MEMBER_ID)
    if (generation !== this.#generation) throw new BrokerRefusal(BrokerCode.ILLEGAL_GENERATION)
    return member
  }

  #needsRebalance(member: Member, request: JoinGroupRequest): boolean {
    if (this.#state === 'PreparingRebalance') return true
    const changed = !sameProtocols(member.protocols, request.protocols)
    return changed || (this.#state === 'Stable' && member.memberId === this.#leaderId)
  }

  #touch(member: Member): void {
    member.session?.cancel()
    member.session = this.#timers.schedule(
      member.sessionTimeoutMs,
      () => {
        if (member.awaitingJoin !== undefined || member.awaitingSync !== undefined) this.#touch(member)
        else this.#remove(member)
      },
      true,
    )
  }

  #remove(member: Member): void {
    member.session?.cancel()
    this.#members.delete(member.memberId)
    member.awaitingJoin?.reject(new BrokerRefusal(BrokerCode.UNKNOWN_MEMBER_ID))
    member.awaitingSync?.reject(new BrokerRefusal(BrokerCode.UNKNOWN_MEMBER_ID))
    if (this.#state === 'PreparingRebalance') this.#maybeCompleteRebalance()
    else this.#prepareRebalance()
  }

  #prepareRebalance(): void {
    if (this.#state !== 'PreparingRebalance') {
      this.#syncDeadline?.cancel()
      for (const member of this.#members.values()) {
        member.awaitingSync?.reject(new BrokerRefusal(BrokerCode.REBALANCE_IN_PROGRESS))
        member.awaitingSync = undefined
      }
      this.#gathering = this.#state === 'Empty' && this.#initialDelayMs > 0
      const limitMs = Math.max(0, ...[...this.#members.values()].map((member) => member.rebalanceTimeoutMs))
      this.#state = 'PreparingRebalance'
      this.#rebalance = this.#timers.schedule(this.#gathering ? this.#initialDelayMs : limitMs, () => {
        this.#completeRebalance()
      })
    }
    this.#maybeCompleteRebalance()
  }

  #maybeCompleteRebalance(): void {
    if (this.#state !== 'PreparingRebalance' || this.#promised.size > 0 || this.#gathering) return
    if ([...this.#members.values()].every((member) => member.awaitingJoin !== undefined))
      this.#completeRebalance()
  }

  #completeRebalance(): void {
    this.#rebalance?.cancel()
    this.#gathering = false
    for (const member of [...this.#members.values()]) {
      if (member.awaitingJoin !== undefined) continue
      member.session?.cancel()
      this.#members.delete(member.memberId)
    }
    this.#generation++
    const members = [...this.#members.values()]
    if (members.length === 0) {
      this.#state = 'Empty'
      this.#leaderId = ''
      this.#protocol = ''
      return
    }
    this.#state = 'CompletingRebalance'
    if (!this.#members.has(this.#leaderId)) this.#leaderId = members[0]!.memberId
    this.#protocol = this.#elect(members)
    for (const member of members) {
      member.synced = false
      member.assignment = NO_ASSIGNMENT
      this.#touch(member)
      member.awaitingJoin!.resolve(this.#joined(member))
      member.awaitingJoin = undefined
    }
    const limitMs = Math.max(...members.map((member) => member.rebalanceTimeoutMs))
    this.#syncDeadline = this.#timers.schedule(limitMs, () => this.#dropUnsynced())
  }

  /** Members that took part in the rebalance but never asked for their assignment are out. */
  #dropUnsynced(): void {
    for (const member of [...this.#members.values()]) {
      if (!member.synced) this.#remove(member)
    }
  }

  #becomeStable(assignments: readonly { memberId: string; assignment: Buffer }[]): void {
    this.#state = 'Stable'
    for (const { memberId, assignment } of assignments) {
      const member = this.#members.get(memberId)
      if (member !== undefined) member.assignment = assignment
    }
    for (const member of this.#members.values()) {
      if (member.awaitingSync === undefined) continue
      this.#touch(member)
      member.awaitingSync.resolve(member.assignment)
      member.awaitingSync = undefined
    }
  }

  /** Each member votes for the first of its protocols that all have. */
  #elect(members: readonly Member[]): string {
    const votes = new Map<string, number>()
    for (const { protocols } of members) {
      const choice = protocols.find(({ name }) =>
        members.every((m) => m.protocols.some((p) => p.name === name)),
      )!
      votes.set(choice.name, (votes.get(choice.name) ?? 0) + 1)
    }
    return [...votes].reduce((best, vote) => (vote[1] > best[1] ? vote : best))[0]
  }

  #metadata(member: Member): Buffer {
    return member.protocols.find(({ name }) => name === this.#protocol)?.metadata ?? NO_ASSIGNMENT
  }

  #joined(member: Member): JoinedGroup {
    const isLeader = member.memberId === this.#leaderId
    const members = isLeader ? [...this.#members.values()] : []
    return {
      generation: this.#generation,
      protocol: this.#protocol,
      leaderId: this.#leaderId,
      memberId: member.memberId,
      members: members.map((m) => ({ memberId: m.memberId, metadata: this.#metadata(m) })),
    }
  }
}
