import { describe, expect, test } from '@jest/globals'
import { CheckpointConfig, CheckpointingMode, ExternalizedCheckpointCleanup } from 'millrace'
import { SettingsRecord } from '../../../src/api/settings.ts'

const make = (initial = {}) => new CheckpointConfig(new SettingsRecord(initial))

describe('checkpoint settings', () => {
  test('have the defaults of Flink', () => {
    const config = make()
    expect(config.isCheckpointingEnabled()).toBe(false)
    expect(config.getCheckpointInterval()).toBe(0)
    expect(config.getCheckpointingMode()).toBe(CheckpointingMode.EXACTLY_ONCE)
    expect(config.getCheckpointTimeout()).toBe(600_000)
    expect(config.getMinPauseBetweenCheckpoints()).toBe(0)
    expect(config.getMaxConcurrentCheckpoints()).toBe(1)
    expect(config.getTolerableCheckpointFailureNumber()).toBe(0)
    expect(config.isFailOnCheckpointingErrors()).toBe(true)
    expect(config.getExternalizedCheckpointCleanup()).toBe(
      ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION,
    )
    expect(config.isExternalizedCheckpointsEnabled()).toBe(false)
    expect(config.isUnalignedCheckpointsEnabled()).toBe(false)
  })

  test('are read back', () => {
    const config = make()
      .setCheckpointInterval(10)
      .setCheckpointingMode('AT_LEAST_ONCE')
      .setCheckpointTimeout(20)
    expect([
      config.getCheckpointInterval(),
      config.getCheckpointingMode(),
      config.getCheckpointTimeout(),
    ]).toEqual([10, 'AT_LEAST_ONCE', 20])
    expect(config.isCheckpointingEnabled()).toBe(true)
    expect(
      config.enableExternalizedCheckpoints('RETAIN_ON_CANCELLATION').isExternalizedCheckpointsEnabled(),
    ).toBe(true)
    expect(config.enableUnalignedCheckpoints().isUnalignedCheckpointsEnabled()).toBe(true)
    expect(config.enableUnalignedCheckpoints(false).isUnalignedCheckpointsEnabled()).toBe(false)
  })

  test('failing on errors and tolerable failures are one setting: the last call wins', () => {
    const config = make().setTolerableCheckpointFailureNumber(3).setFailOnCheckpointingErrors(true)
    expect(config.getTolerableCheckpointFailureNumber()).toBe(0)
    expect(config.setFailOnCheckpointingErrors(false).isFailOnCheckpointingErrors()).toBe(false)
    expect(config.getTolerableCheckpointFailureNumber()).toBe(2_147_483_647)
    expect(config.setTolerableCheckpointFailureNumber(2).isFailOnCheckpointingErrors()).toBe(true)
    expect(config.getTolerableCheckpointFailureNumber()).toBe(2)
  })

  test('a min pause or unaligned checkpoints leave one checkpoint at a time', () => {
    const config = make().setMaxConcurrentCheckpoints(3)
    expect(config.getMaxConcurrentCheckpoints()).toBe(3)
    expect(config.setMinPauseBetweenCheckpoints(1).getMaxConcurrentCheckpoints()).toBe(1)
    expect(config.setMinPauseBetweenCheckpoints(0).getMaxConcurrentCheckpoints()).toBe(3)
    expect(config.enableUnalignedCheckpoints().getMaxConcurrentCheckpoints()).toBe(1)
  })

  test('given as texts are understood', () => {
    const config = make({
      'execution.checkpointing.interval': '10 s',
      'execution.checkpointing.timeout': '2min',
      'execution.checkpointing.unaligned': 'true',
    })
    expect([config.getCheckpointInterval(), config.getCheckpointTimeout()]).toEqual([10_000, 120_000])
    expect(config.isUnalignedCheckpointsEnabled()).toBe(true)
  })

  test.each<[string, (config: CheckpointConfig) => unknown]>([
    ['interval', (c) => c.setCheckpointInterval(9)],
    ['timeout', (c) => c.setCheckpointTimeout(1.5)],
    ['min-pause', (c) => c.setMinPauseBetweenCheckpoints(-1)],
    ['max-concurrent-checkpoints', (c) => c.setMaxConcurrentCheckpoints(0)],
    ['tolerable-failed-checkpoints', (c) => c.setTolerableCheckpointFailureNumber(Number.NaN)],
    ['externalized-checkpoint-retention', (c) => c.enableExternalizedCheckpoints('KEEP' as never)],
    ['mode', (c) => c.setCheckpointingMode('TWICE' as never)],
  ])('a wrong %s is refused by its name', (key, set) => {
    expect(() => set(make())).toThrow(`execution.checkpointing.${key} must be`)
  })
})
