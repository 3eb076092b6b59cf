/** The runtime's settings of one job, from its configuration. */
import type { Config } from '../config.ts'
import type { JobSettings } from '../core/job-settings.ts'
import type { RestartStrategyConfig } from '../core/restart-strategy-config.ts'

export function jobSettings(config: Config): JobSettings {
  const interval = config.get('execution.checkpointing.interval')
  const tolerable = config.get('execution.checkpointing.tolerable-failed-checkpoints')
  return {
    checkpointing: {
      intervalMs: interval > 0 ? interval : undefined,
      mode: config.get('execution.checkpointing.mode'),
      timeoutMs: config.get('execution.checkpointing.timeout'),
      minPauseMs: config.get('execution.checkpointing.min-pause'),
      maxConcurrent: config.get('execution.checkpointing.max-concurrent-checkpoints'),
      tolerableFailures: tolerable >= 2_147_483_647 ? Number.POSITIVE_INFINITY : tolerable,
      numRetained: config.get('state.checkpoints.num-retained'),
      retainOnCancellation:
        config.get('execution.checkpointing.externalized-checkpoint-retention') === 'RETAIN_ON_CANCELLATION',
      async: config.get('state.backend.async'),
      unalignedAfterMs:
        config.get('execution.checkpointing.unaligned') &&
        config.get('execution.checkpointing.mode') === 'EXACTLY_ONCE'
          ? config.get('execution.checkpointing.aligned-checkpoint-timeout')
          : undefined,
    },
    restart: restartStrategy(config),
    savepointDirectory: config.get('state.savepoints.dir'),
  }
}

function restartStrategy(config: Config): RestartStrategyConfig {
  switch (config.get('restart-strategy.type')) {
    case 'none':
      return { kind: 'none' }
    case 'fixed-delay':
      return {
        kind: 'fixed-delay',
        attempts: config.get('restart-strategy.fixed-delay.attempts'),
        delayMs: config.get('restart-strategy.fixed-delay.delay'),
      }
    case 'failure-rate':
      return {
        kind: 'failure-rate',
        maxFailures: config.get('restart-strategy.failure-rate.max-failures-per-interval'),
        intervalMs: config.get('restart-strategy.failure-rate.failure-rate-interval'),
        delayMs: config.get('restart-strategy.failure-rate.delay'),
      }
    case 'exponential-delay':
      return {
        kind: 'exponential-delay',
        initialMs: config.get('restart-strategy.exponential-delay.initial-backoff'),
        maxMs: config.get('restart-strategy.exponential-delay.max-backoff'),
        multiplier: config.get('restart-strategy.exponential-delay.backoff-multiplier'),
        resetMs: config.get('restart-strategy.exponential-delay.reset-backoff-threshold'),
        jitter: config.get('restart-strategy.exponential-delay.jitter-factor'),
        attempts: config.get('restart-strategy.exponential-delay.attempts-before-reset-backoff'),
      }
  }
}
