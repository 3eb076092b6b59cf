/**
 * Who may do what to which transaction, judged at every step by what workers send to the brokers and are answered:
 *
 * - only the coordinator's id is initialised bare; every other initialisation names the holder that it expects (protocol §2.9)
 * - a worker aborts only transactions of identities that it was given, or saw before it proved that it leads (§2.16): a zombie never ends
 *   what its successor has open
 * - an (id, epoch) serves one transaction and one worker (§3.5)
 * - what was committed is not committed again in the same attempt (§5.2)
 *
 * Most of these break nothing that a reader sees, since healing writes again what was lost; without healing they would.
 */
import type { ProducerIdentity } from '../kafka/kafka-cluster.ts'
import type { SimulatedCall } from './simulated-network.ts'

/** What the rules ask for. */
export interface FencingOptions {
  /** Transactional id of the job's coordinator. */
  readonly coordinatorId: string
  /** The worker behind a connection; undefined = somebody who is no worker. */
  readonly workerOf: (clientId: string) => string | undefined
  readonly onViolation: (what: string) => void
}

interface WorkerRecord {
  /** Identities that it was given, or that it saw before a proof that it leads. */
  readonly given: Set<string>
  /** Identities that it saw since the last proof. */
  readonly seen: Set<string>
  /** What it was told to be committed since it took the job over. */
  committed: Set<string>
  /** Identities whose transaction it ended. */
  readonly ended: Set<string>
}

function identityName({ transactionalId, producerId, producerEpoch }: ProducerIdentity): string {
  return `${transactionalId} (${producerId}, ${producerEpoch})`
}

/** Watches the transactions of one job. */
export class SimulationFencing {
  readonly #options: FencingOptions
  readonly #workers = new Map<string, WorkerRecord>()
  /** Who first added a partition under an identity. */
  readonly #writers = new Map<string, string>()

  constructor(options: FencingOptions) {
    this.#options = options
  }

  /** A worker sends a call, or a try of it. */
  sent(call: SimulatedCall): void {
    if (call.attempt > 1) return
    const name = this.#options.workerOf(call.clientId)
    if (name === undefined) return
    switch (call.api) {
      case 'InitProducerId':
        this.#initialises(name, call.args[0] as { transactionalId: string; expected?: unknown })
        return
      case 'AddPartitionsToTxn':
        this.#writes(name, call.args[0] as ProducerIdentity)
        return
      case 'EndTxn':
        this.#ends(name, call.args[0] as ProducerIdentity, call.args[1] as 'commit' | 'abort')
        return
    }
  }

  /** A worker is answered without an error. */
  answered(call: SimulatedCall, answer: unknown): void {
    if (call.api !== 'InitProducerId' && call.api !== 'EndTxn' && call.api !== 'DescribeTransactions') return
    const name = this.#options.workerOf(call.clientId)
    if (name === undefined) return
    const record = this.#recordOf(name)
    if (call.api === 'InitProducerId') {
      record.given.add(identityName(answer as ProducerIdentity))
      return
    }
    if (call.api === 'DescribeTransactions') {
      for (const described of answer as readonly ProducerIdentity[]) record.seen.add(identityName(described))
      return
    }
    const ended = call.args[0] as ProducerIdentity
    if (ended.transactionalId === this.#options.coordinatorId && call.args[1] === 'commit') {
      for (const seen of record.seen) record.given.add(seen)
      record.seen.clear()
    }
    const identity = identityName(ended)
    record.ended.add(identity)
    if (call.args[1] === 'commit') record.committed.add(identity)
  }

  #initialises(worker: string, request: { transactionalId: string; expected?: unknown }): void {
    if (request.expected !== undefined) return
    if (request.transactionalId === this.#options.coordinatorId) this.#recordOf(worker).committed = new Set()
    else
      this.#options.onViolation(
        `${worker} initialises ${request.transactionalId} without naming the holder that it expects`,
      )
  }

  #writes(worker: string, identity: ProducerIdentity): void {
    const name = identityName(identity)
    const other = this.#writers.get(name) ?? worker
    this.#writers.set(name, other)
    if (other !== worker)
      this.#options.onViolation(`${worker} writes with ${name}, with which ${other} wrote`)
    if (this.#recordOf(worker).ended.has(name))
      this.#options.onViolation(`${worker} begins a second transaction with ${name}`)
  }

  #ends(worker: string, identity: ProducerIdentity, result: 'commit' | 'abort'): void {
    if (identity.transactionalId === this.#options.coordinatorId) return
    const name = identityName(identity)
    const { given, committed } = this.#recordOf(worker)
    if (result === 'abort' && !given.has(name))
      this.#options.onViolation(`${worker} aborts the transaction of ${name}, which it was never given`)
    if (result === 'commit' && committed.has(name))
      this.#options.onViolation(`${worker} commits ${name} again in the same attempt`)
  }

  #recordOf(worker: string): WorkerRecord {
    const known = this.#workers.get(worker)
    if (known !== undefined) return known
    const record: WorkerRecord = { given: new Set(), seen: new Set(), committed: new Set(), ended: new Set() }
    this.#workers.set(worker, record)
    return record
  }
}
