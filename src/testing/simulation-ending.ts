/**
 * How a run comes to its end half-way, and what begins then: cancelled, stopped with a savepoint, killed; a new run with --fresh, or with
 * the state of a savepoint or checkpoint.
 *
 *   Waiting ──time──► Asking (until it is so) ──► Leaving (all workers go) ──► Over: the end, or a new run is asked for until it is there
 *                        └── savepoint taken ──time──► everybody dies ──────────┘
 */
import type { RestoreChoice } from '../core/job-settings.ts'
import type { SeededRandom } from './seeded-random.ts'
import type { SimulationInvariants } from './simulation-invariants.ts'
import { SAVEPOINTS, type SimulationOperator } from './simulation-operator.ts'
import type { Scenario } from './simulation-scenario.ts'
import type { SimulationSupervisor } from './simulation-supervisor.ts'
import type { SimulationTrace } from './simulation-trace.ts'
import type { VirtualTime } from './virtual-time.ts'

/** What an ending works with. */
export interface EndingOptions {
  readonly scenario: Scenario
  readonly random: SeededRandom
  readonly time: VirtualTime
  readonly trace: SimulationTrace
  readonly supervisor: SimulationSupervisor
  readonly operator: SimulationOperator
  readonly invariants: () => SimulationInvariants
  /** What is expected changes: a new run is to begin. */
  readonly onNewRun: () => void
}

/** Between two tries of whoever waits for a run that could end. */
const LOOK_MS = 100
/** Between two tries of whoever sends a command until it is obeyed. */
const ASK_AGAIN_MS = 1_000

/** The ending of one simulated job. */
export class SimulationEnding {
  readonly #options: EndingOptions
  #phase: 'waiting' | 'asking' | 'leaving' | 'over'
  /** Runs there were before the one that is asked for; undefined = nobody asks. */
  #runsBefore: number | undefined

  constructor(options: EndingOptions) {
    this.#options = options
    this.#phase = options.scenario.ending === 'stop' ? 'over' : 'waiting'
  }

  /** Nothing is to come: what is there is the last run. */
  get isOver(): boolean {
    return this.#phase === 'over' && this.#runsBefore === undefined
  }

  plan(): void {
    if (this.#phase === 'waiting') this.#later(this.#options.scenario.endAfterMs, () => this.#begin())
  }

  /** After every timer; the end of the job if this was it. */
  step(): string | undefined {
    const { supervisor, invariants } = this.#options
    // Whoever starts a run anew asks for it until it is there, and not once more.
    if (this.#runsBefore !== undefined && invariants().runs > this.#runsBefore) {
      this.#runsBefore = undefined
      supervisor.startNew(undefined)
    }
    if (this.#phase === 'asking') return this.#asking()
    if (this.#phase === 'leaving' && supervisor.deserted) return this.#left()
    return undefined
  }

  /** True while somebody is at work on the end, so that nobody else may stop the job. */
  get isUnderWay(): boolean {
    return this.#phase === 'asking' || this.#phase === 'leaving'
  }

  #begin(): void {
    const { invariants, trace, supervisor, random, operator, scenario } = this.#options
    if (invariants().runs === 0 || !invariants().begun) {
      // There is no run yet that could end.
      this.#later(LOOK_MS, () => this.#begin())
      return
    }
    const { ending } = scenario
    trace.note('world', `begins to end the run: ${ending}`)
    switch (ending) {
      case 'fresh-after-crash':
        supervisor.killAll()
        this.#newRun('fresh')
        return
      case 'back-to-latest':
      case 'back-to-oldest': {
        supervisor.killAll()
        const oldest = ending === 'back-to-oldest' ? invariants().stored[0]?.n : undefined
        this.#newRun({ type: 'checkpoint', n: oldest ?? 'latest' })
        return
      }
      case 'back-to-savepoint':
        this.#takeSavepoint()
        return
      case 'stop-with-savepoint':
        this.#phase = 'asking'
        supervisor.mayFinish(true)
        void this.#askUntil('FINISHED', () =>
          operator.send({ type: 'stop', path: SAVEPOINTS, drain: scenario.drain }),
        )
        return
      case 'command-cancel':
        this.#phase = 'asking'
        supervisor.mayCancel()
        void this.#askUntil('CANCELED', () => operator.send({ type: 'cancel' }))
        return
      default: {
        const cancel = (): void => {
          this.#phase = 'asking'
        }
        const draw = random.fork('cancel')
        if (draw.chance(0.4))
          supervisor.cancelAsZombie(invariants().leader, draw.integer(12_500, 16_000), cancel)
        else cancel()
      }
    }
  }

  /** One command after the other, until one was obeyed. */
  async #askUntil(end: string, ask: () => Promise<unknown>): Promise<void> {
    const { invariants, time } = this.#options
    // The answer may come when the next run is under way.
    while (this.#phase === 'asking' && invariants().endedAs !== end) {
      await ask()
      await time.sleep(ASK_AGAIN_MS)
    }
  }

  #takeSavepoint(): void {
    const { operator, random, supervisor, trace } = this.#options
    void operator.send({ type: 'savepoint', path: SAVEPOINTS }).then((outcome) => {
      if (outcome?.type !== 'done') {
        this.#later(ASK_AGAIN_MS, () => this.#takeSavepoint())
        return
      }
      const path = String(outcome.result['path'])
      this.#later(random.fork('regret').integer(0, 1_500), () => {
        trace.note('world', `goes back to ${path}`)
        supervisor.killAll()
        this.#newRun({ type: 'path', path })
      })
    })
  }

  /** Asks for the end until it is durable; then everybody leaves. */
  #asking(): undefined {
    const { supervisor, invariants, scenario } = this.#options
    const end = scenario.ending === 'stop-with-savepoint' ? 'FINISHED' : 'CANCELED'
    if (invariants().endedAs === end) this.#phase = 'leaving'
    else {
      if (scenario.ending === 'cancel' || scenario.ending === 'fresh-after-cancel') supervisor.cancel()
      if (supervisor.deserted) supervisor.startWorker()
    }
    return undefined
  }

  #left(): string | undefined {
    const { scenario, invariants, supervisor } = this.#options
    switch (scenario.ending) {
      case 'fresh-after-cancel':
        this.#newRun('fresh')
        return undefined
      case 'stop-with-savepoint':
        supervisor.mayFinish(false)
        this.#newRun({ type: 'path', path: invariants().endedWith ?? 'nowhere: the end names no savepoint' })
        return undefined
      default:
        this.#phase = 'over'
        return 'CANCELED'
    }
  }

  #newRun(how: 'fresh' | RestoreChoice): void {
    const { invariants, supervisor, onNewRun } = this.#options
    this.#phase = 'over'
    this.#runsBefore = invariants().runs
    onNewRun()
    supervisor.startNew(how)
    supervisor.startWorker()
  }

  #later(ms: number, action: () => void): void {
    this.#options.time.schedule(ms, action)
  }
}
