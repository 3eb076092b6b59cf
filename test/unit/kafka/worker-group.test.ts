import { beforeEach, describe, expect, test } from '@jest/globals'
import type { GroupEvent, GroupMemberOptions } from '../../../src/kafka/group-member.ts'
import type { FromMember, MemberLink, ToMember } from '../../../src/kafka/group-messages.ts'
import { WorkerGroup } from '../../../src/kafka/worker-group.ts'
import { SimulatedScene } from './simulated-scene.ts'

const OPTIONS: GroupMemberOptions = {
  groupId: 'millrace.job',
  fingerprint: 'graph-1',
  incarnation: 'i',
  sessionTimeoutMs: 10_000,
  rebalanceTimeoutMs: 2_000,
  heartbeatMs: 3_000,
  onMismatch: 'fail',
}

/** A membership thread that says what the test tells it to. */
class RecordingLink implements MemberLink {
  readonly sent: ToMember[] = []
  onMessage: ((message: FromMember) => void) | undefined
  beatAt = 0
  terminated = false
  send(message: ToMember): void {
    this.sent.push(message)
  }
  lastBeat(): number {
    return this.beatAt
  }
  terminate(): void {
    this.terminated = true
  }
  say(event: GroupEvent): void {
    this.onMessage!({ type: 'event', event })
  }
  join(leader: boolean, workers = 1, generation = 1): void {
    this.say({ type: 'joined', membership: { leader, workers, generation, memberId: 'm' } })
  }
}

let scene: SimulatedScene
let link: RecordingLink
let group: WorkerGroup
let lost: string[]

beforeEach(() => {
  scene = new SimulatedScene()
  link = new RecordingLink()
  group = new WorkerGroup(link, OPTIONS, scene.world)
  lost = []
  group.onLost = (reason) => lost.push(reason)
})

describe('leading', () => {
  test('begins when the group chose this worker, also for those who ask later', async () => {
    const first = group.lead()
    link.join(true, 3)
    await first
    await group.lead()
    expect(group.workers).toBe(3)
  })

  test('goes on through rebalances that keep it', async () => {
    link.join(true, 1)
    await group.lead()
    link.join(true, 2, 2)
    expect(lost).toEqual([])
    expect(group.workers).toBe(2)
  })

  test('ends when another one is chosen, or the member is lost; then it can be won again', async () => {
    link.join(true)
    link.join(false, 2, 2)
    expect(lost).toEqual(['another worker was chosen to lead'])
    let led = false
    const again = group.lead().then(() => {
      led = true
    })
    await scene.time.advance(10)
    expect(led).toBe(false)
    link.join(true, 1, 3)
    await again
    link.say({ type: 'lost', reason: 'no heartbeat' })
    expect(lost).toEqual(['another worker was chosen to lead', 'no heartbeat'])
  })

  test('a follower that loses its membership has lost nothing', () => {
    link.join(false)
    link.say({ type: 'lost', reason: 'x' })
    expect(lost).toEqual([])
  })

  test('a standby says so once', () => {
    link.join(false)
    link.join(false, 2, 2)
    expect(scene.lines.filter(({ level }) => level === 'info').map(({ message }) => message)).toEqual([
      'another worker leads this job: standing by',
    ])
  })
})

describe('failures', () => {
  test('a conflict names both fingerprints, for all who wait and will wait', async () => {
    const waiting = group.lead()
    link.say({ type: 'waiting', runningFingerprint: 'graph-2' })
    link.say({ type: 'conflict', runningFingerprint: 'graph-2' })
    const conflict = { code: 'MILLRACE_JOB_CONFLICT', message: expect.stringMatching(/graph-2.*graph-1/) }
    await expect(waiting).rejects.toMatchObject(conflict)
    await expect(group.lead()).rejects.toMatchObject(conflict)
    expect(scene.lines.map(({ message }) => message).join()).toContain('waiting')
  })

  test.each([
    ['MILLRACE_KAFKA_UNAUTHORIZED', 'MILLRACE_KAFKA_UNAUTHORIZED'],
    ['SOMETHING_ELSE', 'MILLRACE_INTERNAL'],
  ])(
    'a membership that failed with %s is an error with code %s, and leadership is lost',
    async (code, expected) => {
      link.join(true)
      const asserting = group.assertLeader()
      link.say({ type: 'failed', message: 'no rights', code })
      expect(lost).toHaveLength(1)
      await expect(asserting).rejects.toMatchObject({ code: 'MILLRACE_ATTEMPT_LOST' })
      await expect(group.assertLeader()).rejects.toMatchObject({ code: 'MILLRACE_ATTEMPT_LOST' })
      await expect(group.lead()).rejects.toMatchObject({
        code: expected,
        message: expect.stringContaining('no rights'),
      })
    },
  )
})

describe('the proof of leadership', () => {
  test('is asked of the member, each time anew', async () => {
    link.join(true)
    const [first, second] = [group.assertLeader(), group.assertLeader()]
    expect(link.sent).toEqual([
      { type: 'assert-leader', id: 0 },
      { type: 'assert-leader', id: 1 },
    ])
    link.onMessage!({ type: 'asserted', id: 1, error: 'not any more' })
    link.onMessage!({ type: 'asserted', id: 0, error: undefined })
    await first
    await expect(second).rejects.toMatchObject({
      code: 'MILLRACE_ATTEMPT_LOST',
      message: expect.stringContaining('not any more'),
    })
  })
})

describe('silence and leaving', () => {
  test('silence is the time since the last heartbeat', async () => {
    link.beatAt = scene.time.now()
    await scene.time.advance(1_234)
    expect(group.silentFor()).toBe(1_234)
  })

  test('leaving waits for the member, then ends it; what was open is answered', async () => {
    link.join(true)
    const asserting = scene.failure(group.assertLeader())
    const leaving = group.leave()
    expect(link.sent.at(-1)).toEqual({ type: 'leave' })
    expect(link.terminated).toBe(false)
    link.onMessage!({ type: 'left' })
    expect(await asserting).toMatchObject({ message: expect.stringContaining('has left') })
    await leaving
    expect(link.terminated).toBe(true)
    await expect(group.assertLeader()).rejects.toMatchObject({ code: 'MILLRACE_ATTEMPT_LOST' })
    await group.leave()
    expect(link.sent.filter(({ type }) => type === 'leave')).toHaveLength(1)
  })

  test('a member that does not answer is not waited for longer than 1.5 s', async () => {
    const at = scene.time.now()
    await scene.run(group.leave())
    expect(scene.time.now() - at).toBe(1_500)
    expect(link.terminated).toBe(true)
  })

  test('what the member says after leaving changes nothing', async () => {
    await scene.run(group.leave())
    link.join(true)
    expect(lost).toEqual([])
    link.say({ type: 'failed', message: 'x', code: 'x' })
    expect(lost).toEqual([])
  })

  test('lines of the member go to the log', () => {
    link.onMessage!({ type: 'log', level: 'warn', message: 'from the thread', fields: undefined })
    expect(scene.warnings()).toEqual(['from the thread'])
  })
})
