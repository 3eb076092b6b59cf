import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { kafkaClusterContract } from '../../src/testing/kafka-cluster-contract.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'
import { SimulatedKafka } from '../../src/testing/simulated-cluster.ts'
import { VirtualTime } from '../../src/testing/virtual-time.ts'

const framework = { describe, test, expect, beforeAll, afterAll }

for (const brokers of [1, 3]) {
  kafkaClusterContract(
    `simulated, ${brokers} broker(s)`,
    async () => {
      const time = new VirtualTime()
      const random = new SeededRandom(brokers)
      const kafka = new SimulatedKafka({
        clock: time,
        timers: time,
        random,
        brokers,
        configs: { 'default.replication.factor': String(brokers) },
      })
      const stop = time.startAutoAdvance()
      let clients = 0
      const another = async () => kafka.client(`client-${++clients}`)
      return { cluster: await another(), another, close: stop, waitMs: (ms) => time.sleep(ms) }
    },
    framework,
  )
}
