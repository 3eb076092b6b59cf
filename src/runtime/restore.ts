/**
 * Reads the state of a completed checkpoint and gives it out to the subtasks of today's graph. State is found by uid.
 */
import { type ImagesHandle, type KeyedStateHandle, unpackImages } from '../checkpoint/checkpoint-storage.ts'
import type { CompletedCheckpoint, OperatorSubtaskState } from '../checkpoint/completed-checkpoint.ts'
import { lostStateOf } from '../checkpoint/lost-state.ts'
import { redistributeKeyGroups, redistributeOperatorState } from '../checkpoint/rescale-plan.ts'
import type { ChainedOperator, JobGraph } from '../core/graph/job-graph.ts'
import type { Redistribution } from '../core/operators/stream-operator.ts'
import type { KeyGroupImage } from '../core/state.ts'
import { MillraceError } from '../errors.ts'
import type { StoredInFlight } from './restored-in-flight.ts'
import type { StateReader } from './state-storage.ts'
import type { StateCodec } from './subtask-checkpointer.ts'

/** State of one operator, as its new subtasks get it. */
export interface RestoredOperator {
  /** What holds the key groups of a subtask, cut down to them. */
  keyed(subtask: number): readonly KeyedStateHandle[]
  /** The same as images, layer by layer, each read and verified. @throws StateLostError; MILLRACE_STATE_INCOMPATIBLE for state outside */
  images(subtask: number): Promise<KeyGroupImage[]>
  /** Items by state name. */
  operatorState(subtask: number): Readonly<Record<string, readonly unknown[]>>
  /** How each was given out. */
  readonly redistributions: Readonly<Record<string, Redistribution>>
  /** Records that waited in its channels (unaligned checkpoints), by the subtask that would have read them. */
  readonly inFlight: readonly StoredInFlight[]
  /** Its end hooks have run. */
  readonly ended: boolean
}

export interface RestoredState {
  readonly checkpointId: number
  operator(uid: string): RestoredOperator | undefined
  /** Its parallelism then. */
  parallelism(uid: string): number | undefined
}

/** @throws MILLRACE_STATE_NOT_RESTORED naming the operators whose state nobody claims; StateLostError for damaged state. */
export async function loadState(
  checkpoint: CompletedCheckpoint,
  graph: JobGraph,
  reader: StateReader,
  codec: StateCodec,
  allowNonRestored: boolean,
  what: string = `checkpoint ${checkpoint.n}`,
): Promise<RestoredState> {
  const parallelism = new Map(
    graph.vertices.flatMap((vertex) => vertex.operators.map(({ uid }) => [uid, vertex] as const)),
  )
  const keyed = new Set(
    graph.vertices.flatMap(({ operators }) => operators.filter(isKeyed).map(({ uid }) => uid)),
  )
  checkClaims(checkpoint, parallelism, keyed, allowNonRestored, what)
  const operators = new Map<string, RestoredOperator>()
  for (const [uid, states] of Map.groupBy(checkpoint.states, (state) => state.uid)) {
    const vertex = parallelism.get(uid)
    if (vertex !== undefined) operators.set(uid, await loadOperator(uid, states, vertex, reader, codec))
  }
  const shapes = new Map(checkpoint.operators.map(({ uid, parallelism: former }) => [uid, former]))
  return {
    checkpointId: checkpoint.n,
    operator: (uid) => operators.get(uid),
    parallelism: (uid) => shapes.get(uid),
  }
}

/**
 * Reads all keyed state that lies in blobs, one after the other, and keeps nothing: before a restore removes what could be restored instead.
 * @throws StateLostError naming operator and key groups if something is missing or damaged
 */
export async function verifyKeyedState(
  { states }: CompletedCheckpoint,
  reader: Pick<StateReader, 'get'>,
): Promise<void> {
  for (const { uid, keyed } of states) {
    if (keyed === undefined || keyed.kind === 'external') continue
    for (const layer of keyed.kind === undefined ? [keyed] : keyed.layers) await readLayer(uid, layer, reader)
  }
}

/** Images of a layer, verified. @throws StateLostError */
function readLayer(
  uid: string,
  { handle, keyGroups }: ImagesHandle,
  reader: Pick<StateReader, 'get'>,
): Promise<KeyGroupImage[]> {
  return reader.get(handle).then(
    (bytes) => unpackImages(bytes, keyGroups),
    (error: unknown) => Promise.reject(lostStateOf(uid, keyGroups, error)),
  )
}

function isKeyed({ node }: ChainedOperator): boolean {
  return node.kind === 'operator' && node.keyOf !== undefined
}

function checkClaims(
  checkpoint: CompletedCheckpoint,
  vertices: ReadonlyMap<string, { readonly maxParallelism: number }>,
  keyed: ReadonlySet<string>,
  allowNonRestored: boolean,
  what: string,
): void {
  const holdsState = (state: OperatorSubtaskState): boolean =>
    state.keyed !== undefined ||
    state.operator !== undefined ||
    state.inFlight !== undefined ||
    (state.splits !== undefined && state.splits.length > 0)
  const unclaimed = new Set(
    checkpoint.states.filter((s) => holdsState(s) && !vertices.has(s.uid)).map((s) => s.uid),
  )
  const nameOf = (uid: string): string =>
    `'${checkpoint.operators.find((o) => o.uid === uid)?.name ?? uid}' (uid ${uid})`
  const names = (uids: ReadonlySet<string>): string => [...uids].map(nameOf).join(', ')
  if (unclaimed.size > 0 && !allowNonRestored)
    throw new MillraceError(
      'MILLRACE_STATE_NOT_RESTORED',
      `${what} holds state of ${names(unclaimed)}, which the job does not have`,
    )
  const unkeyed = new Set(
    checkpoint.states
      .filter((s) => s.keyed !== undefined && vertices.has(s.uid) && !keyed.has(s.uid))
      .map((s) => s.uid),
  )
  if (unkeyed.size > 0 && !allowNonRestored)
    throw new MillraceError(
      'MILLRACE_STATE_NOT_RESTORED',
      `${what} holds keyed state of ${names(unkeyed)}, which the job has, but not behind keyBy`,
    )
  for (const shape of checkpoint.operators) {
    const now = vertices.get(shape.uid)
    const holdsKeys = checkpoint.states.some((state) => state.uid === shape.uid && state.keyed !== undefined)
    if (now !== undefined && keyed.has(shape.uid) && holdsKeys && now.maxParallelism !== shape.maxParallelism)
      throw new MillraceError(
        'MILLRACE_STATE_NOT_RESTORED',
        `operator '${shape.name}' (uid ${shape.uid}) had max parallelism ${shape.maxParallelism} in ${what} and has ${now.maxParallelism} now; its key groups cannot be mapped`,
        { remedy: `Set the operator's max parallelism back to ${shape.maxParallelism}.` },
      )
  }
}

async function loadOperator(
  uid: string,
  unordered: readonly OperatorSubtaskState[],
  vertex: { readonly parallelism: number; readonly maxParallelism: number },
  reader: StateReader,
  codec: StateCodec,
): Promise<RestoredOperator> {
  // A checkpoint holds them in the order of their acknowledgements.
  const states = unordered.toSorted((a, b) => a.subtask - b.subtask)
  const handles = states.flatMap((state) => (state.keyed === undefined ? [] : [state.keyed]))
  const keyed = redistributeKeyGroups(handles, vertex.maxParallelism, vertex.parallelism)
  const stored = await Promise.all(
    states.map(async (state) =>
      state.operator === undefined ? {} : codec.decode(await reader.get(state.operator), uid),
    ),
  )
  const inFlight = await Promise.all(
    states.flatMap(({ subtask, inFlight: handle }) =>
      handle === undefined
        ? []
        : [reader.get(handle).then((bytes) => ({ subtask, elements: codec.inFlight.read(bytes, uid) }))],
    ),
  )
  const redistributed = redistributeOperatorState(stored, vertex.parallelism)
  return {
    keyed: (subtask) => keyed[subtask] ?? [],
    images: (subtask) => readImages(uid, keyed[subtask] ?? [], reader),
    operatorState: (subtask) =>
      Object.fromEntries(
        Object.entries(redistributed[subtask] ?? {}).map(([name, entry]) => [name, entry.items]),
      ),
    redistributions: Object.fromEntries(
      Object.entries(redistributed[0] ?? {}).map(([name, { redistribution }]) => [name, redistribution]),
    ),
    inFlight,
    ended: states.every((state) => state.endOfInput === true),
  }
}

async function readImages(
  uid: string,
  keyed: readonly KeyedStateHandle[],
  reader: StateReader,
): Promise<KeyGroupImage[]> {
  const images = await Promise.all(
    keyed.map(async (each) => {
      if (each.kind === 'external')
        throw new MillraceError(
          'MILLRACE_STATE_INCOMPATIBLE',
          `the checkpoint's state of operator ${uid} is kept by state backend '${each.backend}'`,
          {
            remedy: `Set state.backend to ${each.backend}, or take a savepoint there: it restores on every backend.`,
          },
        )
      const layers = each.kind === undefined ? [each] : each.layers
      const blobs = await Promise.all(layers.map((layer) => readLayer(uid, layer, reader)))
      return blobs.flat()
    }),
  )
  return images.flat()
}
