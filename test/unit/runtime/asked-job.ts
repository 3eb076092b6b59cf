/** Sends commands to a driven job as `millrace` does: through its control topic, over the simulated brokers. */
import type { TestDriver } from 'millrace/testing'
import type { CommandOutcome, JobCommand } from '../../../src/core/job-control.ts'
import type { World } from '../../../src/core/ports.ts'
import { sendCommand } from '../../../src/kafka/control-client.ts'

/** Of the driver's jobs that name themselves nothing else. */
const JOB_NAME = 'job-under-test'

let asked = 0

/** Sends the command; whoever calls moves the clock. */
export function send(driver: TestDriver, command: JobCommand): Promise<CommandOutcome> {
  const id = `command-${++asked}`
  const world = {
    clock: { now: () => driver.now() },
    random: { uuid: () => id },
  } as unknown as World
  const client = driver.kafka.client(`sender of ${id}`)
  return sendCommand(client, JOB_NAME, command, world, { by: 'test', acceptWithinMs: 30_000 })
}

/** What came of the command. */
export async function commandOutcome(driver: TestDriver, command: JobCommand): Promise<CommandOutcome> {
  let settled = false
  const answer = send(driver, command).finally(() => {
    settled = true
  })
  answer.catch(() => undefined)
  await driver.until(() => settled, `'${command.type}' is answered`)
  return answer
}

/** The same; a command that is refused fails the test. */
export async function askJob(
  driver: TestDriver,
  command: JobCommand,
): Promise<Extract<CommandOutcome, { type: 'done' }>> {
  const outcome = await commandOutcome(driver, command)
  if (outcome.type === 'refused') throw new Error(`refused: ${outcome.failure.message}`)
  return outcome
}
