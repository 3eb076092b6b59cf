import { beforeEach, describe, expect, test } from '@jest/globals'
import type { CommandOutcome, CommandProgress, JobCommand, JobEvent } from '../../../src/core/job-control.ts'
import { MillraceError } from '../../../src/errors.ts'
import {
  type CommandWait,
  jobExists,
  knownJobs,
  liveWorkers,
  readEvents,
  sendCommand,
} from '../../../src/kafka/control-client.ts'
import { writeControlRecords } from '../../../src/kafka/control-records.ts'
import { ControlTopic } from '../../../src/kafka/control-topic.ts'
import type { KafkaCluster } from '../../../src/kafka/kafka-cluster.ts'
import { jobTopic, workerGroupId } from '../../../src/kafka/transactional-id.ts'
import type { SimulatedClient } from '../../../src/testing/simulated-client.ts'
import { overriding, SimulatedScene } from './simulated-scene.ts'

const TOPIC = jobTopic('totals', 'control')
const CHECKPOINT: JobCommand = { type: 'checkpoint' }

/** A worker process: its client, its end of the control topic, what it was told to do. */
interface Worker {
  readonly client: SimulatedClient
  readonly control: ControlTopic
  readonly obeyed: JobCommand[]
}

let scene: SimulatedScene
let operator: KafkaCluster
/** Members of the job's group, as the brokers tell it. */
let alive: number

beforeEach(() => {
  scene = new SimulatedScene()
  alive = 0
  const client = scene.kafka.client('operator')
  operator = overriding(client, {
    describeGroup: async (groupId) => {
      const group = await client.describeGroup(groupId)
      const member = { memberId: 'm', clientId: 'c', clientHost: 'h', metadata: Buffer.alloc(0) }
      return groupId === workerGroupId('totals') ? { ...group, members: Array(alive).fill(member) } : group
    },
  })
})

/** The error that a promise rejects with, without moving time. */
const caught = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

/** A worker that has joined the group, and does not lead. */
async function worker(name: string, cluster?: (client: SimulatedClient) => KafkaCluster): Promise<Worker> {
  const client = scene.kafka.client(name)
  const control = new ControlTopic({
    cluster: cluster?.(client) ?? client,
    jobName: 'totals',
    world: scene.world,
    replicationFactor: -1,
  })
  await scene.run(control.open())
  alive++
  return { client, control, obeyed: [] }
}

/** Lets a worker lead; it answers with `answer`. */
function lead({ control, obeyed }: Worker, answer: () => Promise<Record<string, unknown>>): void {
  control.serve((command) => {
    obeyed.push(command)
    return answer()
  })
}

const send = (command: JobCommand = CHECKPOINT, wait: Partial<CommandWait> = {}): Promise<CommandOutcome> =>
  sendCommand(operator, 'totals', command, scene.world, { by: 'ann@desk', acceptWithinMs: 5_000, ...wait })

const kindsInTopic = async (): Promise<string[]> =>
  (await scene.read(TOPIC, 0, 'read_uncommitted')).map(({ value }) => JSON.parse(value as string).kind)

const never = (): Promise<never> => new Promise(() => undefined)

describe('a command', () => {
  test('is done by the leader, and its result comes back', async () => {
    const leader = await worker('a')
    lead(leader, async () => ({ checkpoint: 7 }))
    let accepted = 0
    const outcome = await scene.run(send(CHECKPOINT, { onAccepted: () => accepted++ }))
    expect(outcome).toEqual({ type: 'done', result: { checkpoint: 7 } })
    expect(leader.obeyed).toEqual([CHECKPOINT])
    expect(accepted).toBe(1)
    expect(scene.lines.map(({ message }) => message)).toContain("command 'checkpoint' from ann@desk")
  })

  test('is done within two seconds of its sending', async () => {
    lead(await worker('a'), async () => ({}))
    const before = scene.time.now()
    await scene.run(send())
    expect(scene.time.now() - before).toBeLessThan(2_000)
  })

  test('that the job refuses comes back with the code and the words of the job', async () => {
    lead(await worker('a'), async () => {
      throw new MillraceError('MILLRACE_SAVEPOINT_DIRECTORY', 'no folder', { remedy: 'Name one.' })
    })
    expect(await scene.run(send())).toEqual({
      type: 'refused',
      failure: { code: 'MILLRACE_SAVEPOINT_DIRECTORY', message: 'no folder', remedy: 'Name one.' },
    })
  })

  test('that fails by a defect is refused as one', async () => {
    lead(await worker('a'), async () => {
      throw new TypeError('x is undefined')
    })
    expect(await scene.run(send())).toMatchObject({
      type: 'refused',
      failure: { code: 'MILLRACE_INTERNAL', message: 'x is undefined' },
    })
  })

  test('whose answer is too long for a record is refused instead of never being answered', async () => {
    lead(await worker('a'), async () => ({ text: 'x'.repeat(1_000_000) }))
    expect(await scene.run(send())).toMatchObject({
      type: 'refused',
      failure: { message: expect.stringContaining('too long') },
    })
  })

  test('is done once: a later leader passes over what was answered', async () => {
    const [first, second] = [await worker('a'), await worker('b')]
    lead(first, async () => ({}))
    await scene.run(send())
    first.control.pause()
    lead(second, async () => ({}))
    await scene.run(send({ type: 'cancel' }))
    expect(first.obeyed).toEqual([CHECKPOINT])
    expect(second.obeyed).toEqual([{ type: 'cancel' }])
  })

  test('whose leader dies over it is done by the successor, and the sender gets its answer', async () => {
    const [first, second] = [await worker('a'), await worker('b')]
    lead(first, never)
    const outcome = send()
    await scene.time.advance(1_000)
    expect(first.obeyed).toEqual([CHECKPOINT])
    first.client.kill()
    lead(second, async () => ({ by: 'b' }))
    expect(await scene.run(outcome)).toEqual({ type: 'done', result: { by: 'b' } })
  })

  test('whose leader dies over it, with a successor that came after it, is said to be lost', async () => {
    const first = await worker('a')
    lead(first, never)
    const outcome = caught(send(CHECKPOINT, { acceptWithinMs: 15_000 }))
    await scene.time.advance(1_000)
    const second = await worker('b')
    first.control.pause()
    lead(second, async () => ({}))
    expect(await scene.run(outcome)).toMatchObject({
      code: 'MILLRACE_COMMAND_UNANSWERED',
      message: expect.stringContaining('what came of it is not known'),
    })
    expect(second.obeyed).toEqual([])
  })

  test('that takes long is not given up: the leader says again and again that it does it', async () => {
    const leader = await worker('a')
    lead(leader, () => scene.world.timers.sleep(120_000).then(() => ({ checkpoint: 7 })))
    expect(await scene.run(send(CHECKPOINT, { acceptWithinMs: 15_000 }))).toMatchObject({ type: 'done' })
  })

  test('that takes long tells its sender every 5 s how the job stands', async () => {
    const leader = await worker('a')
    const progress = {
      status: 'RUNNING',
      pending: [{ n: 7, phase: 'collecting', ms: 1, missing: ['a'] }],
    } as const
    leader.control.serve(
      Object.assign(() => scene.world.timers.sleep(21_000).then(() => ({ checkpoint: 7 })), {
        progress: () => progress,
      }),
    )
    const told: CommandProgress[] = []
    await scene.run(send(CHECKPOINT, { onProgress: (each) => told.push(each) }))
    expect(told).toEqual(Array(4).fill(progress))
  })

  test('is not answered by a leader that has lost the job meanwhile', async () => {
    const [first, second] = [await worker('a'), await worker('b')]
    const refused = Promise.withResolvers<Record<string, unknown>>()
    lead(first, () => refused.promise)
    const outcome = send()
    await scene.time.advance(1_000)
    first.control.pause()
    refused.reject(new Error('the job is FINISHED'))
    await scene.time.advance(1_000)
    lead(second, async () => ({ by: 'b' }))
    expect(await scene.run(outcome)).toEqual({ type: 'done', result: { by: 'b' } })
  })

  test('that a leader lost is done by it when it leads again, unless somebody has answered it', async () => {
    const [first, second] = [await worker('a'), await worker('b')]
    lead(first, never)
    const outcome = send()
    await scene.time.advance(1_000)
    first.control.pause()
    lead(second, async () => ({ by: 'b' }))
    expect(await scene.run(outcome)).toEqual({ type: 'done', result: { by: 'b' } })
    lead(first, async () => ({ by: 'a' }))
    const later = send({ type: 'info' })
    expect(await scene.run(later)).toMatchObject({ type: 'done' })
    expect(first.obeyed.filter(({ type }) => type === 'checkpoint')).toHaveLength(1)
  })

  test('that a repeated request wrote twice is done once', async () => {
    const leader = await worker('a')
    lead(leader, async () => ({ checkpoint: 7 }))
    await scene.run(send())
    const [sent] = await scene.read(TOPIC, 0, 'read_uncommitted')
    const record = JSON.parse(sent?.value as string)
    await scene.run(writeControlRecords(operator, TOPIC, [record], record.at))
    await scene.run(send({ type: 'info' }))
    expect(leader.obeyed).toEqual([CHECKPOINT, { type: 'info' }])
  })

  test('from before a worker joined is not its to do', async () => {
    await worker('a')
    const outcome = caught(send(CHECKPOINT, { acceptWithinMs: 600_000 }))
    await scene.time.advance(100)
    const late = await worker('b')
    lead(late, async () => ({}))
    await scene.time.advance(2_000)
    expect(late.obeyed).toEqual([])
    alive = 0
    expect(await scene.run(outcome)).toMatchObject({ code: 'MILLRACE_NO_SUCH_JOB' })
  })

  test('to a job that was paused and leads again is done', async () => {
    const leader = await worker('a')
    lead(leader, async () => ({}))
    leader.control.pause()
    lead(leader, async () => ({ again: true }))
    expect(await scene.run(send())).toEqual({ type: 'done', result: { again: true } })
  })

  test('survives a topic that cannot be read for a while', async () => {
    let refusals = 2
    const leader = await worker('a', (client) =>
      overriding(client, {
        fetch: async (request) => {
          if (refusals-- > 0) throw new Error('the disk is on fire')
          return client.fetch(request)
        },
      }),
    )
    lead(leader, async () => ({}))
    expect(await scene.run(send(CHECKPOINT, { acceptWithinMs: 30_000 }))).toMatchObject({ type: 'done' })
    expect(scene.warnings()).toEqual(Array(2).fill(`cannot read commands from ${TOPIC}; trying again`))
  })
})

describe('a command that nobody can do is said to be so, and never acts later', () => {
  test('no topic: no such job', async () => {
    expect(await scene.failure(send())).toMatchObject({
      code: 'MILLRACE_NO_SUCH_JOB',
      message: "no worker of a job 'totals' is alive; nothing was done",
    })
  })

  test('no worker: no such job, and nothing is written', async () => {
    await worker('a')
    alive = 0
    expect(await scene.run(liveWorkers(operator, 'totals'))).toBe(0)
    expect(await scene.failure(send())).toMatchObject({ code: 'MILLRACE_NO_SUCH_JOB' })
    expect(await kindsInTopic()).toEqual([])
  })

  test('a worker that does not answer: withdrawn, and a leader that comes later leaves it alone', async () => {
    const standby = await worker('a')
    const silent: number[] = []
    const failure = await scene.failure(send(CHECKPOINT, { onSilence: (ms) => silent.push(ms) }))
    expect(failure).toMatchObject({
      code: 'MILLRACE_COMMAND_UNANSWERED',
      message: expect.stringMatching(
        /1 live worker, but none answered 'checkpoint' within \d+ s; the command was withdrawn/,
      ),
    })
    expect(silent.length).toBeGreaterThan(1)
    expect(await kindsInTopic()).toEqual(['command', 'withdrawn'])
    lead(standby, async () => ({}))
    await scene.time.advance(3_000)
    expect(standby.obeyed).toEqual([])
    expect(await scene.run(send({ type: 'cancel' }))).toMatchObject({ type: 'done' })
  })

  test('the last worker goes away over it: what came of it is not known', async () => {
    const leader = await worker('a')
    lead(leader, never)
    const failure = caught(send({ type: 'stop', drain: false }))
    await scene.time.advance(500)
    leader.client.kill()
    alive = 0
    expect(await scene.run(failure)).toMatchObject({
      code: 'MILLRACE_NO_SUCH_JOB',
      message: expect.stringContaining("went away while it was doing 'stop'"),
      remedy: expect.stringContaining('millrace checkpoints list totals'),
    })
  })

  test('the last answer of a job that ends is not missed', async () => {
    const leader = await worker('a')
    lead(leader, async () => ({ status: 'CANCELED' }))
    const outcome = send({ type: 'cancel' })
    await scene.time.advance(50)
    alive = 0
    expect(await scene.run(outcome)).toEqual({ type: 'done', result: { status: 'CANCELED' } })
  })
})

describe('a sender that is interrupted', () => {
  test('before the leader heard it withdraws the command', async () => {
    const standby = await worker('a')
    let stop = false
    const failure = caught(send(CHECKPOINT, { interrupted: () => stop }))
    await scene.time.advance(500)
    stop = true
    expect(await scene.run(failure)).toMatchObject({
      code: 'MILLRACE_COMMAND_UNANSWERED',
      message: expect.stringContaining('withdrawn before'),
    })
    lead(standby, async () => ({}))
    await scene.time.advance(2_000)
    expect(standby.obeyed).toEqual([])
  })

  test('afterwards leaves the job to it, and finds what came of it among the events', async () => {
    const leader = await worker('a')
    const work = Promise.withResolvers<Record<string, unknown>>()
    lead(leader, () => work.promise)
    let stop = false
    const failure = caught(send(CHECKPOINT, { interrupted: () => stop }))
    await scene.time.advance(1_000)
    stop = true
    expect(await scene.run(failure)).toMatchObject({
      message: "job 'totals' goes on doing 'checkpoint'; nobody waits for its answer any more",
    })
    work.resolve({ checkpoint: 3 })
    await scene.time.advance(1_000)
    const told: JobEvent[] = []
    const read = async (): Promise<void> => {
      for await (const event of readEvents(operator, 'totals', { follow: false, fromNow: false }))
        told.push(event)
    }
    await scene.run(read())
    expect(told).toMatchObject([
      {
        type: 'command',
        message: "command 'checkpoint' from ann@desk: done",
        details: { result: { checkpoint: 3 } },
      },
    ])
  })
})

describe('what others write to the topic', () => {
  test('is passed over: no JSON, no object, unknown kinds, newer formats', async () => {
    const leader = await worker('a')
    lead(leader, async () => ({}))
    await scene.produce(TOPIC, [
      { key: 'x', value: 'no json' },
      { key: 'x', value: 'null' },
      { key: 'x', value: '{"format":1,"kind":"other"}' },
      {
        key: 'x',
        value: '{"format":2,"kind":"command","id":"i","command":{"type":"cancel"},"by":"eve","at":1}',
      },
    ])
    expect(await scene.run(send())).toMatchObject({ type: 'done' })
    expect(leader.obeyed).toEqual([CHECKPOINT])
  })

  test('with several partitions the topic is refused', async () => {
    await scene.topic(TOPIC, 2)
    const control = new ControlTopic({
      cluster: scene.cluster,
      jobName: 'totals',
      world: scene.world,
      replicationFactor: 1,
    })
    expect(await scene.failure(control.open())).toMatchObject({
      code: 'MILLRACE_INVALID_OPTION',
      message: expect.stringContaining('2 partitions'),
    })
  })
})

describe('closing', () => {
  test('waits for the answer of a command under way', async () => {
    const leader = await worker('a')
    const work = Promise.withResolvers<Record<string, unknown>>()
    lead(leader, () => work.promise)
    const outcome = send()
    await scene.time.advance(1_000)
    const closed = leader.control.close(5_000)
    work.resolve({ late: true })
    await scene.run(closed)
    expect(await scene.run(outcome)).toEqual({ type: 'done', result: { late: true } })
  })

  test('waits no longer than it may', async () => {
    const leader = await worker('a')
    lead(leader, never)
    void caught(send(CHECKPOINT, { acceptWithinMs: 600_000 }))
    await scene.time.advance(1_000)
    const before = scene.time.now()
    await scene.run(leader.control.close(1_500))
    expect(scene.time.now() - before).toBeLessThanOrEqual(1_500)
  })

  test('writes the events that wait, and takes no more', async () => {
    const { control } = await worker('a')
    control.publish({ at: 1, type: 'status', message: 'CREATED → RUNNING' })
    await scene.run(control.close(1_000))
    control.publish({ at: 2, type: 'status', message: 'too late' })
    await scene.time.advance(1_000)
    expect(await kindsInTopic()).toEqual(['event'])
  })
})

describe('events', () => {
  const event = (n: number): JobEvent => ({ at: n, type: 'status', message: `event ${n}`, details: { n } })

  async function collect(follow: boolean, fromNow: boolean, enough: number): Promise<number[]> {
    const seen: number[] = []
    for await (const { at } of readEvents(operator, 'totals', { follow, fromNow })) {
      seen.push(at)
      if (seen.length === enough) break
    }
    return seen
  }

  test('are read from the oldest one up to the present end', async () => {
    const { control } = await worker('a')
    for (const n of [1, 2, 3]) control.publish(event(n))
    await scene.time.advance(1_000)
    control.publish(event(4))
    await scene.time.advance(1_000)
    expect(await scene.run(collect(false, false, 99))).toEqual([1, 2, 3, 4])
  })

  test('are followed as they come, from now on if asked', async () => {
    const { control } = await worker('a')
    control.publish(event(1))
    await scene.time.advance(1_000)
    const all = collect(true, false, 2)
    const fresh = collect(true, true, 1)
    await scene.time.advance(1_000)
    control.publish(event(2))
    expect(await scene.run(all)).toEqual([1, 2])
    expect(await scene.run(fresh)).toEqual([2])
  })

  test('of a job that never was are an error', async () => {
    expect(await scene.failure(collect(false, false, 1))).toMatchObject({ code: 'MILLRACE_NO_SUCH_JOB' })
  })
})

test('the jobs of a cluster are those with a checkpoint topic', async () => {
  for (const topic of ['millrace.b.checkpoints', 'millrace.a.checkpoints', 'millrace.a.control', 'orders'])
    await scene.topic(topic)
  expect(await scene.run(knownJobs(operator))).toEqual(['a', 'b'])
  expect(await scene.run(jobExists(operator, 'a'))).toBe(true)
  expect(await scene.run(jobExists(operator, 'c'))).toBe(false)
})
