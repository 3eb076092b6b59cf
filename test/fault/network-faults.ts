/** A seeded schedule of what a network does to the connections between a job and its brokers: one fault after another, each on one broker. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { SeededRandom } from './seeded-random.ts'
import type { Direction, TcpProxy } from './tcp-proxy.ts'

/** What is done to the connections of one broker. */
export const NETWORK_FAULTS = ['drop', 'delay', 'hold requests', 'hold answers', 'hold both'] as const
export type NetworkFault = (typeof NETWORK_FAULTS)[number]

/** How a fault reads in the table of what was tried. */
export const FAULT_TEXT: Readonly<Record<NetworkFault, string>> = {
  drop: 'all connections to a broker reset',
  delay: 'bytes to and from a broker delayed by 30 to 400 ms',
  'hold requests': 'half-open: requests to a broker held for up to 4 s, then delivered',
  'hold answers': 'half-open: answers of a broker held for up to 4 s, then delivered',
  'hold both': 'half-open: nothing passes to or from a broker for up to 4 s, then everything',
}

/** Does `count` faults to the proxies in turn of chance; returns how often each kind happened. At the end all bytes pass again. */
export async function disturb(
  proxies: readonly TcpProxy[],
  random: SeededRandom,
  count: number,
): Promise<ReadonlyMap<NetworkFault, number>> {
  const happened = new Map<NetworkFault, number>()
  for (let i = 0; i < count; i++) {
    // Each kind comes as often as the others; when, how long and where is chance.
    const fault = NETWORK_FAULTS[i % NETWORK_FAULTS.length] as NetworkFault
    await strike(proxies[random.below(proxies.length)] as TcpProxy, fault, random)
    happened.set(fault, (happened.get(fault) ?? 0) + 1)
    await sleep(random.between(50, 800))
  }
  return happened
}

async function strike(proxy: TcpProxy, fault: NetworkFault, random: SeededRandom): Promise<void> {
  switch (fault) {
    case 'drop':
      proxy.drop()
      return
    case 'delay':
      proxy.delay(random.between(30, 400))
      await sleep(random.between(500, 2_000))
      proxy.delay(0)
      return
    default:
      proxy.hold(fault.slice('hold '.length) as Direction)
      await sleep(random.between(200, 4_000))
      proxy.release()
  }
}
