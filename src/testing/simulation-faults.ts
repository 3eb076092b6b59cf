/**
 * Faults of one run, drawn from its seed: each waits for its moment after the one before it, so that some hit a recovery.
 *
 *   armed ──n-th call of an api, n-th timer, a fault point, or a time──► strikes ──► the next one is armed
 *
 * Besides them a noisy network loses, delays and repeats calls with a small chance each.
 */
import { FAULT_POINTS, type FaultPoint, HEALING_FAULT_POINTS } from '../runtime/fault-points.ts'
import type { SeededRandom } from './seeded-random.ts'
import type { Interception, SimulatedCall } from './simulated-network.ts'

/** What happens. */
export type FaultAction =
  | { readonly kind: 'crash-before' | 'crash-after' | 'terminate' }
  | { readonly kind: 'interception'; readonly what: Interception }
  /** The whole process stands still, or only its record thread. With `thenStop` it gets SIGTERM as it wakes up. */
  | { readonly kind: 'pause' | 'stall'; readonly ms: number; readonly thenStop?: boolean }
  | { readonly kind: 'isolate'; readonly ms: number; readonly connection: 'both' | 'records' | 'membership' }
  | { readonly kind: 'move-leaders' }
  | { readonly kind: 'move-coordinators'; readonly ms: number }
  | { readonly kind: 'restart-broker'; readonly ms: number }
  /** Every worker dies at once; `ms` later the first one starts again, and the brokers have forgotten the empty group meanwhile. */
  | { readonly kind: 'blackout'; readonly ms: number }
  /** Each write of a snapshot takes so much longer, for a time: to the directory, or to the checkpoint topic. */
  | { readonly kind: 'slow-disk'; readonly ms: number; readonly forMs: number }
  /** The log cleaner runs over the job's checkpoint topic, tombstones included. */
  | { readonly kind: 'compact' }

/** When it happens, counted from the fault before. */
export type FaultTrigger =
  | {
      readonly on: 'call'
      readonly api: string | undefined
      /** Only calls for the transactional id of the coordinator, or of a sink. */
      readonly of?: 'coordinator' | 'sink'
      readonly nth: number
    }
  | { readonly on: 'timer'; readonly nth: number }
  | { readonly on: 'point'; readonly point: FaultPoint; readonly nth: number }
  | { readonly on: 'time'; readonly ms: number }

/** One fault. */
export interface Fault {
  readonly trigger: FaultTrigger
  readonly action: FaultAction
}

/** Who obeys a fault. */
export interface FaultTarget {
  /** Obeys; the answer is the fate of the call that was the trigger. `worker` is whose call or timer it was; undefined = pick one. */
  strike(fault: Fault, worker: string | undefined): Interception
  schedule(delayMs: number, action: () => void): void
}

/** Standing still for so long, a worker wakes up when another one leads. */
const ZOMBIE_MS = 12_000

/** Calls whose loss hurts most come up more often. */
const APIS: readonly (string | undefined)[] = [
  undefined,
  'EndTxn',
  'EndTxn',
  'EndTxn',
  'InitProducerId',
  'InitProducerId',
  'AddPartitionsToTxn',
  'AddOffsetsToTxn',
  'TxnOffsetCommit',
  'Produce',
  'Produce',
  'Fetch',
  'Heartbeat',
  'JoinGroup',
  'SyncGroup',
  'ListOffsets',
  'Metadata',
  'ListTransactions',
  'DescribeTransactions',
]

const POINTS: readonly FaultPoint[] = [...FAULT_POINTS, ...HEALING_FAULT_POINTS]

/** Codes that pass: a leader or coordinator that moved or loads, too few replicas, a transaction that is being ended. */
const REFUSALS = [6, 7, 14, 15, 16, 19, 51]
/** Codes that may come for what was done: a time-out or too few replicas behind the append, a coordinator that moves in the middle. */
const DONE_AND_REFUSED = [7, 14, 16, 20]

function drawInterception(random: SeededRandom): Interception {
  switch (random.integer(0, 7)) {
    case 0:
      return 'drop-request'
    case 1:
      return 'drop-response'
    case 2:
      return 'duplicate'
    case 3:
      return { duplicateAfterMs: random.pick([5, 50, 500, 5_000, 20_000]) }
    case 4:
      return { delayMs: random.pick([20, 200, 2_000, 12_000]) }
    case 5:
      return { errorCode: random.pick(REFUSALS) }
    case 6:
      return { answerCode: random.pick(DONE_AND_REFUSED) }
    default:
      return { responseDelayMs: random.pick([20, 200, 2_000, 12_000]) }
  }
}

function drawAction(random: SeededRandom): FaultAction {
  const kind = random.pick([
    'crash',
    'crash',
    'crash',
    'interception',
    'interception',
    'pause',
    'stall',
    'isolate',
    'cluster',
    'cluster',
    'terminate',
  ])
  switch (kind) {
    case 'crash':
      return { kind: random.pick(['crash-before', 'crash-after']) }
    case 'interception':
      return { kind: 'interception', what: drawInterception(random) }
    case 'pause':
      return { kind: 'pause', ms: random.pick([500, 5_000, 12_000, 30_000, 70_000]) }
    case 'stall':
      return { kind: 'stall', ms: random.pick([200, 2_000, 15_000, 40_000]) }
    case 'isolate':
      return {
        kind: 'isolate',
        ms: random.pick([300, 3_000, 11_000, 25_000]),
        connection: random.pick(['both', 'records', 'membership']),
      }
    case 'cluster':
      return random.pick<FaultAction>([
        { kind: 'move-leaders' },
        { kind: 'move-coordinators', ms: random.pick([50, 500, 5_000, 20_000]) },
        { kind: 'restart-broker', ms: random.pick([100, 2_000, 15_000]) },
        { kind: 'blackout', ms: random.pick([200, 3_000, 15_000]) },
        { kind: 'slow-disk', ms: random.pick([300, 1_500, 6_000]), forMs: random.pick([2_000, 10_000]) },
        { kind: 'compact' },
      ])
    default:
      return { kind: 'terminate' }
  }
}

function drawTrigger(random: SeededRandom, action: FaultAction): FaultTrigger {
  // The fate of a call needs a call.
  const on =
    action.kind === 'interception' ? 'call' : random.pick(['call', 'call', 'timer', 'point', 'point', 'time'])
  switch (on) {
    case 'call': {
      const api = random.pick(APIS)
      return { on, api, nth: random.integer(1, api === undefined ? 300 : random.pick([1, 3, 12])) }
    }
    case 'timer':
      return { on, nth: random.integer(1, random.pick([20, 200, 1_000])) }
    case 'point':
      return { on, point: random.pick(POINTS), nth: random.integer(1, random.pick([1, 4, 10])) }
    default:
      return { on: 'time', ms: random.integer(0, random.pick([50, 1_000, 10_000])) }
  }
}

/** Misfortunes that only hurt together, as past protocols were broken by them. */
function drawMisfortune(random: SeededRandom): Fault[] {
  const crash: FaultAction = { kind: random.pick(['crash-before', 'crash-after']) }
  switch (random.integer(0, 6)) {
    case 0:
      // A leader stands still in the middle of a commit point, another one takes over, the first wakes up.
      return [
        {
          trigger: {
            on: 'call',
            api: random.pick([
              'AddPartitionsToTxn',
              'AddOffsetsToTxn',
              'TxnOffsetCommit',
              'InitProducerId',
              'EndTxn',
              'Produce',
            ]),
            of: random.pick(['coordinator', 'coordinator', 'sink']),
            nth: random.integer(1, 8),
          },
          action: { kind: 'pause', ms: random.pick([12_000, 15_000, 20_000]) },
        },
      ]
    case 1:
      // Output is committed so late that the next checkpoint completes first, and then everything dies.
      return [
        {
          trigger: { on: 'call', api: 'EndTxn', of: 'sink', nth: random.integer(1, 8) },
          action: { kind: 'interception', what: { delayMs: random.pick([15_000, 40_000]) } },
        },
        { trigger: { on: 'point', point: 'after-commit-point', nth: random.integer(1, 2) }, action: crash },
      ]
    case 2:
      // A sink flushes so late that its checkpoint is given up, and everything dies soon after the next one.
      return [
        {
          trigger: { on: 'call', api: 'Produce', of: 'sink', nth: random.integer(1, 6) },
          action: { kind: 'interception', what: { delayMs: random.pick([700, 1_500, 4_000]) } },
        },
        {
          trigger: {
            on: 'point',
            point: random.pick(['after-commit-point', 'before-confirm', 'after-confirm']),
            nth: 1,
          },
          action: crash,
        },
      ]
    case 3: {
      // A worker stands still until another one leads, and is told to stop as it wakes up.
      const pause: FaultAction = { kind: 'pause', ms: random.pick([12_500, 14_000, 17_000]), thenStop: true }
      return [{ trigger: { on: 'time', ms: random.integer(1_000, 6_000) }, action: pause }]
    }
    case 4:
      // Snapshots are stored so late that checkpoints are given up, and everything dies soon after one that completes.
      return [
        {
          trigger: { on: 'point', point: 'after-freeze', nth: random.integer(1, 4) },
          action: {
            kind: 'slow-disk',
            ms: random.pick([600, 1_200, 4_000]),
            forMs: random.pick([1_500, 5_000, 12_000]),
          },
        },
        {
          trigger: { on: 'point', point: 'after-commit-point', nth: random.integer(1, 2) },
          action: crash,
        },
      ]
    case 5:
      // A leader stands still while it takes over, between two of its steps; another one takes over; the first wakes up.
      return [
        {
          trigger: { on: 'point', point: random.pick(FAULT_POINTS), nth: random.integer(1, 4) },
          action: crash,
        },
        {
          trigger: {
            on: 'call',
            api: random.pick([
              'ListTransactions',
              'DescribeTransactions',
              'InitProducerId',
              'EndTxn',
              'Produce',
            ]),
            nth: random.integer(1, 4),
          },
          action: { kind: 'pause', ms: random.pick([12_000, 13_000, 16_000]) },
        },
      ]
    default:
      // A worker dies between the commit of its output and the note of it, and its successor at the same place.
      return [
        {
          trigger: {
            on: 'point',
            point: random.pick(['before-end-txn', 'after-end-txn', 'before-confirm']),
            nth: random.integer(1, 4),
          },
          action: crash,
        },
        {
          trigger: {
            on: 'point',
            point: random.pick(['before-end-txn', 'after-end-txn', 'before-confirm']),
            nth: 1,
          },
          action: crash,
        },
      ]
  }
}

/** Output is promised and everything dies until the brokers gave it up; then a healer dies half-way. */
function drawHealing(random: SeededRandom): Fault[] {
  return [
    {
      trigger: { on: 'point', point: 'after-commit-point', nth: random.integer(2, 5) },
      action: { kind: 'blackout', ms: random.integer(16_000, 30_000) },
    },
    {
      trigger: { on: 'point', point: random.pick([...HEALING_FAULT_POINTS, 'before-confirm']), nth: 1 },
      action: { kind: random.pick(['crash-before', 'crash-after']) },
    },
  ]
}

/**
 * Draws the faults of a run: `count`, or a few more when they belong together. `timesOut`: the brokers give transactions up soon
 * enough for that to be one of the faults.
 */
export function drawFaults(
  random: SeededRandom,
  count: number,
  { timesOut }: { readonly timesOut: boolean },
): Fault[] {
  const faults: Fault[] = []
  if (count > 0 && timesOut && random.chance(0.3)) faults.push(...drawHealing(random))
  while (faults.length < count) {
    if (random.chance(0.25)) faults.push(...drawMisfortune(random))
    else {
      const action = drawAction(random)
      faults.push({ trigger: drawTrigger(random, action), action })
    }
  }
  return faults
}

function isMeant(trigger: Extract<FaultTrigger, { on: 'call' }>, call: SimulatedCall): boolean {
  if (trigger.api !== undefined && trigger.api !== call.api) return false
  if (trigger.of === undefined) return true
  const id = (call.args[0] as { transactionalId?: string | null } | undefined)?.transactionalId
  if (id === undefined || id === null) return false
  return id.endsWith('.coordinator') === (trigger.of === 'coordinator')
}

/** The faults of one run, in order. */
export class FaultPlan {
  readonly #faults: Fault[]
  readonly #target: FaultTarget
  readonly #random: SeededRandom
  readonly #struck = new Map<string, number>()
  #noise: number
  #seen = 0

  constructor(options: {
    readonly faults: readonly Fault[]
    readonly noise: number
    readonly random: SeededRandom
    readonly target: FaultTarget
  }) {
    this.#faults = [...options.faults]
    this.#noise = options.noise
    this.#random = options.random
    this.#target = options.target
  }

  /** The first fault waits for its moment from now on. */
  start(): void {
    this.#arm()
  }

  /** How often each kind of fault struck, by its name; what the noise of the network did counts as 'noise'. */
  get struck(): ReadonlyMap<string, number> {
    return this.#struck
  }

  /** Faults that have not struck yet. */
  get left(): number {
    return this.#faults.length
  }

  /** From now on the world is kind: what is left to happen must come to its end. */
  calm(): void {
    this.#faults.length = 0
    this.#noise = 0
  }

  /** A worker sends a call: its fate. */
  onCall(worker: string, call: SimulatedCall): Interception {
    const trigger = this.#faults[0]?.trigger
    if (trigger?.on === 'call' && isMeant(trigger, call) && ++this.#seen === trigger.nth)
      return this.#strike(worker)
    return this.noiseFor()
  }

  /** What the network does to a call by chance. */
  noiseFor(): Interception {
    if (this.#noise === 0 || !this.#random.chance(this.#noise)) return 'pass'
    this.#count('noise')
    return drawInterception(this.#random)
  }

  /** A timer of a worker is due. */
  onTimer(worker: string): void {
    const trigger = this.#faults[0]?.trigger
    if (trigger?.on === 'timer' && ++this.#seen === trigger.nth) this.#strike(worker)
  }

  /** A worker comes by a fault point. */
  onPoint(worker: string, point: FaultPoint): void {
    const trigger = this.#faults[0]?.trigger
    if (trigger?.on === 'point' && trigger.point === point && ++this.#seen === trigger.nth)
      this.#strike(worker)
  }

  #strike(worker: string | undefined): Interception {
    const fault = this.#faults.shift()!
    this.#count(nameOf(fault.action))
    const fate = this.#target.strike(fault, worker)
    this.#arm()
    return fate
  }

  #count(kind: string): void {
    this.#struck.set(kind, (this.#struck.get(kind) ?? 0) + 1)
  }

  #arm(): void {
    this.#seen = 0
    const next = this.#faults[0]
    if (next?.trigger.on !== 'time') return
    this.#target.schedule(next.trigger.ms, () => {
      if (this.#faults[0] === next) this.#strike(undefined)
    })
  }
}

/** What a fault is called in reports. */
function nameOf(action: FaultAction): string {
  if (action.kind === 'isolate') return `isolate ${action.connection}`
  if (action.kind === 'pause' && action.ms >= ZOMBIE_MS) return 'zombie'
  if (action.kind !== 'interception') return action.kind
  if (typeof action.what === 'string') return action.what
  if ('duplicateAfterMs' in action.what) return 'late duplicate'
  if ('errorCode' in action.what) return 'refusal'
  if ('answerCode' in action.what) return 'refusal of what was done'
  return 'delayMs' in action.what ? 'late request' : 'late response'
}
