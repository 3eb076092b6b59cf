import { expect, test } from '@jest/globals'
import { CheckpointConfig } from '../../../src/api/checkpoint-config.ts'
import { RestartStrategies } from '../../../src/api/restart-strategies.ts'
import { restartStrategyOptions, SettingsRecord } from '../../../src/api/settings.ts'
import { settingsOfCode } from '../../../src/config/setting.ts'
import { resolveConfig } from '../../../src/config.ts'
import { CheckpointingMode, ExternalizedCheckpointCleanup } from '../../../src/index.ts'

test.each([
  RestartStrategies.fixedDelay(3, 10_000),
  RestartStrategies.exponentialDelay({ attempts: 5 }),
  RestartStrategies.exponentialDelay(),
  RestartStrategies.failureRate(3, 60_000, 1_000),
  RestartStrategies.none(),
])('every setting of the restart strategy $kind is an option and fits it', (strategy) => {
  const config = resolveConfig(settingsOfCode(restartStrategyOptions(strategy)))
  expect(config.get('restart-strategy.type')).toBe(strategy.kind)
  expect(config.findings).toEqual([])
})

test('every setter of CheckpointConfig sets an option, to the value that was given', () => {
  const record = new SettingsRecord()
  const checkpoints = new CheckpointConfig(record)
  checkpoints.setCheckpointingMode(CheckpointingMode.AT_LEAST_ONCE)
  checkpoints.setCheckpointTimeout(60_000)
  checkpoints.setMinPauseBetweenCheckpoints(500)
  checkpoints.setMaxConcurrentCheckpoints(1)
  checkpoints.enableExternalizedCheckpoints(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
  checkpoints.setFailOnCheckpointingErrors(false)
  checkpoints.enableUnalignedCheckpoints(false)
  const config = resolveConfig(settingsOfCode(record.toRecord()))
  expect(config.get('execution.checkpointing.mode')).toBe('AT_LEAST_ONCE')
  expect(config.get('execution.checkpointing.timeout')).toBe(60_000)
  expect(config.get('execution.checkpointing.min-pause')).toBe(500)
  expect(config.get('execution.checkpointing.externalized-checkpoint-retention')).toBe(
    'RETAIN_ON_CANCELLATION',
  )
  expect(config.get('execution.checkpointing.tolerable-failed-checkpoints')).toBeGreaterThan(1_000_000)
})
