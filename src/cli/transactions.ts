/** `millrace transactions`: shows and ends transactions of Millrace jobs, with Kafka access alone. */

import { formatDuration } from '../config/values.ts'
import { isMillraceError, type MillraceError } from '../errors.ts'
import { endByHand, type InspectedTransaction, inspectTransactions } from '../kafka/transaction-inspector.ts'
import { type ArgumentSpec, type CommandShape, optionHelp, readArguments, usageError } from './arguments.ts'
import { ExitCode } from './job-watch.ts'
import { KAFKA_OPTIONS, textTable, toJson, withKafka } from './kafka-command.ts'
import type { RunContext } from './run.ts'

const OPTIONS = {
  ...KAFKA_OPTIONS,
  json: { doc: 'Print JSON, one transaction a line.' },
  all: { doc: 'list: also ids without an open transaction.' },
  force: { doc: 'abort, commit: also against what a completed checkpoint says.' },
} as const satisfies Record<string, ArgumentSpec>

const ACTIONS = ['list', 'abort', 'commit'] as const
type Action = (typeof ACTIONS)[number]

export const TRANSACTIONS_SHAPE: CommandShape = { options: OPTIONS, actions: ACTIONS }

function help(): string {
  return `Usage: millrace transactions list [PREFIX] | abort PREFIX | commit ID

Shows the transactions of Millrace jobs, or ends open ones by hand. Not for a running job: it ends its own.
PREFIX is a transactional id or the beginning of one up to a dot; a sink's transactionalIdPrefix may be left out.

Options:
${optionHelp(OPTIONS)}

Examples:
  millrace transactions list -D kafka.brokers=localhost:9092
  millrace transactions list --json millrace.totals
  millrace transactions abort millrace.totals.sink.3
  millrace transactions commit millrace.totals.sink.0.1

Exit codes: 0 done, 1 failed, 2 wrong usage or refused, 3 no such transaction.
`
}

/** Runs the command. @throws MillraceError for wrong usage, refusals and unreachable brokers. */
export async function transactions(args: readonly string[], context: RunContext): Promise<void> {
  const parsed = readArguments(args, OPTIONS)
  const { options, positionals } = parsed
  if (options.has('help')) {
    context.stdout.write(help())
    return
  }
  const [action, only, extra] = positionals
  if (action === undefined || !(ACTIONS as readonly string[]).includes(action))
    throw usageError(`millrace transactions needs one of ${ACTIONS.join(', ')}`)
  if (extra !== undefined)
    throw usageError(`millrace transactions ${action} takes one id or prefix, but '${extra}' came too`)
  if (action !== 'list' && only === undefined)
    throw usageError(`millrace transactions ${action} needs a transactional id or prefix`)
  await withKafka('transactions', parsed, context, async (cluster, world) => {
    const found = await inspectTransactions(cluster, world, only)
    if (action === 'list') {
      const shown = options.has('all') ? found : found.filter(({ state }) => state === 'Ongoing')
      context.stdout.write(options.has('json') ? shown.map(toJson).join('') : table(shown))
      return
    }
    const open = found.filter(({ state }) => state === 'Ongoing')
    if (open.length === 0) {
      context.stderr.write(`no open transaction of a Millrace job at or below ${only}\n`)
      context.setExitCode(ExitCode.NOT_FOUND)
      return
    }
    const refused: MillraceError[] = []
    for (const transaction of open) {
      try {
        await endByHand(cluster, transaction, action as Exclude<Action, 'list'>, options.has('force'))
      } catch (error) {
        if (!isMillraceError(error) || error.code !== 'MILLRACE_USAGE') throw error
        // The others hold readers back as well: they are ended all the same.
        refused.push(error)
        continue
      }
      context.stdout.write(
        options.has('json')
          ? toJson(transaction)
          : `${action === 'abort' ? 'aborted' : 'committed'} ${transaction.transactionalId}\n`,
      )
    }
    const [first] = refused
    if (first === undefined) return
    if (open.length === 1) throw first
    for (const { message, remedy } of refused) context.stderr.write(`refused: ${message}. ${remedy}\n`)
    throw usageError(`${refused.length} of ${open.length} transactions were refused and are still open`)
  })
}

function table(found: readonly InspectedTransaction[]): string {
  if (found.length === 0) return 'no open transactions of Millrace jobs\n'
  const rows = found.map((each) => [
    each.transactionalId,
    each.state,
    each.ageMs === undefined ? '' : formatDuration(Math.max(0, Math.round(each.ageMs / 1000) * 1000)),
    `${each.producerId}/${each.producerEpoch}`,
    each.promisedBy === undefined ? '' : String(each.promisedBy),
    each.partitions.map(({ topic, partition }) => `${topic}-${partition}`).join(' '),
  ])
  return textTable(['ID', 'STATE', 'AGE', 'PRODUCER/EPOCH', 'CHECKPOINT', 'PARTITIONS'], rows)
}
