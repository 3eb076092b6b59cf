import { describe, expect, test } from '@jest/globals'
import {
  contentsOf,
  mergeWindow,
  type OpenWindow,
  withoutWindow,
} from '../../../../src/core/windows/merging-windows.ts'
import { TimeWindow, windowOf } from '../../../../src/core/windows/time-window.ts'

const window = (start: number, end: number) => new TimeWindow(start, end)

/** Adds windows one after the other to an empty set. */
function setOf(...bounds: [number, number][]): readonly OpenWindow[] {
  return bounds.reduce<readonly OpenWindow[]>(
    (open, [start, end]) => mergeWindow(open, window(start, end)).windows ?? open,
    [],
  )
}
const texts = (open: readonly OpenWindow[]) =>
  open.map((each) => `${each.start}-${each.end} at ${each.contents}`)

describe('a window that is added to a set', () => {
  test('stays alone if it touches no other; the set stays in order', () => {
    expect(texts(setOf([20, 30], [0, 10], [40, 50], [12, 18]))).toEqual([
      '0-10 at 0/10',
      '12-18 at 12/18',
      '20-30 at 20/30',
      '40-50 at 40/50',
    ])
  })

  test('joins windows that it overlaps or touches at either end', () => {
    expect(texts(setOf([10, 20], [20, 30]))).toEqual(['10-30 at 10/20'])
    expect(texts(setOf([10, 20], [0, 10]))).toEqual(['0-20 at 10/20'])
    expect(texts(setOf([10, 20], [21, 30]))).toHaveLength(2)
  })

  test('joins two windows to one, whose contents are those of the first', () => {
    const open = setOf([0, 10], [15, 25], [40, 50])
    const merge = mergeWindow(open, window(8, 18))
    expect(merge.window).toEqual(window(0, 25))
    expect(merge.contents).toBe('0/10')
    expect(merge.absorbed.map((each) => each.contents)).toEqual(['0/10', '15/25'])
    expect(texts(merge.windows!)).toEqual(['0-25 at 0/10', '40-50 at 40/50'])
  })

  test('swallows smaller ones', () => {
    const merge = mergeWindow(setOf([10, 12], [15, 17], [100, 110]), window(0, 50))
    expect(merge.window).toEqual(window(0, 50))
    expect(merge.absorbed).toHaveLength(2)
    expect(merge.contents).toBe('10/12')
  })

  test('changes nothing if an open one holds it already, also one with the same bounds that grew', () => {
    const open = setOf([0, 10], [8, 18])
    expect(texts(open)).toEqual(['0-18 at 0/10'])
    for (const inside of [window(2, 5), window(0, 18), window(8, 18)]) {
      const merge = mergeWindow(open, inside)
      expect(merge).toEqual({ window: window(0, 18), contents: '0/10', absorbed: [], windows: undefined })
    }
  })

  test('does not change the set it is added to', () => {
    const open = setOf([0, 10])
    Object.freeze(open)
    mergeWindow(open, window(5, 15))
    expect(texts(open)).toEqual(['0-10 at 0/10'])
  })
})

test('contents are found by the bounds of an open window, and a window that is over leaves the set', () => {
  const open = setOf([0, 10], [5, 15], [30, 40])
  expect(contentsOf(open, window(0, 15))).toBe('0/10')
  expect(contentsOf(open, window(0, 10))).toBeUndefined()
  expect(texts(withoutWindow(open, window(0, 15)))).toEqual(['30-40 at 30/40'])
})

test('a window is told by its namespace, and nothing else is', () => {
  for (const each of [window(0, 10), window(-20, -5), window(1_700_000_000_000, 1_700_000_010_000)])
    expect(windowOf(each.namespace)).toEqual(each)
  for (const namespace of ['', '5', 'a/b', '1/2/3', 7])
    expect(() => windowOf(namespace)).toThrow(/is not the namespace/)
})
