import { expect, test } from '@jest/globals'
import { STALL_MS, WatermarkStall } from '../../../../src/core/time/watermark-stall.ts'

test('records without a higher watermark are told once, when the time is over', () => {
  const stall = new WatermarkStall()
  expect(stall.onRecords(5, 1_000)).toBeUndefined()
  expect(stall.onRecords(5, 999 + STALL_MS)).toBeUndefined()
  expect(stall.onRecords(5, 1_000 + STALL_MS)).toBe(15)
  expect(stall.onRecords(5, 1_000 + 2 * STALL_MS)).toBeUndefined()
})

test('a watermark starts the time anew, and lets the next stall be told', () => {
  const stall = new WatermarkStall()
  stall.onRecords(1, 0)
  stall.onWatermark()
  expect(stall.onRecords(1, STALL_MS)).toBeUndefined()
  expect(stall.onRecords(2, 2 * STALL_MS)).toBe(3)
  stall.onWatermark()
  expect(stall.dueAt).toBeUndefined()
  expect(stall.onRecords(1, 4 * STALL_MS)).toBeUndefined()
  expect(stall.dueAt).toBe(5 * STALL_MS)
  expect(stall.onTime(5 * STALL_MS - 1)).toBeUndefined()
  expect(stall.onTime(5 * STALL_MS)).toBe(1)
  expect(stall.onTime(6 * STALL_MS)).toBeUndefined()
})
