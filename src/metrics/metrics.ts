/** Counters, gauges and histograms of one process. Core sees only MetricGroup. */
import type { Counter, MetricGroup } from '../core/ports.ts'

class SimpleCounter implements Counter {
  count = 0
  inc(by = 1): void {
    this.count += by
  }
}

/** Count, sum and maximum of samples, and the last one. */
export class Histogram {
  count = 0
  sum = 0
  max = 0
  last = 0
  record(value: number): void {
    this.count++
    this.sum += value
    this.last = value
    if (value > this.max) this.max = value
  }
}

/** One metric as it reads now. */
export interface MetricReading {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Registry of all metrics of a job; asking twice for one name and labels gives the same metric. */
export class MetricRegistry implements MetricGroup {
  readonly #counters: Map<string, SimpleCounter>
  readonly #gauges: Map<string, () => number>
  readonly #histograms: Map<string, Histogram>
  readonly #labels: Readonly<Record<string, string>>

  constructor(labels: Readonly<Record<string, string>> = {}, parent?: MetricRegistry) {
    this.#labels = labels
    this.#counters = parent === undefined ? new Map() : parent.#counters
    this.#gauges = parent === undefined ? new Map() : parent.#gauges
    this.#histograms = parent === undefined ? new Map() : parent.#histograms
  }

  counter(name: string): Counter {
    return getOrMake(this.#counters, this.#key(name), () => new SimpleCounter())
  }

  gauge(name: string, read: () => number): void {
    this.#gauges.set(this.#key(name), read)
  }

  histogram(name: string): Histogram {
    return getOrMake(this.#histograms, this.#key(name), () => new Histogram())
  }

  group(labels: Readonly<Record<string, string>>): MetricRegistry {
    return new MetricRegistry({ ...this.#labels, ...labels }, this)
  }

  /** Sum of a counter over all labels. */
  total(name: string): number {
    let sum = 0
    for (const [key, counter] of this.#counters) if (keyName(key) === name) sum += counter.count
    return sum
  }

  /** All counters and gauges as they are now. */
  read(): MetricReading[] {
    const readings: MetricReading[] = []
    for (const [key, counter] of this.#counters) readings.push({ ...parseKey(key), value: counter.count })
    for (const [key, read] of this.#gauges) readings.push({ ...parseKey(key), value: read() })
    return readings
  }

  #key(name: string): string {
    return JSON.stringify([name, this.#labels])
  }
}

function keyName(key: string): string {
  return parseKey(key).name
}

function parseKey(key: string): { name: string; labels: Record<string, string> } {
  const [name, labels] = JSON.parse(key) as [string, Record<string, string>]
  return { name, labels }
}

function getOrMake<T>(map: Map<string, T>, key: string, make: () => T): T {
  let value = map.get(key)
  if (value === undefined) {
    value = make()
    map.set(key, value)
  }
  return value
}
