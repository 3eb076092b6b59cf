import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, test } from '@jest/globals'

const MODULE = new URL('../../../../src/kafka/kafkajs/membership-thread.ts', import.meta.url)

/** Starts the thread, lets it leave at once, and prints what it said. Nothing listens at its broker. */
const PROGRAM = `
  const { startGroupThread } = await import(${JSON.stringify(MODULE.href)})
  const member = {
    groupId: 'g', fingerprint: 'f', incarnation: 'i', onMismatch: 'fail',
    sessionTimeoutMs: 1_000, rebalanceTimeoutMs: 1_000, heartbeatMs: 100,
  }
  const link = startGroupThread({ brokers: ['127.0.0.1:1'], clientId: 'test' }, member)
  link.onMessage = (message) => {
    if (message.type === 'left') console.log('left')
    if (message.type === 'event') console.log(message.event.type, message.event.message)
    if (message.type !== 'log') link.terminate()
  }
  link.send({ type: 'leave' })
`

async function run(flags: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', ...flags, '--input-type=module', '--eval', PROGRAM],
    { env: { ...process.env, NODE_OPTIONS: '' }, timeout: 30_000 },
  )
  return stdout.trim()
}

describe('the membership thread', () => {
  test('starts in a program that is given as text', async () => {
    expect(await run([])).toBe('left')
  }, 40_000)

  test('starts under flags that only the main thread may have', async () => {
    expect(await run(['--max-old-space-size=512', '--stack-size=2000', '--title=job'])).toBe('left')
  }, 40_000)
})
