/**
 * A job behind a network that fails: every broker's connections go through a proxy that drops, delays and half-opens them. Three brokers,
 * so that one is unreachable while the others are not. FAULT_SEED=n replays the moments of a run.
 */
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { freePort, type RunningKafka, startKafka } from '../../scripts/lib/kafka-broker.ts'
import { JobScene } from '../integration/job-scene.ts'
import { logReliability, outcomeOf } from '../reliability-log.ts'
import { disturb, FAULT_TEXT, type NetworkFault } from './network-faults.ts'
import { type OrderOutcome, OrderRun, verdict } from './order-run.ts'
import { SeededRandom } from './seeded-random.ts'
import { type Loss, TcpProxy } from './tcp-proxy.ts'

jest.setTimeout(600_000)

const SEED = Number(process.env['FAULT_SEED'] ?? Date.now() % 1_000_000)
const FAULTS = Number(process.env['FAULT_COUNT'] ?? 20)
/** Nothing passes for so long: the job loses its group, and its transactions and requests are older than their time-outs. */
const BLACKOUT_MS = 12_000
/** Shorter than most of the schedule's holds, so that requests time out and are sent again. */
const REQUEST_TIMEOUT = '1500ms'
const PRODUCE = 0
const COPY = 'integration/jobs/copy.ts'
/** Records that choose their partition without a key. */
const KEYLESS = 300

describe('the proxy', () => {
  let server: Server
  let proxy: TcpProxy
  let client: Socket

  let received = ''
  /** Resolves when so many characters have come back in all. */
  async function receives(length: number): Promise<string> {
    while (received.length < length) await once(client, 'data')
    return received
  }

  beforeAll(async () => {
    server = createServer((socket) => socket.pipe(socket).on('error', () => socket.destroy()))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    proxy = await TcpProxy.open((server.address() as { port: number }).port)
    client = connect(proxy.port, '127.0.0.1')
    client.on('data', (chunk) => {
      received += chunk.toString()
    })
  })
  afterAll(async () => {
    client.destroy()
    await proxy.close()
    server.close()
  })

  test('passes bytes on, delays them, and holds them until it lets them go, in order', async () => {
    client.write('a')
    expect(await receives(1)).toBe('a')
    proxy.delay(150)
    const began = Date.now()
    client.write('b')
    expect(await receives(2)).toBe('ab')
    expect(Date.now() - began).toBeGreaterThanOrEqual(290)
    proxy.delay(0)
    proxy.hold('answers')
    client.write('c')
    const nothing = Symbol('nothing')
    expect(await Promise.race([receives(3), sleep(100, nothing)])).toBe(nothing)
    client.write('d')
    proxy.release()
    expect(await receives(4)).toBe('abcd')
  })

  test('resets its connections', async () => {
    const reset = new Promise((resolve) => client.once('error', resolve))
    expect(proxy.drop()).toBe(1)
    expect(await reset).toMatchObject({ code: 'ECONNRESET' })
    expect(proxy.connections).toBe(0)
  })
})

interface Scenario {
  readonly run: OrderRun
  readonly outcome: OrderOutcome
}

describe(`a job behind a failing network (FAULT_SEED=${SEED})`, () => {
  let kafka: RunningKafka
  let proxies: readonly TcpProxy[]
  let behind: string

  beforeAll(async () => {
    const ports = [await freePort(), await freePort(), await freePort()]
    proxies = await Promise.all(ports.map((port) => TcpProxy.open(port)))
    behind = proxies.map(({ port }) => `127.0.0.1:${port}`).join(',')
    kafka = await startKafka({
      brokers: 3,
      heapMb: 384,
      quickStart: true,
      proxied: ports.map((port, i) => ({ port, advertisedPort: (proxies[i] as TcpProxy).port })),
    })
  }, 300_000)
  afterAll(async () => {
    await kafka?.stop()
    await Promise.all((proxies ?? []).map((proxy) => proxy.close()))
  })

  /** Two jobs of different width at the same time: the same faults hit both. */
  async function play(
    seed: number,
    harm: (runs: readonly OrderRun[]) => Promise<void>,
  ): Promise<readonly Scenario[]> {
    const runs: OrderRun[] = []
    try {
      for (const parallelism of [1, 3])
        runs.push(
          await OrderRun.open({
            random: new SeededRandom(seed + parallelism),
            brokers: kafka.bootstrap.split(','),
            parallelism,
            environment: { KAFKA_BROKERS: behind, MILLRACE_KAFKA_REQUEST_TIMEOUT: REQUEST_TIMEOUT },
          }),
        )
      const processes = runs.map((run) => run.start())
      await Promise.all(processes.map((process) => process.said('FIRST', 60_000)))
      expect(proxies.map(({ connections }) => connections > 0)).toEqual([true, true, true])
      await harm(runs)
      const outcomes = await Promise.all(runs.map((run, i) => run.finish(processes.slice(i, i + 1))))
      const attempts = processes.map(({ stderr }) => stderr.match(/attempt \d+ resumes/g)?.length ?? 0)
      console.log(`FAULT_SEED=${SEED}: restarts of the jobs by themselves: ${attempts.join(' and ')}`)
      return runs.map((run, i) => ({ run, outcome: outcomes[i] as OrderOutcome }))
    } finally {
      await Promise.all(runs.map((run) => run.close()))
    }
  }

  function log(fault: string, where: string, count: number, scenarios: readonly Scenario[]): void {
    const records = scenarios.reduce((sum, { outcome }) => sum + outcome.records, 0)
    const wrong = scenarios.map(({ outcome }) => verdict(outcome)).find((text) => text !== 'exact')
    logReliability({ suite: 'proxy', fault, where, count, records, outcome: wrong ?? 'exact' })
  }

  test(`is exact after ${FAULTS} resets, delays and half-open connections`, async () => {
    let happened: ReadonlyMap<NetworkFault, number> = new Map()
    const scenarios = await play(SEED, async (runs) => {
      happened = await disturb(proxies, new SeededRandom(SEED), FAULTS)
      await Promise.all(runs.map((run) => run.progress(60_000)))
    })
    for (const [fault, count] of happened)
      log(FAULT_TEXT[fault], 'between two jobs and one of three brokers', count, scenarios)
    for (const { outcome } of scenarios) expect(outcome).toMatchObject({ etl: [], totals: [], open: [] })
  })

  test('is exact after nothing has passed for longer than its session, and everything held arrives at once', async () => {
    const scenarios = await play(SEED + 10, async (runs) => {
      for (const proxy of proxies) proxy.hold('both')
      await sleep(BLACKOUT_MS)
      for (const proxy of proxies) proxy.release()
      await Promise.all(runs.map((run) => run.progress(60_000)))
    })
    log(
      'half-open: nothing passes for 12 s, then everything that was held',
      'between two jobs and all brokers',
      1,
      scenarios,
    )
    for (const { outcome } of scenarios) expect(outcome).toMatchObject({ etl: [], totals: [], open: [] })
  })

  test.each<Loss>(['request', 'answer'])(
    'stores keyless records once when the connection to one broker breaks at the first produce and loses the %s',
    async (loss) => {
      const scene = await JobScene.open(kafka.bootstrap.split(','))
      try {
        const topics = { IN: await scene.topic('in', 1), OUT: await scene.topic('out', 6) }
        // Records of this size are spread over the partitions by the hundred, so every broker gets some in the first produce.
        const text = (i: number) => `"${String(i).padStart(600, '0')}"`
        const values = Array.from({ length: KEYLESS }, (_, i) => text(i))
        await scene.produce(topics.IN, 0, values)
        const lost = (proxies[1] as TcpProxy).loseNext(PRODUCE, loss)
        const job = scene.start(COPY, { ...topics, KAFKA_BROKERS: behind, BOUNDED: 'yes' })
        await lost
        expect(await job.code(60_000)).toBe(0)
        const stored = await scene.read(topics.OUT)
        const distinct = new Set(stored)
        const complaints = [
          ...values.filter((value) => !distinct.has(value)),
          ...stored.filter((value, i) => stored.indexOf(value) !== i),
        ]
        logReliability({
          suite: 'proxy',
          fault: `a connection breaks and loses the ${loss}`,
          where: 'at the first produce of keyless records, one of three brokers',
          count: 1,
          records: KEYLESS,
          outcome: outcomeOf(complaints),
        })
        expect({ count: stored.length, distinct: distinct.size, complaints }).toEqual({
          count: KEYLESS,
          distinct: KEYLESS,
          complaints: [],
        })
        expect(job.stderr).not.toMatch(/attempt \d+ resumes/)
      } finally {
        await scene.close()
      }
    },
  )
})
