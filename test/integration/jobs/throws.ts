/** A job module with a mistake in it. */
import { StreamExecutionEnvironment } from 'millrace'

const COUNTRIES: Record<string, string> = { DE: 'Germany' }

function nameOf(country: string): string {
  const name = COUNTRIES[country]
  if (name === undefined) throw new Error(`no such country: ${country}`)
  return name
}

const env = StreamExecutionEnvironment.getExecutionEnvironment()
env.fromCollection([nameOf('Atlantis')]).print()
await env.execute('throws')
