import { afterEach, expect, test } from '@jest/globals'
import {
  getLaunchSettings,
  type LaunchSettings,
  setLaunchSettings,
} from '../../../src/api/launch-settings.ts'

const SLOT = Symbol.for('millrace.launch')
const slots = globalThis as unknown as Record<symbol, unknown>

afterEach(() => {
  delete slots[SLOT]
})

test('without a command the process was started by node, and nothing is set', () => {
  expect(getLaunchSettings()).toEqual({
    launchedByCli: false,
    flags: {},
    dryRun: false,
    fresh: false,
    acceptLostTransactions: [],
    allowNonRestoredState: false,
  })
})

test('another copy of the package sees the same settings', () => {
  const settings: LaunchSettings = {
    ...getLaunchSettings(),
    launchedByCli: true,
    flags: { 'log.level': 'debug' },
  }
  setLaunchSettings(settings)
  expect(slots[SLOT]).toBe(settings)
  expect(getLaunchSettings()).toEqual(settings)
})

test('settings that a command of another version does not know keep their defaults', () => {
  slots[SLOT] = { launchedByCli: true, flags: {} }
  expect(getLaunchSettings()).toMatchObject({
    launchedByCli: true,
    dryRun: false,
    acceptLostTransactions: [],
  })
})
