/**
 * The contract of the KafkaCluster port: one suite that runs on every implementation, so that the simulated brokers and the real ones can't
 * drift apart. Each test is a sentence about Kafka that Millrace relies on. Where a real broker disagrees, the suite is wrong.
 *
 * Topics, groups and ids are the run's own: the suite can share a broker with others.
 */
import { coordinatorContract } from './kafka-contract-coordinator.ts'
import { groupContract } from './kafka-contract-groups.ts'
import { logContract } from './kafka-contract-logs.ts'
import { type ContractFramework, ContractScene, type ContractSubject } from './kafka-contract-scene.ts'
import { topicContract } from './kafka-contract-topics.ts'
import { transactionContract } from './kafka-contract-transactions.ts'

/** Time that a single test may take unless it says otherwise; real brokers on a busy machine are slow. */
const TEST_TIMEOUT_MS = 30_000

/**
 * Declares the suite in a test framework.
 * @param name the implementation, for the suite's title
 * @param factory connects to brokers; called once
 * @param framework jest's functions or ones like them
 * @example kafkaClusterContract('simulated', async () => ({ cluster, another, close, waitMs }), { describe, test, expect, beforeAll, afterAll })
 */
export function kafkaClusterContract(
  name: string,
  factory: () => Promise<ContractSubject>,
  framework: ContractFramework,
): void {
  const withTimeout: ContractFramework = {
    ...framework,
    test: (title, body, timeoutMs = TEST_TIMEOUT_MS) => framework.test(title, body, timeoutMs),
  }
  framework.describe(`KafkaCluster contract: ${name}`, () => {
    let subject: ContractSubject | undefined
    let scene: ContractScene | undefined
    framework.beforeAll(async () => {
      subject = await factory()
      scene = new ContractScene(subject)
    }, TEST_TIMEOUT_MS)
    framework.afterAll(async () => {
      await subject?.close()
    }, TEST_TIMEOUT_MS)
    for (const part of [
      topicContract,
      logContract,
      transactionContract,
      coordinatorContract,
      groupContract,
    ]) {
      part(withTimeout, () => scene!)
    }
  })
}
