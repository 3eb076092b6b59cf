/** How much of what a snapshot holds of each operator. */
import { blobsOf } from '../checkpoint/checkpoint-storage.ts'
import type { CompletedCheckpoint } from '../checkpoint/completed-checkpoint.ts'
import { readKept } from './kept-file.ts'
import { storedKeys, storedOperatorState } from './savepoint-reader.ts'

/** What one operator holds. */
export interface OperatorSummary {
  readonly keys: number
  readonly timers: number
  /** By state name. */
  readonly states: readonly {
    readonly name: string
    readonly kind: string
    readonly serde: string | null
    readonly entries: number
  }[]
  readonly operatorState: readonly {
    readonly name: string
    readonly redistribution: string
    readonly items: number
  }[]
  readonly positions: number
  readonly bytes: number
  /** Stores outside that hold the rest. */
  readonly outside: readonly string[]
}

/** Reads all of it to count it. @throws StateLostError */
export async function summarise(checkpoint: CompletedCheckpoint, uid: string): Promise<OperatorSummary> {
  let [keys, timers] = [0, 0]
  const states = new Map<string, { name: string; kind: string; serde: string | null; entries: number }>()
  for await (const record of storedKeys(checkpoint, uid, readKept)) {
    keys++
    timers += record.timers.length
    for (const { state: name, kind, serde } of record.values) {
      const seen = states.get(name) ?? { name, kind, serde, entries: 0 }
      seen.entries++
      states.set(name, seen)
    }
  }
  const items = new Map<string, { name: string; redistribution: string; items: number }>()
  for (const { state: own } of await storedOperatorState(checkpoint, uid, readKept))
    for (const [name, entry] of Object.entries(own)) {
      const seen = items.get(name) ?? { name, redistribution: entry.redistribution, items: 0 }
      seen.items += entry.items.length
      items.set(name, seen)
    }
  const own = checkpoint.states.filter((each) => each.uid === uid)
  const handles = own.flatMap(({ keyed, operator }) => [
    ...(keyed === undefined ? [] : blobsOf(keyed)),
    ...(operator === undefined ? [] : [operator]),
  ])
  return {
    keys,
    timers,
    states: [...states.values()],
    operatorState: [...items.values()],
    positions: own.reduce((sum, { splits }) => sum + (splits?.length ?? 0), 0),
    bytes: handles.reduce((sum, { size }) => sum + size, 0),
    outside: outsideOf(checkpoint, uid),
  }
}

/** Where an operator's state lies that a snapshot only names. */
export function outsideOf(checkpoint: CompletedCheckpoint, uid: string): string[] {
  return checkpoint.states.flatMap(({ uid: owner, keyed }) =>
    owner === uid && keyed?.kind === 'external'
      ? [`key groups ${keyed.range.join('–')} in ${keyed.backend}: ${JSON.stringify(keyed.state)}`]
      : [],
  )
}
