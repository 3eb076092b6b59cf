/**
 * Sinks that reach the real world (standard output, a database, a file) in a job on virtual time: what their writers and committers wait for
 * is waited for in real time, as promises of functions are. Kafka's own sink is on virtual time itself.
 *
 * A sink that sleeps on the timers it was given waits for the clock of the test; meanwhile that clock goes on. A worker that was killed calls
 * nothing any more: what a call had begun may still be done, as with any request on its way.
 */
import type { Sink } from '../core/connector.ts'
import type { StreamGraph, StreamNode } from '../core/graph/stream-graph.ts'
import { isThenable } from '../core/operators/continuation.ts'
import type { TimerHandle, Timers, World } from '../core/ports.ts'
import { KafkaBound } from '../kafka/kafka-environment.ts'

/** Hears of each promise, whose it is, and whether it waits for the clock of the test by now. */
export type NotePromise = (promise: PromiseLike<unknown>, whose: string, waitsForClock: () => boolean) => void

/** Who watches. */
export interface SinkWatch {
  readonly note: NotePromise
  /** The worker was killed. */
  readonly isKilled: () => boolean
}

/** The graph with its real sinks watched. */
export function watchSinks(graph: StreamGraph, watch: SinkWatch): StreamGraph {
  return { ...graph, nodes: graph.nodes.map((node) => watchNode(node, watch)) }
}

function watchNode(node: StreamNode, watch: SinkWatch): StreamNode {
  if (
    node.kind !== 'sink' ||
    node.sink instanceof KafkaBound ||
    node.sink.describe()['processLocal'] === true
  )
    return node
  return { ...node, sink: watchSink(node.sink, node.name, watch) }
}

const MAKERS: readonly PropertyKey[] = ['createWriter', 'createCommitter']
/** What reaches the outside, and may be waited for. */
const DEEDS: readonly PropertyKey[] = ['open', 'write', 'flush', 'prepareCommit', 'commit', 'recover']

function watchSink(sink: Sink<unknown>, name: string, { note, isKilled }: SinkWatch): Sink<unknown> {
  return withMethods(sink, (method, call) => {
    if (!MAKERS.includes(method)) return call
    return (context: { readonly world: World }) => {
      const timers = new CountedTimers(context.world.timers)
      const made = call({ ...context, world: { ...context.world, timers } }) as object
      return withMethods(made, (part, run) => (...args) => {
        if (isKilled() && DEEDS.includes(part)) return new Promise(() => undefined)
        const result = run(...args)
        if (isThenable(result)) note(result, `${String(part)} of sink '${name}'`, () => timers.pending > 0)
        return result
      })
    }
  })
}

type Call = (...args: any[]) => unknown

/** The object with its methods replaced; they run on the original, which may have private fields. */
function withMethods<T extends object>(original: T, replace: (name: PropertyKey, call: Call) => Call): T {
  return new Proxy(original, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? replace(name, value.bind(target)) : value
    },
  })
}

/** Timers that know how many of them are pending. */
class CountedTimers implements Timers {
  pending = 0
  readonly #timers: Timers

  constructor(timers: Timers) {
    this.#timers = timers
  }

  schedule(delayMs: number, action: () => void, unref?: boolean): TimerHandle {
    let counts = true
    const end = (): void => {
      if (counts) this.pending--
      counts = false
    }
    this.pending++
    const handle = this.#timers.schedule(
      delayMs,
      () => {
        end()
        action()
      },
      unref,
    )
    return {
      cancel: () => {
        end()
        handle.cancel()
      },
    }
  }

  turn(): Promise<void> {
    return this.#counted(this.#timers.turn())
  }

  sleep(delayMs: number): Promise<void> {
    return this.#counted(this.#timers.sleep(delayMs))
  }

  async #counted(wait: Promise<void>): Promise<void> {
    this.pending++
    try {
      await wait
    } finally {
      this.pending--
    }
  }
}
