import { beforeEach, describe, expect, test } from '@jest/globals'
import { type TransactionSlot, TransactionSlots } from '../../../src/kafka/transaction-slots.ts'

let slots: TransactionSlots

beforeEach(() => {
  slots = new TransactionSlots(
    [0, 1, 2].map((i) => ({ transactionalId: `t.${i}`, producerId: BigInt(i), producerEpoch: 0 })),
  )
})

/** A transaction with records, prepared at barrier n and held by its snapshot. */
function interval(n: number, slot = slots.take(n * 100) ?? slots.reopen()): TransactionSlot {
  slots.prepare(slot!, n)
  slots.hold(n)
  return slot!
}

describe('the ids of one sink subtask', () => {
  test('are taken one after another, and none is left beyond the pool', () => {
    expect([0, 1, 2].map((now) => slots.take(now)?.identity.transactionalId)).toEqual(['t.0', 't.1', 't.2'])
    expect(slots.take(3)).toBeUndefined()
  })

  test('the first write is noted: from it the broker counts the time-out', () => {
    expect(slots.take(700)!.openedAt).toBe(700)
  })

  test('come free again only when their commit is confirmed and they have another epoch', () => {
    const first = interval(1)
    interval(2)
    slots.take(0)
    slots.complete(1)
    expect(slots.take(0)).toBeUndefined()
    expect(slots.confirmed(0)).toEqual([])
    expect(slots.confirmed(1)).toEqual([first])
    expect(slots.take(0)).toBeUndefined()
    slots.renewed(first, { ...first.identity, producerEpoch: 1 })
    expect(slots.take(0)).toMatchObject({ identity: { transactionalId: 't.0', producerEpoch: 1 }, n: -1 })
  })

  test('a confirmation that comes twice gives an id back once', () => {
    interval(1)
    slots.complete(1)
    expect(slots.confirmed(1)).toHaveLength(1)
    expect(slots.confirmed(1)).toEqual([])
  })

  test('a completed checkpoint decides everything prepared up to it, and nothing later', () => {
    interval(1)
    slots.aborted(1)
    interval(2)
    interval(3)
    slots.complete(2)
    expect(slots.prepared.map(({ n }) => n)).toEqual([3])
  })

  test('prepared ones are listed in the order of their checkpoints', () => {
    const [a, b, c] = [slots.take(0)!, slots.take(0)!, slots.take(0)!]
    slots.prepare(c, 1)
    slots.prepare(a, 2)
    slots.prepare(b, 3)
    expect(slots.prepared).toEqual([c, a, b])
  })

  test('the newest one goes on when no snapshot can complete with it, as often as needed', () => {
    interval(1)
    interval(2)
    const newest = interval(3)
    for (const n of [1, 2]) slots.aborted(n)
    expect(slots.reopen()).toBeUndefined()
    for (let n = 3; n <= 7; n++) {
      slots.aborted(n)
      expect(slots.reopen()).toBe(newest)
      slots.prepare(newest, n + 1)
      slots.hold(n + 1)
    }
    slots.complete(8)
    expect(slots.prepared).toEqual([])
  })

  test('is not opened again while a later snapshot that holds it may complete', () => {
    interval(1)
    interval(2)
    interval(3)
    slots.hold(4)
    slots.aborted(3)
    expect(slots.reopen()).toBeUndefined()
    slots.aborted(4)
    expect(slots.reopen()).toBeDefined()
  })

  test('an abort that overtakes the snapshot leaves nothing held', () => {
    interval(1)
    interval(2)
    const newest = slots.take(0)!
    slots.aborted(1)
    slots.aborted(2)
    slots.aborted(3)
    slots.prepare(newest, 3)
    slots.hold(3)
    expect(slots.reopen()).toBe(newest)
  })

  test('an abort in between is not mistaken for that of a later snapshot', () => {
    slots.aborted(3)
    interval(4)
    expect(slots.reopen()).toBeUndefined()
  })

  test('moves that the picture does not have are illegal', () => {
    const slot = interval(1)
    expect(() => slots.prepare(slot, 2)).toThrow(/transaction slot t\.0.*not legal in state Prepared/)
    expect(() => slots.renewed(slot, slot.identity)).toThrow(/not legal in state Prepared/)
  })
})
