/**
 * The demo's orders: each one is a function of its number, so that what the job must write can be worked out without the job.
 * Amounts are multiples of 0.25 below 100: every sum is exact in a double.
 */
import type { Order } from '../../../examples/order.ts'

export const USERS = 10_000
const COUNTRIES = ['DE', 'FR', 'US', 'GB', 'ES', 'IT', 'PL', 'NL'] as const
const AMOUNTS = 400
const FIRST_ORDER_AT = Date.UTC(2026, 0, 1)

/** Number of the user who made order `i`; its name is `u<number>`. */
export function userOf(i: number): number {
  return mixed(i, 1) % USERS
}

export function amountOf(i: number): number {
  return (mixed(i, 2) % AMOUNTS) / 4
}

export function orderAt(i: number): Order {
  return {
    orderId: i,
    user: `u${userOf(i)}`,
    amount: amountOf(i),
    country: COUNTRIES[mixed(i, 3) % COUNTRIES.length]!,
    ts: FIRST_ORDER_AT + i,
  }
}

/** 32 well mixed bits of a number (the finalizer of MurmurHash3). */
function mixed(i: number, salt: number): number {
  let h = Math.imul(i, 0x9e3779b1) ^ Math.imul(salt, 0x7feb352d)
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}
