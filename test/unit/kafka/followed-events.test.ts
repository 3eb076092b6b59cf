import { expect, test } from '@jest/globals'
import { readEvents } from '../../../src/kafka/control-client.ts'
import { ControlTopic } from '../../../src/kafka/control-topic.ts'
import { overriding, SimulatedScene } from './simulated-scene.ts'

const MEMBER = { memberId: 'm', clientId: 'c', clientHost: 'h', metadata: Buffer.alloc(0) }

test('who follows the events of a job is told once that nobody is alive, and again when that has changed', async () => {
  const scene = new SimulatedScene()
  let alive = 1
  let told = 0
  const seen: number[] = []
  const control = new ControlTopic({
    cluster: scene.kafka.client('a'),
    jobName: 'totals',
    world: scene.world,
    replicationFactor: -1,
  })
  await scene.run(control.open())
  const event = (at: number) => ({ at, type: 'status', message: 'x' }) as const
  const cluster = overriding(scene.cluster, {
    describeGroup: async (groupId) => ({
      ...(await scene.cluster.describeGroup(groupId)),
      members: Array(alive).fill(MEMBER),
    }),
  })
  const following = (async () => {
    for await (const { at } of readEvents(cluster, 'totals', {
      follow: true,
      fromNow: true,
      onNobody: () => told++,
    }))
      if (seen.push(at) === 2) return
  })()
  await scene.time.advance(5_000)
  expect(told).toBe(0)
  alive = 0
  await scene.time.advance(20_000)
  expect(told).toBe(1)
  alive = 1
  await scene.time.advance(5_000)
  control.publish(event(1))
  await scene.time.advance(5_000)
  alive = 0
  await scene.time.advance(20_000)
  expect(told).toBe(2)
  control.publish(event(2))
  await scene.run(following)
  expect(seen).toEqual([1, 2])
})
