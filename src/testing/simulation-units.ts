/** What the output of a simulated job is made of, as far as the invariants judge it. */

/** Where a record of the output came from; every job of a simulation writes it along. */
export interface Origin {
  readonly topic: string
  readonly partition: number
  readonly offset: number
}

/** What may be in the output once: what was made of one record, or of several together. */
export type Unit = Origin | readonly Origin[]

/** What a value of the output was made of: its `from` is one record, all those of an aggregate, or with `pair` several that count as one. */
export function unitsOf(value: {
  readonly from: Origin | readonly Origin[]
  readonly pair?: boolean
}): readonly Unit[] {
  if (value.pair === true) return [value.from]
  return Array.isArray(value.from) ? value.from : [value.from as Origin]
}

/** The records of a unit, in words. */
export function unitName(unit: Unit): string {
  return partsOf(unit).map(originOf).join(' and ')
}

/** The records of a unit. */
export function partsOf(unit: Unit): readonly Origin[] {
  return Array.isArray(unit) ? (unit as readonly Origin[]) : [unit as Origin]
}

/** A record of the input or output. */
export interface SeenRecord {
  readonly partition: number
  readonly offset: bigint
  readonly timestamp: number
  readonly key: string | null
  readonly value: any
}

function originOf({ topic, partition, offset }: Origin): string {
  return `${topic}-${partition} offset ${offset}`
}
