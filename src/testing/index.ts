/** The public test kit: `import … from 'millrace/testing'`. Jobs and operators are tested without a broker, with time under control. */

// Whole jobs.
export type { DeclareJob, JobStart } from './captured-job.ts'
// Operators alone.
export type { BuildOperator, BuildTwoInputOperator } from './declared-operator.ts'
// What authors of a client for other brokers, or of a state backend, hold theirs to.
export { kafkaClusterContract } from './kafka-cluster-contract.ts'
export type { ContractFramework, ContractSubject } from './kafka-contract-scene.ts'
export { type HarnessOptions, type HarnessSnapshot, OperatorHarness } from './operator-harness.ts'
export type { LogLine } from './recorded-log.ts'
export type { EmittedRecord } from './recording-output.ts'
// What both are made of.
export { SeededRandom } from './seeded-random.ts'
export { SimulatedKafka, type SimulatedKafkaOptions } from './simulated-cluster.ts'
export {
  type ContractFramework as StateBackendContractFramework,
  type StateBackendContractOptions,
  stateBackendContract,
} from './state-backend-contract.ts'
export { type RestartOptions, type StartChanges, TestDriver, type TestDriverOptions } from './test-driver.ts'
export type { CommittedRecord, TestRecord, TestTopic } from './test-topics.ts'
export { VirtualTime } from './virtual-time.ts'
