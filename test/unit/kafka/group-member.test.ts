import { beforeEach, describe, expect, test } from '@jest/globals'
import {
  type GroupEvent,
  GroupMember,
  type GroupMemberOptions,
  type Membership,
  PROTOCOL_TYPE,
} from '../../../src/kafka/group-member.ts'
import type { SimulatedClient } from '../../../src/testing/simulated-client.ts'
import { SimulatedScene } from './simulated-scene.ts'

const SESSION_MS = 10_000

let scene: SimulatedScene

beforeEach(() => {
  scene = new SimulatedScene()
})

/** A member and all that it said. */
class Watched {
  readonly events: GroupEvent[] = []
  readonly beats: number[] = []
  readonly client: SimulatedClient
  readonly member: GroupMember

  constructor(name: string, change: Partial<GroupMemberOptions> = {}) {
    this.client = scene.kafka.client(name)
    this.member = new GroupMember(
      this.client,
      scene.world,
      {
        groupId: 'millrace.job',
        fingerprint: 'graph-1',
        incarnation: name,
        sessionTimeoutMs: SESSION_MS,
        rebalanceTimeoutMs: 2_000,
        heartbeatMs: 3_000,
        onMismatch: 'fail',
        ...change,
      },
      (event) => this.events.push(event),
      (at) => this.beats.push(at),
    )
    this.member.start()
  }

  get last(): GroupEvent | undefined {
    return this.events.at(-1)
  }

  get membership(): Membership {
    const joined = this.events.findLast((event) => event.type === 'joined')
    if (joined?.type !== 'joined') throw new Error('it has not joined')
    return joined.membership
  }

  count(type: GroupEvent['type']): number {
    return this.events.filter((event) => event.type === type).length
  }
}

const pass = (ms: number) => scene.time.advance(ms)

describe('a member', () => {
  test('alone leads, with one worker counted, and beats', async () => {
    const one = new Watched('one')
    await pass(20_000)
    expect(one.membership).toMatchObject({ leader: true, generation: 1, workers: 1 })
    expect(one.count('joined')).toBe(1)
    expect(one.beats.length).toBeGreaterThan(4)
    expect(await scene.run(scene.cluster.describeGroup('millrace.job'))).toMatchObject({
      protocolType: PROTOCOL_TYPE,
      protocol: 'graph-1',
    })
  })

  test('a newcomer is a follower; nobody loses anything, and all know how many they are', async () => {
    const one = new Watched('one')
    await pass(5_000)
    const two = new Watched('two')
    const three = new Watched('three')
    await pass(15_000)
    expect(one.membership).toMatchObject({ leader: true, workers: 3 })
    expect(two.membership).toMatchObject({ leader: false, workers: 3 })
    expect(three.membership).toMatchObject({ leader: false, workers: 3 })
    for (const watched of [one, two, three]) expect(watched.count('lost')).toBe(0)
  })

  test('keeps its member id through a rebalance', async () => {
    const one = new Watched('one')
    await pass(5_000)
    const { memberId } = one.membership
    new Watched('two')
    await pass(10_000)
    expect(one.membership.memberId).toBe(memberId)
  })

  test('leaves: the other leads soon after', async () => {
    const one = new Watched('one')
    await pass(5_000)
    const two = new Watched('two')
    await pass(10_000)
    await scene.run(one.member.leave())
    await pass(6_000)
    expect(two.membership).toMatchObject({ leader: true, workers: 1 })
    expect(one.count('lost')).toBe(0)
  })

  test('that dies is replaced after its session', async () => {
    const one = new Watched('one')
    await pass(5_000)
    const two = new Watched('two')
    await pass(10_000)
    one.client.kill()
    await pass(SESSION_MS + 6_000)
    expect(two.membership).toMatchObject({ leader: true, workers: 1 })
  })

  test('asked to leave while it joins leaves nothing behind', async () => {
    const one = new Watched('one')
    scene.kafka.intercept(({ api }) => (api === 'JoinGroup' ? { responseDelayMs: 1_000 } : 'pass'))
    await pass(500)
    await scene.run(one.member.leave())
    scene.kafka.intercept(undefined)
    await pass(500)
    expect((await scene.run(scene.cluster.describeGroup('millrace.job'))).members).toEqual([])
    expect(one.events).toEqual([])
  })
})

describe('silence', () => {
  test('a heartbeat counts from when it was sent: a slow answer does not hide how long ago that was', async () => {
    const one = new Watched('one')
    await pass(4_000)
    scene.kafka.intercept(({ api }) => (api === 'Heartbeat' ? { responseDelayMs: 2_500 } : 'pass'))
    await pass(20_000)
    const beats = one.beats.slice(2)
    for (let i = 1; i < beats.length; i++) expect(beats[i]! - beats[i - 1]!).toBeGreaterThan(2_000)
    // 3 s pause + 2.5 s answer: the last one noted was sent at least 2.5 s before it was noted.
    expect(scene.time.now() - beats.at(-1)!).toBeGreaterThanOrEqual(0)
    scene.kafka.isolate('one')
    const last = one.beats.at(-1)!
    await pass(4_000)
    expect(one.beats.at(-1)).toBe(last)
  })

  test('of a session time-out is told as lost, and the member joins again when it can', async () => {
    const one = new Watched('one')
    await pass(5_000)
    scene.kafka.isolate('one')
    await pass(25_000)
    expect(one.count('lost')).toBe(1)
    expect(one.events.find(({ type }) => type === 'lost')).toMatchObject({
      reason: expect.stringContaining('no heartbeat'),
    })
    scene.kafka.reconnect('one')
    await pass(70_000)
    expect(one.membership).toMatchObject({ leader: true })
    expect(one.count('joined')).toBe(2)
  })

  test('between its join and its assignment is ridden out, however long it lasts', async () => {
    let asked = 0
    // Longer than the port tries again by itself.
    scene.kafka.intercept(({ api }) => (api === 'SyncGroup' && ++asked > 0 ? 'drop-request' : 'pass'))
    const one = new Watched('one')
    await pass(150_000)
    expect(asked).toBeGreaterThan(1)
    scene.kafka.intercept(undefined)
    await pass(70_000)
    expect(one.count('failed')).toBe(0)
    expect(one.membership).toMatchObject({ leader: true })
  })

  test('of a moment is ridden out', async () => {
    const one = new Watched('one')
    await pass(5_000)
    scene.kafka.isolate('one')
    await pass(3_000)
    scene.kafka.reconnect('one')
    await pass(20_000)
    expect(one.count('lost')).toBe(0)
    expect(one.count('joined')).toBe(1)
  })

  test('a group that does not know the member any more is told as lost, with its reason', async () => {
    const one = new Watched('one')
    await pass(5_000)
    await scene.run(scene.cluster.leaveGroup({ groupId: 'millrace.job', memberId: one.membership.memberId }))
    await pass(10_000)
    expect(one.events.map(({ type }) => type)).toEqual(['joined', 'lost', 'joined'])
  })
})

describe('the proof of leadership', () => {
  test('is a heartbeat that succeeds now', async () => {
    const one = new Watched('one')
    await pass(1_000)
    const before = one.beats.length
    await scene.run(one.member.assertLeader())
    expect(one.beats.length).toBe(before + 1)
  })

  test('fails for a follower, before joining, and after the group forgot the member', async () => {
    const one = new Watched('one')
    await expect(one.member.assertLeader()).rejects.toThrow(/does not lead/)
    await pass(5_000)
    const two = new Watched('two')
    await pass(10_000)
    await expect(two.member.assertLeader()).rejects.toThrow(/does not lead/)
    await scene.run(scene.cluster.leaveGroup({ groupId: 'millrace.job', memberId: one.membership.memberId }))
    expect(await scene.failure(one.member.assertLeader())).toMatchObject({ brokerCode: 25 })
  })

  test('holds through a rebalance: the next generation decides who leads', async () => {
    const one = new Watched('one')
    await pass(5_000)
    scene.kafka.intercept(({ api, clientId }) =>
      api === 'JoinGroup' && clientId === 'one' ? { delayMs: 1_000 } : 'pass',
    )
    new Watched('two')
    await pass(200)
    await scene.run(one.member.assertLeader())
  })
})

describe('another graph under the same name', () => {
  test('is refused by the broker, waited for as long as a dead worker may stay, then a conflict; the running ones notice nothing', async () => {
    const one = new Watched('one')
    await pass(5_000)
    const other = new Watched('other', { fingerprint: 'graph-2' })
    await pass(12_000)
    expect(other.last).toEqual({ type: 'waiting', runningFingerprint: 'graph-1' })
    await pass(5_000)
    expect(other.last).toEqual({ type: 'conflict', runningFingerprint: 'graph-1' })
    await pass(10_000)
    expect(other.count('conflict')).toBe(1)
    expect(one.count('joined')).toBe(1)
  })

  test('that is dead makes room', async () => {
    const one = new Watched('one')
    await pass(5_000)
    one.client.kill()
    const other = new Watched('other', { fingerprint: 'graph-2' })
    await pass(16_000)
    expect(other.membership).toMatchObject({ leader: true })
    expect(other.count('conflict')).toBe(0)
  })

  test('is waited for without end when that is asked for', async () => {
    const one = new Watched('one')
    await pass(5_000)
    const other = new Watched('other', { fingerprint: 'graph-2', onMismatch: 'wait' })
    await pass(120_000)
    expect(other.count('conflict')).toBe(0)
    await scene.run(one.member.leave())
    await pass(5_000)
    expect(other.membership).toMatchObject({ leader: true })
  })

  test('met long after the start has the same patience as at the start', async () => {
    const one = new Watched('one')
    await pass(60_000)
    scene.kafka.isolate('one')
    await pass(SESSION_MS + 3_000)
    const other = new Watched('other', { fingerprint: 'graph-2' })
    await pass(5_000)
    expect(other.membership).toMatchObject({ leader: true })
    other.client.kill()
    scene.kafka.reconnect('one')
    await pass(90_000)
    expect(one.count('conflict')).toBe(0)
    expect(one.last).toMatchObject({ type: 'joined', membership: { leader: true } })
  })

  test('is only a message: a broker that does not describe the group does not end the member', async () => {
    const one = new Watched('one')
    await pass(5_000)
    scene.kafka.intercept(({ api, clientId }) =>
      api === 'DescribeGroups' && clientId === 'other' ? 'drop-request' : 'pass',
    )
    const other = new Watched('other', { fingerprint: 'graph-2', onMismatch: 'wait' })
    await pass(180_000)
    expect(other.count('failed')).toBe(0)
    expect(other.last).toEqual({ type: 'waiting', runningFingerprint: 'unknown' })
    expect(one.count('lost')).toBe(0)
  })
})

test('an error that trying again cannot help is told with its code', async () => {
  scene.kafka.intercept(({ api }) => (api === 'JoinGroup' ? { errorCode: 30 } : 'pass'))
  const one = new Watched('one')
  await pass(2_000)
  expect(one.events).toEqual([
    { type: 'failed', code: 'MILLRACE_KAFKA_UNAUTHORIZED', message: expect.stringContaining('millrace.job') },
  ])
})
