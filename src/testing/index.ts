/** The public test kit: `import … from 'millrace/testing'`. Jobs and operators are tested without a broker, with time under control. */
export { kafkaClusterContract } from './kafka-cluster-contract.ts'
export type { ContractFramework, ContractSubject } from './kafka-contract-scene.ts'
export { OperatorHarness } from './operator-harness.ts'
export { SeededRandom } from './seeded-random.ts'
export { SimulatedKafka } from './simulated-cluster.ts'
export { VirtualTime } from './virtual-time.ts'
