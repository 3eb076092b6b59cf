/**
 * Window join and coGroup of two streams, as in Flink:
 *
 *   a.join(b)    ─► where(key of a) ─► equalTo(key of b) ─► window(…) ─► trigger, evictor, allowedLateness ─► apply(each pair)
 *   a.coGroup(b) ─► where           ─► equalTo           ─► window    ─► the same                          ─► apply(both lists)
 */
import type { KeySelector } from '../core/functions.ts'
import type { Key } from '../core/state.ts'
import type { Evictor } from '../core/windows/evictors.ts'
import type {
  CoGroupFunction,
  FlatJoinFunction,
  JoinFunction,
  TaggedElement,
} from '../core/windows/joined-windows.ts'
import type { Window } from '../core/windows/time-window.ts'
import type { Trigger } from '../core/windows/trigger.ts'
import type { WindowAssigner } from '../core/windows/window-assigner.ts'
import type { WidenedKey } from './key-typing.ts'
import type { OpenStream, StreamOf, StreamPair } from './open-stream.ts'
import { checkCallable } from './operator-specs.ts'
import { WindowSettings } from './window-specs.ts'

/** Both key selectors. */
type Keys = readonly [KeySelector<any, Key>, KeySelector<any, Key>]

/** Two streams to be joined. */
export class JoinedStreams<T1, T2, S extends OpenStream> {
  readonly #pair: StreamPair<S>

  /** @internal */
  constructor(pair: StreamPair<S>) {
    this.#pair = pair
  }

  /** The key of the first stream. */
  where<K extends Key>(keyOf: KeySelector<T1, K>): JoinKey<T2, K, JoinedKeys<T1, T2, S>> {
    return new JoinKey('join', keyOf, (keys) => new JoinedKeys(this.#pair, keys))
  }
}

/** Two streams to be grouped together. */
export class CoGroupedStreams<T1, T2, S extends OpenStream> {
  readonly #pair: StreamPair<S>

  /** @internal */
  constructor(pair: StreamPair<S>) {
    this.#pair = pair
  }

  /** The key of the first stream. */
  where<K extends Key>(keyOf: KeySelector<T1, K>): JoinKey<T2, K, CoGroupedKeys<T1, T2, S>> {
    return new JoinKey('coGroup', keyOf, (keys) => new CoGroupedKeys(this.#pair, keys))
  }
}

/** The first stream's key is known; the second one's is not. */
export class JoinKey<T2, K extends Key, Next> {
  readonly #method: string
  readonly #first: KeySelector<any, Key>
  readonly #next: (keys: Keys) => Next

  /** @internal */
  constructor(method: string, first: KeySelector<any, Key>, next: (keys: Keys) => Next) {
    checkCallable(`${method}().where`, first, [])
    this.#method = method
    this.#first = first
    this.#next = next
  }

  /** The key of the second stream: records meet whose keys are equal. */
  equalTo(keyOf: KeySelector<T2, NoInfer<WidenedKey<K>>>): Next {
    checkCallable(`${this.#method}().equalTo`, keyOf, [])
    return this.#next([this.#first, keyOf as KeySelector<any, Key>])
  }
}

/** A join whose keys are known. */
export class JoinedKeys<T1, T2, S extends OpenStream> {
  readonly #pair: StreamPair<S>
  readonly #keys: Keys

  /** @internal */
  constructor(pair: StreamPair<S>, keys: Keys) {
    this.#pair = pair
    this.#keys = keys
  }

  /** Records meet if they lie in one window, too. */
  window<W extends Window>(assigner: WindowAssigner<TaggedElement<T1, T2>, W>): WindowedJoin<T1, T2, W, S> {
    return new WindowedJoin(this.#pair, this.#keys, assigner)
  }
}

/** A coGroup whose keys are known. */
export class CoGroupedKeys<T1, T2, S extends OpenStream> {
  readonly #pair: StreamPair<S>
  readonly #keys: Keys

  /** @internal */
  constructor(pair: StreamPair<S>, keys: Keys) {
    this.#pair = pair
    this.#keys = keys
  }

  /** Records of one window are given out together. */
  window<W extends Window>(
    assigner: WindowAssigner<TaggedElement<T1, T2>, W>,
  ): WindowedCoGroup<T1, T2, W, S> {
    return new WindowedCoGroup(this.#pair, this.#keys, assigner)
  }
}

/** What joins and coGroups have in common once their windows are known. Each setter returns the same builder. */
abstract class JoinWindows<T1, T2, W extends Window, S extends OpenStream> {
  readonly #pair: StreamPair<S>
  readonly #keys: Keys
  readonly #settings: WindowSettings

  /** @internal */
  constructor(pair: StreamPair<S>, keys: Keys, assigner: WindowAssigner<any, any>) {
    this.#pair = pair
    this.#keys = keys
    const tagged = ({ input, value }: TaggedElement<any, any>): Key => keys[input - 1]!(value)
    this.#settings = new WindowSettings(assigner, tagged, true)
  }

  /** When the function runs, in place of the trigger that comes with the windows. */
  trigger(trigger: Trigger<TaggedElement<T1, T2>, W>): this {
    this.#settings.setTrigger(trigger)
    return this
  }
  /** Which records the function sees. */
  evictor(evictor: Evictor<TaggedElement<T1, T2>, W>): this {
    this.#settings.setEvictor(evictor)
    return this
  }
  /** A window is kept for `ms` after its end; each record that comes meanwhile makes it fire again, with all its records. Default 0. */
  allowedLateness(ms: number): this {
    this.#settings.setAllowedLateness(ms)
    return this
  }

  /** @internal */
  protected add<R>(kind: 'join' | 'coGroup', f: unknown): StreamOf<S, R> {
    return this.#pair.add<R>(this.#settings.joined(kind, f, this.#keys), this.#keys)
  }
}

/** A window join, ready for its function. */
export class WindowedJoin<T1, T2, W extends Window, S extends OpenStream> extends JoinWindows<T1, T2, W, S> {
  /**
   * One result for each pair of a window; with a third parameter, any number of them through the collector. A record without a partner
   * gives nothing: use coGroup for outer joins. Late records are dropped and counted (`late_records_dropped`).
   * @example orders.join(payments).where(o => o.id).equalTo(p => p.order).window(TumblingEventTimeWindows.of(60_000)).apply((o, p) => ({ ...o, paid: p.at }))
   */
  apply<R>(f: JoinFunction<T1, T2, R>): StreamOf<S, Awaited<R>>
  apply<R>(f: FlatJoinFunction<T1, T2, R>): StreamOf<S, R>
  apply(f: JoinFunction<T1, T2, any> | FlatJoinFunction<T1, T2, any>): StreamOf<S, any> {
    return this.add('join', f)
  }
}

/** A coGroup, ready for its function. */
export class WindowedCoGroup<T1, T2, W extends Window, S extends OpenStream> extends JoinWindows<
  T1,
  T2,
  W,
  S
> {
  /**
   * Gets the records of both streams in each window of a key, also if one list is empty. Late records are dropped and counted.
   * @example …apply((orders, payments, out: Collector<Order>) => { if (payments.length === 0) for (const order of orders) out.collect(order) })
   */
  apply<R>(f: CoGroupFunction<T1, T2, R>): StreamOf<S, R> {
    return this.add('coGroup', f)
  }
}
