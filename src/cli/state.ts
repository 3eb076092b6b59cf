/** `millrace state`: reads savepoints and checkpoints on disk, without Kafka and without the job. */
import { MillraceError } from '../errors.ts'
import { readKept } from '../state/kept-file.ts'
import { type StoredKey, storedKeys, storedOperatorState } from '../state/savepoint-reader.ts'
import { openSnapshot, type StoredSnapshot } from '../state/savepoint-source.ts'
import { outsideOf, summarise } from '../state/savepoint-summary.ts'
import {
  type ArgumentSpec,
  type CommandShape,
  optionHelp,
  type ParsedArguments,
  readArguments,
  usageError,
} from './arguments.ts'
import { ExitCode } from './job-watch.ts'
import { textTable } from './kafka-command.ts'
import type { RunContext } from './run.ts'
import { jsonValue, shownValue } from './shown-value.ts'

type Operator = StoredSnapshot['checkpoint']['operators'][number]

const OPTIONS = {
  operator: { value: 'UID', doc: 'Only the operator with this uid (or name).' },
  key: { value: 'KEY', doc: 'read: only this key, as text or as JSON: 42, "42", ["a",1].' },
  json: { doc: 'Print JSON, one object a line.' },
  help: { short: 'h', doc: 'Show this text.' },
} as const satisfies Record<string, ArgumentSpec>

export const STATE_SHAPE: CommandShape = { options: OPTIONS, actions: ['list', 'read'], operand: 'folder' }

function help(): string {
  return `Usage: millrace state list PATH | read PATH

Reads the state in a savepoint or a checkpoint: PATH is its folder (savepoint-… or chk-…) or the file _metadata in it.
list shows operators, their states and how many keys they hold; read shows every key, timer, position and item of operator state.
State that a checkpoint keeps in an outside store (redis) is named, not read: take a savepoint, which holds everything.

Options:
${optionHelp(OPTIONS)}

Examples:
  millrace state list /savepoints/savepoint-totals-4f1d09c2a7be
  millrace state read /savepoints/savepoint-totals-4f1d09c2a7be --operator count --key user-17
  millrace state read /checkpoints/totals/0b7c…/chk-41 --json | jq 'select(.type == "position")'

In JSON, values without a form of their own are objects: {"$bigint":"1"}, {"$date":"…"}, {"$map":[[k,v],…]}, {"$set":[…]},
{"$bytes":"base64"}.

Exit codes: 0 done, 1 damaged or unreadable, 2 wrong usage, 3 no such operator or key.
`
}

/** Runs the command. @throws StateLostError for what is missing or damaged; ConfigError for wrong usage */
export async function state(args: readonly string[], context: RunContext): Promise<void> {
  const parsed = readArguments(args, OPTIONS)
  if (parsed.options.has('help')) {
    context.stdout.write(help())
    return
  }
  const [action, path, extra] = parsed.positionals
  if (action !== 'list' && action !== 'read') throw usageError('millrace state needs one of list, read')
  if (path === undefined)
    throw usageError(`millrace state ${action} needs the folder of a savepoint or checkpoint`)
  if (extra !== undefined)
    throw usageError(`millrace state ${action} takes one folder, but '${extra}' came too`)
  const snapshot = await openSnapshot(path)
  const operators = chosenOperators(snapshot, parsed)
  if (operators.length === 0) {
    const there = snapshot.checkpoint.operators.map(({ uid, name }) => `${uid} (${name})`).join(', ')
    context.stderr.write(
      `no operator ${parsed.options.get('operator')?.at(-1)} in ${snapshot.folder}; there are ${there}\n`,
    )
    context.setExitCode(ExitCode.NOT_FOUND)
    return
  }
  if (action === 'list') await listState(snapshot, operators, parsed, context)
  else await readState(snapshot, operators, parsed, context)
}

function chosenOperators({ checkpoint }: StoredSnapshot, { options }: ParsedArguments): readonly Operator[] {
  const wanted = options.get('operator')?.at(-1)
  if (wanted === undefined) return checkpoint.operators
  return checkpoint.operators.filter(({ uid, name }) => uid === wanted || name === wanted)
}

async function listState(
  { kind, folder, checkpoint }: StoredSnapshot,
  operators: readonly Operator[],
  { options }: ParsedArguments,
  context: RunContext,
): Promise<void> {
  const found = []
  for (const operator of operators)
    found.push({ ...operator, ...(await summarise(checkpoint, operator.uid)) })
  if (options.has('json')) {
    for (const each of found) context.stdout.write(`${JSON.stringify({ type: 'operator', ...each })}\n`)
    return
  }
  const { n, run, completedAt } = checkpoint
  context.stdout.write(
    `${kind} ${n} of run ${run}, completed ${new Date(completedAt).toISOString()}\n${folder}\n\n`,
  )
  context.stdout.write(
    textTable(
      ['UID', 'NAME', 'PARALLELISM', 'KEYS', 'TIMERS', 'POSITIONS', 'BYTES', 'STATES'],
      found.map((each) => [
        each.uid,
        each.name,
        `${each.parallelism} of ${each.maxParallelism}`,
        String(each.keys),
        String(each.timers),
        String(each.positions),
        String(each.bytes),
        [
          ...each.states.map(({ name, kind: form, entries }) => `${name} (${form}, ${entries})`),
          ...each.operatorState.map(
            ({ name, redistribution, items }) => `${name} (${redistribution} list, ${items})`,
          ),
        ].join(', '),
      ]),
    ),
  )
  for (const { uid, outside } of found)
    for (const place of outside) context.stdout.write(`\nstate of ${uid} is kept outside: ${place}\n`)
}

async function readState(
  { checkpoint }: StoredSnapshot,
  operators: readonly Operator[],
  { options }: ParsedArguments,
  context: RunContext,
): Promise<void> {
  const json = options.has('json')
  const wanted = options.get('key')?.at(-1)
  let shown = 0
  const print = (line: Readonly<Record<string, unknown>>, text: () => string): void => {
    shown++
    context.stdout.write(`${json ? JSON.stringify(line) : text()}\n`)
  }
  for (const { uid } of operators) {
    for await (const record of storedKeys(checkpoint, uid, readKept))
      if (wanted === undefined || isKey(record, wanted)) printKey(uid, record, print)
    if (wanted !== undefined) continue
    for (const { subtask, state: own } of await storedOperatorState(checkpoint, uid, readKept))
      for (const [name, { redistribution, items }] of Object.entries(own))
        print(
          {
            type: 'operator-state',
            operator: uid,
            subtask,
            state: name,
            redistribution,
            items: jsonValue(items),
          },
          () => `${uid}  subtask ${subtask}  ${name} (${redistribution} list)  ${shownValue(items)}`,
        )
    for (const { uid: owner, subtask, splits } of checkpoint.states)
      if (owner === uid)
        for (const split of splits ?? [])
          print(
            { type: 'position', operator: uid, subtask, position: jsonValue(split) },
            () => `${uid}  subtask ${subtask}  position  ${shownValue(split)}`,
          )
    for (const place of outsideOf(checkpoint, uid))
      print({ type: 'outside', operator: uid, place }, () => `${uid}  is kept outside: ${place}`)
  }
  if (shown > 0 || wanted === undefined) return
  context.stderr.write(`no state of key ${wanted}\n`)
  context.setExitCode(ExitCode.NOT_FOUND)
}

function printKey(
  uid: string,
  { keyGroup, key, values, timers }: StoredKey,
  print: (line: Readonly<Record<string, unknown>>, text: () => string) => void,
): void {
  const where = { operator: uid, keyGroup, key: jsonValue(key) }
  for (const { state: name, kind, namespace, serde, value } of values) {
    const window = namespace === '' ? '' : `  namespace ${shownValue(namespace)}`
    const form = serde === null ? kind : `${kind}, bytes of serde ${serde}`
    print(
      {
        type: 'keyed',
        ...where,
        state: name,
        kind,
        namespace,
        ...(serde === null ? {} : { serde }),
        value: jsonValue(value),
      },
      () => `${uid}  key ${shownValue(key)}  ${name} (${form})${window}  ${shownValue(value)}`,
    )
  }
  for (const { domain, namespace, time } of timers)
    print(
      { type: 'timer', ...where, domain, namespace, time },
      () => `${uid}  key ${shownValue(key)}  ${domain}-time timer at ${timeText(time)}`,
    )
}

function timeText(time: number): string {
  const date = new Date(time)
  return Number.isNaN(date.getTime()) ? String(time) : date.toISOString()
}

/** Text is compared with text keys as it is, and with any key as JSON. */
function isKey({ key }: StoredKey, wanted: string): boolean {
  return key === wanted || JSON.stringify(jsonValue(key)) === normalised(wanted)
}

function normalised(json: string): string | undefined {
  try {
    return JSON.stringify(JSON.parse(json))
  } catch (error) {
    // A word that is no JSON can only be a text key.
    if (error instanceof SyntaxError) return undefined
    throw new MillraceError('MILLRACE_INTERNAL', `cannot read the key ${json}`, { cause: error })
  }
}
