/** One operator as the methods of streams declare it, to be driven without a job. */
import type { DataStream } from '../api/data-stream.ts'
import { JobStatus } from '../core/constants.ts'
import type { OperatorNode } from '../core/graph/stream-graph.ts'
import type { OperatorFactory } from '../core/operators/stream-operator.ts'
import { GraphError, MillraceError } from '../errors.ts'
import { captureJob } from './captured-job.ts'

/** Makes one operator of a stream. */
export type BuildOperator<IN, OUT> = (input: DataStream<IN>) => DataStream<OUT>
/** Makes one operator of two streams. */
export type BuildTwoInputOperator<IN, IN2, OUT> = (
  first: DataStream<IN>,
  second: DataStream<IN2>,
) => DataStream<OUT>

/** An operator and what its declaration says of it. */
export interface DeclaredOperator {
  readonly factory: OperatorFactory
  readonly declared: { readonly keyed: boolean; readonly name: string; readonly maxParallelism?: number }
}

/** Nothing runs here: the graph is looked at. */
const NO_JOB = {
  status: JobStatus.CREATED,
  cancel: async () => undefined,
  triggerCheckpoint: () =>
    Promise.reject(new MillraceError('MILLRACE_TEST_DRIVER', 'an operator alone takes no checkpoint')),
}

/** @throws MILLRACE_INVALID_GRAPH unless exactly one operator is declared. */
export async function declaredOperator(
  build: BuildTwoInputOperator<any, any, any>,
): Promise<DeclaredOperator> {
  const { submission } = await captureJob({
    declare: (env) => {
      build(env.fromCollection<any>([]), env.fromCollection<any>([]))
    },
    start: { number: 1 },
    jobName: 'operator-harness',
    running: NO_JOB,
    clock: { now: () => 0 },
    patienceMs: Number.POSITIVE_INFINITY,
  })
  const operators = submission.graph.nodes.filter((node): node is OperatorNode => node.kind === 'operator')
  const [operator, ...more] = operators
  if (operator === undefined || more.length > 0)
    throw new GraphError(
      'MILLRACE_INVALID_GRAPH',
      `a harness drives one operator, and ${operators.length === 0 ? 'none' : operators.map(({ name }) => name).join(', ')} was declared`,
      { remedy: 'Declare one operator, or test the job with TestDriver.' },
    )
  return {
    factory: operator.factory,
    declared: {
      keyed: operator.keyOf !== undefined,
      name: operator.name,
      ...(operator.maxParallelism === undefined ? {} : { maxParallelism: operator.maxParallelism }),
    },
  }
}
