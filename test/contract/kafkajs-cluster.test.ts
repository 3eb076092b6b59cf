import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { KafkajsCluster } from '../../src/kafka/kafkajs/kafkajs-cluster.ts'
import { kafkaClusterContract } from '../../src/testing/kafka-cluster-contract.ts'
import { newCluster } from '../integration/kafka/real-kafka.ts'

kafkaClusterContract(
  'kafkajs on real brokers',
  async () => {
    const clients: KafkajsCluster[] = []
    const another = async () => {
      const cluster = newCluster()
      clients.push(cluster)
      await cluster.connect()
      return cluster
    }
    return {
      cluster: await another(),
      another,
      close: async () => {
        await Promise.all(clients.map((client) => client.close()))
      },
      waitMs: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    }
  },
  { describe, test, expect, beforeAll, afterAll },
)
