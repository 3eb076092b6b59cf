/**
 * The group coordinator: groups by id, and the offsets that transactions commit for them.
 *
 *   TxnOffsetCommit ──► pending of (group, producer id) ── COMMIT marker ──► committed
 *                                                       └─ ABORT marker ──► dropped
 */
import type { Random, Timers } from '../core/ports.ts'
import type {
  DescribedGroup,
  GroupOffsetCommit,
  JoinedGroup,
  JoinGroupRequest,
  TopicPartition,
} from '../kafka/kafka-cluster.ts'
import { BrokerCode, BrokerRefusal } from './simulated-broker-error.ts'
import { GROUP_OPERATIONS, type MemberRef, SimulatedGroup } from './simulated-group.ts'

interface GroupOffsets {
  readonly committed: Map<string, bigint>
  /** By producer id, then by partition. */
  readonly pending: Map<bigint, { readonly epoch: number; readonly offsets: Map<string, bigint> }>
}

function keyOf({ topic, partition }: TopicPartition): string {
  return `${topic}/${partition}`
}

/** All groups of the cluster. */
export class SimulatedGroups {
  readonly #timers: Timers
  readonly #random: Random
  readonly #configs: Readonly<Record<string, string>>
  readonly #groups = new Map<string, SimulatedGroup>()
  readonly #offsets = new Map<string, GroupOffsets>()

  constructor(options: {
    readonly timers: Timers
    readonly random: Random
    readonly configs: Readonly<Record<string, string>>
  }) {
    this.#timers = options.timers
    this.#random = options.random
    this.#configs = options.configs
  }

  /** A first JoinGroup carries no member id: it is refused with the id to come back with. */
  promiseMemberId(clientId: string, request: JoinGroupRequest): string {
    this.#checkSession(request)
    const group = this.#groupAt(request.groupId)
    group.checkProtocols(request)
    const memberId = `${clientId}-${this.#random.uuid()}`
    group.promise(memberId, request.sessionTimeoutMs)
    return memberId
  }

  join(clientId: string, request: JoinGroupRequest): Promise<JoinedGroup> {
    this.#checkSession(request)
    return this.#group(request.groupId, BrokerCode.UNKNOWN_MEMBER_ID).join(clientId, request)
  }

  sync(
    request: MemberRef & {
      readonly groupId: string
      readonly assignments: readonly { memberId: string; assignment: Buffer }[]
    },
  ): Promise<Buffer> {
    return this.#group(request.groupId, BrokerCode.UNKNOWN_MEMBER_ID).sync(request)
  }

  heartbeat(request: MemberRef & { readonly groupId: string }): void {
    this.#group(request.groupId, BrokerCode.UNKNOWN_MEMBER_ID).heartbeat(request)
  }

  leave(groupId: string, memberId: string): void {
    this.#group(groupId, BrokerCode.UNKNOWN_MEMBER_ID).leave(memberId)
  }

  /** An unknown group is described as Dead, without an error. */
  describe(groupId: string): DescribedGroup {
    const group = this.#groups.get(groupId)
    if (group !== undefined) return group.describe()
    const operations = GROUP_OPERATIONS
    return { groupId, errorCode: 0, state: 'Dead', protocolType: '', protocol: '', members: [], operations }
  }

  /** @throws BrokerRefusal 69 when there is none, 68 when it has members. */
  delete(groupId: string): void {
    if (!this.#group(groupId, BrokerCode.GROUP_ID_NOT_FOUND).isEmpty)
      throw new BrokerRefusal(BrokerCode.NON_EMPTY_GROUP)
    this.#groups.delete(groupId)
    this.#offsets.delete(groupId)
  }

  /** Forgets groups without members and offsets, as the broker does every offsets.retention.check.interval: their generation starts at 1 again. */
  expireEmptyGroups(): void {
    for (const [groupId, group] of this.#groups) {
      if (group.isEmpty && !this.#offsets.has(groupId)) this.#groups.delete(groupId)
    }
  }

  /** The coordinators moved. */
  reloadSessions(): void {
    for (const group of this.#groups.values()) group.reloadSessions()
  }

  /** Notes offsets that become the group's when the producer's transaction commits. @throws BrokerRefusal 47 for an older epoch. */
  addPendingOffsets(
    groupId: string,
    producerId: bigint,
    epoch: number,
    offsets: readonly GroupOffsetCommit[],
  ): void {
    this.#groupAt(groupId)
    const { pending } = this.#offsetsAt(groupId)
    const mine = pending.get(producerId)
    if (mine !== undefined && mine.epoch > epoch) throw new BrokerRefusal(BrokerCode.INVALID_PRODUCER_EPOCH)
    const merged = mine?.offsets ?? new Map<string, bigint>()
    for (const commit of offsets) merged.set(keyOf(commit), commit.offset)
    pending.set(producerId, { epoch, offsets: merged })
  }

  /** The transaction's marker has come. */
  endTransaction(groupId: string, producerId: bigint, commit: boolean): void {
    const offsets = this.#offsets.get(groupId)
    const pending = offsets?.pending.get(producerId)
    if (offsets === undefined || pending === undefined) return
    offsets.pending.delete(producerId)
    if (!commit) return
    for (const [key, offset] of pending.offsets) offsets.committed.set(key, offset)
  }

  /** -1n where nothing is committed. @throws BrokerRefusal 88 while a transaction with one of the offsets is undecided. */
  offsets(groupId: string, partitions: readonly TopicPartition[]): bigint[] {
    const offsets = this.#offsets.get(groupId)
    if (offsets === undefined) return partitions.map(() => -1n)
    const pending = [...offsets.pending.values()]
    if (partitions.some((partition) => pending.some((p) => p.offsets.has(keyOf(partition))))) {
      throw new BrokerRefusal(BrokerCode.UNSTABLE_OFFSET_COMMIT)
    }
    return partitions.map((partition) => offsets.committed.get(keyOf(partition)) ?? -1n)
  }

  /** Offsets of a deleted topic are deleted with it. */
  forgetTopic(topic: string): void {
    for (const { committed } of this.#offsets.values()) {
      for (const key of [...committed.keys()]) {
        if (key.slice(0, key.lastIndexOf('/')) === topic) committed.delete(key)
      }
    }
  }

  #checkSession({ sessionTimeoutMs }: JoinGroupRequest): void {
    const min = Number(this.#configs['group.min.session.timeout.ms'])
    const max = Number(this.#configs['group.max.session.timeout.ms'])
    if (sessionTimeoutMs >= min && sessionTimeoutMs <= max) return
    throw new BrokerRefusal(
      BrokerCode.INVALID_SESSION_TIMEOUT,
      `${sessionTimeoutMs} ms is not within ${min} to ${max} ms`,
    )
  }

  #group(groupId: string, codeIfMissing: number): SimulatedGroup {
    const group = this.#groups.get(groupId)
    if (group === undefined) throw new BrokerRefusal(codeIfMissing, groupId)
    return group
  }

  #groupAt(groupId: string): SimulatedGroup {
    let group = this.#groups.get(groupId)
    if (group === undefined) {
      const initialDelayMs = Number(this.#configs['group.initial.rebalance.delay.ms'])
      group = new SimulatedGroup(groupId, this.#timers, initialDelayMs)
      this.#groups.set(groupId, group)
    }
    return group
  }

  #offsetsAt(groupId: string): GroupOffsets {
    let offsets = this.#offsets.get(groupId)
    if (offsets === undefined) {
      offsets = { committed: new Map(), pending: new Map() }
      this.#offsets.set(groupId, offsets)
    }
    return offsets
  }
}
