/** A job module that declares a job and forgets to run it. */
import { StreamExecutionEnvironment } from 'millrace'

const env = StreamExecutionEnvironment.getExecutionEnvironment()
env.fromCollection([1, 2, 3]).print()
