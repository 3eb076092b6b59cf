/**
 * Contract of the KafkaCluster port: offsets that a transaction commits for a group, and membership.
 */
import { type JoinedGroup, type KafkaCluster, KafkaCode } from '../kafka/kafka-cluster.ts'
import { type ContractFramework, codeOf, type SceneOf } from './kafka-contract-scene.ts'

const SESSION_MS = 6_000
const REBALANCE_MS = 3_000

/** One member of a group that does as it is told. */
class ContractMember {
  readonly cluster: KafkaCluster
  readonly groupId: string
  readonly #protocol: string
  readonly #metadata: string
  joined: JoinedGroup | undefined
  memberId = ''

  constructor(cluster: KafkaCluster, groupId: string, metadata: string, protocol = 'graph-a') {
    this.cluster = cluster
    this.groupId = groupId
    this.#metadata = metadata
    this.#protocol = protocol
  }

  async join(): Promise<JoinedGroup> {
    this.joined = await this.cluster.joinGroup({
      groupId: this.groupId,
      protocolType: 'millrace',
      protocols: [{ name: this.#protocol, metadata: Buffer.from(this.#metadata) }],
      sessionTimeoutMs: SESSION_MS,
      rebalanceTimeoutMs: REBALANCE_MS,
      memberId: this.memberId,
    })
    this.memberId = this.joined.memberId
    return this.joined
  }

  /** The leader gives each member its own id back as its assignment. */
  async sync(): Promise<string> {
    const { generation, members } = this.joined!
    const assignments = members.map(({ memberId }) => ({
      memberId,
      assignment: Buffer.from(`for ${memberId}`),
    }))
    const assignment = await this.cluster.syncGroup({
      groupId: this.groupId,
      generation,
      memberId: this.memberId,
      assignments,
    })
    return assignment.toString()
  }

  async joinAndSync(): Promise<string> {
    await this.join()
    return this.sync()
  }

  /** Broker's code of a heartbeat; 0 = all is well. */
  heartbeat(): Promise<number> {
    const { generation } = this.joined!
    return codeOf(this.cluster.heartbeat({ groupId: this.groupId, generation, memberId: this.memberId }))
  }

  leave(): Promise<void> {
    return this.cluster.leaveGroup({ groupId: this.groupId, memberId: this.memberId })
  }
}

/** Declares the tests. */
export function groupContract({ describe, test, expect }: ContractFramework, scene: SceneOf): void {
  /** Joins again as soon as a newcomer's join has arrived. */
  const rejoin = async (member: ContractMember): Promise<JoinedGroup> => {
    await scene().until('a rebalance has begun', async () => {
      return (await member.heartbeat()) === KafkaCode.REBALANCE_IN_PROGRESS
    })
    return member.join()
  }

  describe('offsets of a group, committed by a transaction', () => {
    test('are there after the commit', async () => {
      const { cluster } = scene()
      const [topic, groupId] = [await scene().topic(2), scene().name('group')]
      const at = [0, 1].map((partition) => ({ topic, partition }))
      const { identity } = await scene().producer()
      await cluster.addOffsetsToTxn(identity, groupId)
      await cluster.txnOffsetCommit(identity, groupId, [{ topic, partition: 0, offset: 7n }])
      await cluster.endTxn(identity, 'commit')
      const offsets = await cluster.fetchGroupOffsets(groupId, at)
      expect(offsets.map(({ partition, offset }) => [partition, offset])).toEqual([
        [0, 7n],
        [1, -1n],
      ])
    })

    test('are not there after an abort', async () => {
      const { cluster } = scene()
      const [topic, groupId] = [await scene().topic(), scene().name('group')]
      const { identity } = await scene().producer()
      for (const [offset, result] of [
        [7n, 'commit'],
        [9n, 'abort'],
      ] as const) {
        await cluster.addOffsetsToTxn(identity, groupId)
        await cluster.txnOffsetCommit(identity, groupId, [{ topic, partition: 0, offset }])
        await cluster.endTxn(identity, result)
      }
      expect((await cluster.fetchGroupOffsets(groupId, [{ topic, partition: 0 }]))[0]!.offset).toBe(7n)
    })

    test('are waited for while the transaction is undecided', async () => {
      const { cluster } = scene()
      const other = await scene().another()
      const [topic, groupId] = [await scene().topic(), scene().name('group')]
      const { identity } = await scene().producer()
      await cluster.addOffsetsToTxn(identity, groupId)
      await cluster.txnOffsetCommit(identity, groupId, [{ topic, partition: 0, offset: 5n }])
      let answered = false
      const asked = other.fetchGroupOffsets(groupId, [{ topic, partition: 0 }]).then((offsets) => {
        answered = true
        return offsets
      })
      await scene().waitMs(500)
      expect(answered).toBe(false)
      await cluster.endTxn(identity, 'commit')
      expect((await asked)[0]!.offset).toBe(5n)
      await other.close()
    })

    test('are refused for a group that is not in the transaction, and for a topic that does not exist', async () => {
      const { cluster } = scene()
      const [topic, groupId] = [await scene().topic(), scene().name('group')]
      const { identity } = await scene().producer()
      const commit = (name: string): Promise<number> =>
        codeOf(
          cluster.txnOffsetCommit(identity, groupId, [{ topic: name, partition: 0, offset: 1n }], {
            timeoutMs: 500,
          }),
        )
      expect(await commit(topic)).toBe(KafkaCode.INVALID_TXN_STATE)
      await cluster.addOffsetsToTxn(identity, groupId)
      expect(await commit(scene().name('nowhere'))).toBe(KafkaCode.UNKNOWN_TOPIC_OR_PARTITION)
      await cluster.endTxn(identity, 'abort')
    })

    test('of a fenced producer are refused', async () => {
      const { cluster } = scene()
      const [topic, groupId] = [await scene().topic(), scene().name('group')]
      const { identity } = await scene().producer()
      await cluster.addOffsetsToTxn(identity, groupId)
      await cluster.txnOffsetCommit(identity, groupId, [{ topic, partition: 0, offset: 1n }])
      await scene().producer({ id: identity.transactionalId })
      const late = cluster.txnOffsetCommit(identity, groupId, [{ topic, partition: 0, offset: 2n }])
      expect(await codeOf(late)).toBe(KafkaCode.INVALID_PRODUCER_EPOCH)
      expect((await cluster.fetchGroupOffsets(groupId, [{ topic, partition: 0 }]))[0]!.offset).toBe(-1n)
    })
  })

  describe('membership of a group', () => {
    test('a sole member leads, syncs, beats and leaves', async () => {
      const member = new ContractMember(scene().cluster, scene().name('group'), 'm1')
      const joined = await member.join()
      expect(joined.generation).toBe(1)
      expect([joined.leaderId, joined.protocol]).toEqual([joined.memberId, 'graph-a'])
      expect(joined.members.map(({ metadata }) => metadata.toString())).toEqual(['m1'])
      expect(await member.sync()).toBe(`for ${member.memberId}`)
      expect(await member.heartbeat()).toBe(0)
      await member.leave()
      expect(await member.heartbeat()).toBe(KafkaCode.UNKNOWN_MEMBER_ID)
      expect((await scene().cluster.describeGroup(member.groupId)).state).toBe('Empty')
    })

    test('a newcomer starts a rebalance: members are told 27, rejoin, and the generation grows', async () => {
      const other = await scene().another()
      const first = new ContractMember(scene().cluster, scene().name('group'), 'm1')
      const second = new ContractMember(other, first.groupId, 'm2')
      await first.joinAndSync()
      const joining = second.join()
      await scene().until(
        'the first member hears of it',
        async () => (await first.heartbeat()) === KafkaCode.REBALANCE_IN_PROGRESS,
      )
      const [rejoined, joined] = await Promise.all([first.join(), joining])
      expect([rejoined.generation, joined.generation]).toEqual([2, 2])
      expect([rejoined.leaderId, joined.leaderId]).toEqual([first.memberId, first.memberId])
      expect(rejoined.members.map(({ metadata }) => metadata.toString()).sort()).toEqual(['m1', 'm2'])
      expect(joined.members).toEqual([])
      const assigned = await Promise.all([second.sync(), first.sync()])
      expect(assigned).toEqual([`for ${second.memberId}`, `for ${first.memberId}`])
      expect([await first.heartbeat(), await second.heartbeat()]).toEqual([0, 0])

      const described = await other.describeGroup(first.groupId)
      expect([described.state, described.protocolType, described.protocol]).toEqual([
        'Stable',
        'millrace',
        'graph-a',
      ])
      expect(described.members.map(({ metadata }) => metadata.toString()).sort()).toEqual(['m1', 'm2'])

      await first.leave()
      await scene().until(
        'the second member hears of it',
        async () => (await second.heartbeat()) === KafkaCode.REBALANCE_IN_PROGRESS,
      )
      const alone = await second.join()
      expect([alone.generation, alone.leaderId]).toEqual([3, second.memberId])
      expect(await second.sync()).toBe(`for ${second.memberId}`)
      await second.leave()
      await other.close()
    })

    test('a member that rejoins without a reason is answered at once, and others notice nothing', async () => {
      const other = await scene().another()
      const first = new ContractMember(scene().cluster, scene().name('group'), 'm1')
      const second = new ContractMember(other, first.groupId, 'm2')
      await first.joinAndSync()
      await Promise.all([second.join(), rejoin(first)])
      await Promise.all([first.sync(), second.sync()])
      const again = await second.join()
      expect(again.generation).toBe(2)
      expect(await first.heartbeat()).toBe(0)
      expect(await second.sync()).toBe(`for ${second.memberId}`)
      await Promise.all([first.leave(), second.leave()])
      await other.close()
    })

    test('a member with another protocol is refused with 23, and the running ones notice nothing', async () => {
      const other = await scene().another()
      const first = new ContractMember(scene().cluster, scene().name('group'), 'm1')
      await first.joinAndSync()
      expect(await codeOf(new ContractMember(other, first.groupId, 'm2', 'graph-b').join())).toBe(
        KafkaCode.INCONSISTENT_GROUP_PROTOCOL,
      )
      expect(await first.heartbeat()).toBe(0)
      const described = await other.describeGroup(first.groupId)
      expect([described.state, described.protocol, described.members.length]).toEqual([
        'Stable',
        'graph-a',
        1,
      ])
      await first.leave()
      await other.close()
    })

    test('a member cannot change its protocol without leaving, not even a sole one', async () => {
      const { cluster } = scene()
      const groupId = scene().name('group')
      const member = new ContractMember(cluster, groupId, 'm1')
      await member.joinAndSync()
      const changed = new ContractMember(cluster, groupId, 'm1', 'graph-b')
      changed.memberId = member.memberId
      expect(await codeOf(changed.join())).toBe(KafkaCode.INCONSISTENT_GROUP_PROTOCOL)
      expect(await member.heartbeat()).toBe(0)
      await member.leave()
    })

    test('what a principal may do with a group is told, also with one that does not exist', async () => {
      const { operations } = await scene().cluster.describeGroup(scene().name('nowhere'))
      for (const operation of ['Read', 'Describe'] as const) expect(operations?.has(operation)).toBe(true)
    })

    test('protocol and metadata are described only while the group is stable', async () => {
      const { cluster } = scene()
      const member = new ContractMember(cluster, scene().name('group'), 'm1')
      await member.join()
      const joining = await cluster.describeGroup(member.groupId)
      expect([joining.state, joining.protocol, joining.members[0]!.metadata.length]).toEqual([
        'CompletingRebalance',
        '',
        0,
      ])
      expect(await member.heartbeat()).toBe(0)
      await member.sync()
      const stable = await cluster.describeGroup(member.groupId)
      expect([stable.state, stable.protocol, stable.members[0]!.metadata.toString()]).toEqual([
        'Stable',
        'graph-a',
        'm1',
      ])
      await member.leave()
    })

    test('the generation goes on growing over a time without members', async () => {
      const member = new ContractMember(scene().cluster, scene().name('group'), 'm1')
      await member.joinAndSync()
      await member.leave()
      const again = new ContractMember(scene().cluster, member.groupId, 'm1')
      expect((await again.join()).generation).toBe(3)
      await again.leave()
    })

    test('a member that joined but never asks for its assignment is left behind', async () => {
      const other = await scene().another()
      const first = new ContractMember(scene().cluster, scene().name('group'), 'm1')
      const mute = new ContractMember(other, first.groupId, 'mute')
      await first.joinAndSync()
      await Promise.all([mute.join(), rejoin(first)])
      await first.sync()
      await scene().until('the mute one is missed, though it beats', async () => {
        await mute.heartbeat()
        return (await first.heartbeat()) === KafkaCode.REBALANCE_IN_PROGRESS
      })
      expect((await first.join()).members.map(({ metadata }) => metadata.toString())).toEqual(['m1'])
      expect(await mute.heartbeat()).toBe(KafkaCode.UNKNOWN_MEMBER_ID)
      await first.leave()
      await other.close()
    })

    test('a member that is silent for its session time-out is removed', async () => {
      const other = await scene().another()
      const first = new ContractMember(scene().cluster, scene().name('group'), 'alive')
      const second = new ContractMember(other, first.groupId, 'silent')
      await first.joinAndSync()
      await Promise.all([second.join(), rejoin(first)])
      await Promise.all([first.sync(), second.sync()])
      await scene().until('the silent one is missed', async () => {
        await scene().waitMs(250)
        return (await first.heartbeat()) === KafkaCode.REBALANCE_IN_PROGRESS
      })
      const alone = await first.join()
      expect(alone.generation).toBe(3)
      expect(alone.members.map(({ metadata }) => metadata.toString())).toEqual(['alive'])
      await first.sync()
      expect(await second.heartbeat()).toBe(KafkaCode.UNKNOWN_MEMBER_ID)
      await first.leave()
      await other.close()
    }, 60_000)

    test('a member that does not rejoin within the rebalance time-out is left behind', async () => {
      const other = await scene().another()
      const absent = new ContractMember(scene().cluster, scene().name('group'), 'absent')
      const newcomer = new ContractMember(other, absent.groupId, 'newcomer')
      await absent.joinAndSync()
      const joined = await newcomer.join()
      expect([joined.generation, joined.leaderId]).toEqual([2, newcomer.memberId])
      await newcomer.sync()
      expect(await absent.heartbeat()).toBe(KafkaCode.UNKNOWN_MEMBER_ID)
      await newcomer.leave()
      await other.close()
    }, 60_000)

    test('an old generation and an unknown member are told so', async () => {
      const { cluster } = scene()
      const member = new ContractMember(cluster, scene().name('group'), 'm1')
      await member.joinAndSync()
      const { groupId, memberId } = member
      expect(await codeOf(cluster.heartbeat({ groupId, generation: 0, memberId }))).toBe(
        KafkaCode.ILLEGAL_GENERATION,
      )
      expect(await codeOf(cluster.heartbeat({ groupId, generation: 1, memberId: 'nobody' }))).toBe(
        KafkaCode.UNKNOWN_MEMBER_ID,
      )
      const sync = cluster.syncGroup({ groupId, generation: 5, memberId, assignments: [] })
      expect(await codeOf(sync)).toBe(KafkaCode.ILLEGAL_GENERATION)
      await member.leave()
    })

    test('a group without members can be deleted and starts at generation 1 again', async () => {
      const { cluster } = scene()
      const member = new ContractMember(cluster, scene().name('group'), 'm1')
      await member.joinAndSync()
      expect(await codeOf(cluster.deleteGroup(member.groupId))).toBe(68)
      await member.leave()
      await cluster.deleteGroup(member.groupId)
      expect((await cluster.describeGroup(member.groupId)).state).toBe('Dead')
      const again = new ContractMember(cluster, member.groupId, 'm1')
      expect((await again.join()).generation).toBe(1)
      await again.sync()
      await again.leave()
    })
  })
}
