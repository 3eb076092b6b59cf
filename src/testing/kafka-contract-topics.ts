/**
 * Contract of the KafkaCluster port: topics, settings, closing.
 */
import { KafkaCode } from '../kafka/kafka-cluster.ts'
import { type ContractFramework, codeOf, type SceneOf } from './kafka-contract-scene.ts'

/** Declares the tests. */
export function topicContract({ describe, test, expect }: ContractFramework, scene: SceneOf): void {
  describe('topics', () => {
    test('a created topic is described with its partitions, their leaders and an id', async () => {
      const { cluster } = scene()
      const topic = await scene().topic(3)
      const [described, ...others] = await cluster.describeTopics([topic, scene().name('nowhere')])
      expect(others).toEqual([])
      expect(described!.topic).toBe(topic)
      expect(described!.internal).toBe(false)
      expect(described!.topicId.length).toBe(22)
      expect(described!.partitions.map(({ partition }) => partition)).toEqual([0, 1, 2])
      const nodes = (await cluster.describeCluster()).brokers.map(({ nodeId }) => nodeId)
      for (const { partition, leader, replicas, isr } of described!.partitions) {
        expect(nodes).toContain(leader)
        expect(replicas).toContain(leader)
        expect(isr).toContain(leader)
        expect(await cluster.leaderOf(topic, partition)).toBe(leader)
      }
    })

    test('without names all topics are described', async () => {
      const topic = await scene().topic()
      expect((await scene().cluster.describeTopics()).map((described) => described.topic)).toContain(topic)
    })

    test('creating a topic that exists leaves it as it is', async () => {
      const { cluster } = scene()
      const topic = await scene().topic(2)
      const before = await cluster.describeTopics([topic])
      await cluster.createTopics([{ topic, partitions: 5, replicationFactor: -1 }])
      expect(await cluster.describeTopics([topic])).toEqual(before)
    })

    test('creating a topic for a trial creates nothing, and is refused as the creation would be', async () => {
      const { cluster } = scene()
      const topic = scene().name('trial')
      const trial = { topic, partitions: 1, replicationFactor: 1 }
      await cluster.createTopics([trial], { validateOnly: true })
      expect(await cluster.describeTopics([topic])).toEqual([])
      const tooMany = { ...trial, replicationFactor: 99 }
      expect(await codeOf(cluster.createTopics([tooMany], { validateOnly: true }))).toBe(
        KafkaCode.INVALID_REPLICATION_FACTOR,
      )
    })

    test('a topic that was deleted and created again has another id and is empty', async () => {
      const { cluster } = scene()
      const topic = await scene().topic()
      await scene().store(topic, ['old'])
      const [before] = await cluster.describeTopics([topic])
      await cluster.deleteTopics([topic])
      await scene().until(
        `${topic} is gone`,
        async () => (await cluster.describeTopics([topic])).length === 0,
      )
      await cluster.createTopics([{ topic, partitions: 1, replicationFactor: -1 }])
      const [after] = await cluster.describeTopics([topic])
      expect(after!.topicId).not.toBe(before!.topicId)
      expect((await scene().read(topic, 'read_uncommitted')).values).toEqual([])
    })

    test('a topic can grow, and what was stored stays', async () => {
      const { cluster } = scene()
      const topic = await scene().topic()
      await scene().store(topic, ['kept'])
      await cluster.createPartitions(topic, 3)
      await scene().until('three partitions have leaders', async () => {
        const [described] = await cluster.describeTopics([topic])
        return described!.partitions.filter(({ leader }) => leader >= 0).length === 3
      })
      expect((await scene().read(topic, 'read_uncommitted')).values).toEqual(['kept'])
    })

    test('settings of topics and brokers are told by name', async () => {
      const { cluster } = scene()
      const topic = await scene().topic(1, { 'cleanup.policy': 'compact' })
      const names = ['cleanup.policy', 'min.insync.replicas']
      const settings = await cluster.describeConfigs({ type: 'topic', name: topic }, names)
      expect([...settings].sort((a, b) => a.name.localeCompare(b.name)).map(({ name }) => name)).toEqual(
        names,
      )
      expect(settings.find(({ name }) => name === 'cleanup.policy')!.value).toBe('compact')
      const node = String((await cluster.describeCluster()).brokers[0]!.nodeId)
      const [limit] = await cluster.describeConfigs({ type: 'broker', name: node }, [
        'transaction.max.timeout.ms',
      ])
      expect(Number(limit!.value)).toBeGreaterThan(0)
    })

    test('a partition of a topic that does not exist has no leader to be found', async () => {
      const nowhere = scene().name('nowhere')
      expect(await codeOf(scene().cluster.leaderOf(nowhere, 0))).toBe(KafkaCode.UNKNOWN_TOPIC_OR_PARTITION)
    })
  })

  describe('closing', () => {
    test('close rejects what is pending and what comes later', async () => {
      const topic = await scene().topic()
      const cluster = await scene().another()
      await cluster.leaderOf(topic, 0)
      const partitions = [{ topic, partition: 0, offset: 0n, maxBytes: 1_000 }]
      const poll = cluster.fetch({
        isolation: 'read_committed',
        partitions,
        maxWaitMs: 20_000,
        minBytes: 1,
        maxBytes: 1_000,
      })
      const pending = poll.then(
        () => 'answered',
        (error: { code: string }) => error.code,
      )
      await scene().waitMs(100)
      await cluster.close()
      expect(await pending).toBe('MILLRACE_KAFKA_UNREACHABLE')
      const later = cluster.describeCluster().then(
        () => 'answered',
        (error: { code: string }) => error.code,
      )
      expect(await later).toBe('MILLRACE_KAFKA_UNREACHABLE')
    })
  })
}
