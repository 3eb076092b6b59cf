import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../core/ports.ts'
import type { KafkaConnectionConfig } from '../kafka-cluster.ts'
import { addressText, type BrokerAddress, BrokerConnection } from './broker-connection.ts'
import { unreachable } from './error-codes.ts'
import type { RequestKind } from './request.ts'

/**
 * `waiting`: the broker may keep the request for long (a fetch, a join). `prompt`: it answers as soon as it can.
 */
export type RequestClass = 'waiting' | 'prompt'

/** Beyond this many connections to one broker, prompt requests share the least loaded one. */
const MAX_PROMPT_LANES = 8

/** How long a connection whose SASL session ends soon may still wait for answers: the session's last ten seconds. */
const RETIREMENT_MS = 10_000

/** A connection, or the opening of one, and how many requests it carries. */
interface Lane {
  readonly connection: BrokerConnection
  readonly opening: Promise<BrokerConnection>
  open: boolean
  load: number
}

/**
 * All connections of one cluster object, by broker, opened when they are first needed.
 *
 * A broker answers the requests of one connection strictly one after the other: behind a fetch that waits for data, or a
 * produce that waits for replicas, everything else on that connection waits too. So a waiting request has a connection of
 * its own, and prompt ones take an idle connection while there are few. The order of requests that depend on each other
 * is kept by their callers, who wait for the answer of the first.
 */
export class Connections {
  readonly #config: KafkaConnectionConfig
  readonly #logger: Logger
  readonly #lanes = new Map<string, Lane[]>()
  /** Epoch ms until which a broker asked for fewer requests, by address and class. */
  readonly #throttledUntil = new Map<string, number>()
  /** Not used for new requests, but still waiting for answers. */
  readonly #retired = new Set<BrokerConnection>()
  #closed = false

  constructor(config: KafkaConnectionConfig, logger: Logger) {
    this.#config = config
    this.#logger = logger
  }

  /** Sends one request to a broker. @throws KafkaError MILLRACE_KAFKA_UNREACHABLE, retriable, if no answer comes. */
  async send<I, O>(
    address: BrokerAddress,
    kind: RequestClass,
    request: RequestKind<I, O>,
    input: I,
    timeoutMs = 0,
  ): Promise<O> {
    if (this.#throttledUntil.size > 0) await this.#throttle(address, request.api)
    const lane = this.#lane(address, kind)
    lane.load++
    try {
      if (!lane.open) await lane.opening
      return await lane.connection.send(request, input, timeoutMs)
    } finally {
      lane.load--
    }
  }

  /** Holds the next requests of this kind to a broker back, as its quota asks. */
  throttle(address: BrokerAddress, api: string, ms: number): void {
    if (ms > 0) this.#throttledUntil.set(`${api} ${addressText(address)}`, Date.now() + ms)
  }

  /** Ends every connection at once; pending requests reject. */
  close(): void {
    this.#closed = true
    const lanes = [...this.#lanes.values()].flat()
    this.#lanes.clear()
    for (const connection of [...lanes.map((lane) => lane.connection), ...this.#retired]) connection.close()
  }

  #lane(address: BrokerAddress, kind: RequestClass): Lane {
    const key = `${kind} ${addressText(address)}`
    let lanes = this.#lanes.get(key)
    if (lanes === undefined) {
      lanes = []
      this.#lanes.set(key, lanes)
    }
    let best: Lane | undefined
    for (const lane of lanes) {
      if (lane.open && !lane.connection.usable) {
        this.#retire(lanes, lane)
        return this.#lane(address, kind)
      }
      if (lane.load === 0) return lane
      if (best === undefined || lane.load < best.load) best = lane
    }
    if (best !== undefined && kind === 'prompt' && lanes.length >= MAX_PROMPT_LANES) return best
    return this.#openLane(address, lanes)
  }

  #openLane(address: BrokerAddress, lanes: Lane[]): Lane {
    if (this.#closed)
      throw unreachable('Connect', [addressText(address)], new Error('this client was closed'), false)
    const connection = new BrokerConnection(address, this.#config, this.#logger, () => remove(lanes, lane))
    const opening = connection.open()
    const lane: Lane = { connection, opening, open: false, load: 0 }
    opening.then(
      () => {
        lane.open = true
      },
      () => remove(lanes, lane), // the error itself goes to everybody who waits for `opening`
    )
    lanes.push(lane)
    return lane
  }

  /** Takes a connection out of use whose SASL session ends soon; requests under way still get their answers. */
  #retire(lanes: Lane[], lane: Lane): void {
    remove(lanes, lane)
    if (lane.load === 0) {
      lane.connection.close()
      return
    }
    this.#retired.add(lane.connection)
    setTimeout(() => {
      this.#retired.delete(lane.connection)
      lane.connection.close()
    }, RETIREMENT_MS).unref()
  }

  async #throttle(address: BrokerAddress, api: string): Promise<void> {
    const key = `${api} ${addressText(address)}`
    const until = this.#throttledUntil.get(key)
    if (until === undefined) return
    const wait = until - Date.now()
    if (wait > 0) await sleep(wait)
    if (this.#throttledUntil.get(key) === until) this.#throttledUntil.delete(key)
  }
}

function remove(lanes: Lane[], lane: Lane): void {
  const at = lanes.indexOf(lane)
  if (at >= 0) lanes.splice(at, 1)
}
