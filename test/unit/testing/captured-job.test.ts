import { describe, expect, test } from '@jest/globals'
import { collectSink } from 'millrace'
import { TestDriver } from 'millrace/testing'

describe('a module that executes by itself', () => {
  test('is driven as it is, and is loaded anew by a restart', async () => {
    const driver = await TestDriver.start(
      (_env, { number }) => import(`./executing-job.ts?start=${number}`),
      {
        topics: { numbers: 1, doubles: 1 },
      },
    )
    await driver.produce('numbers', [{ value: { n: 1 } }])
    await driver.crash()
    await driver.restart()
    await driver.catchUp()
    expect(await driver.committed('doubles')).toEqual([{ n: 2 }])
    expect(driver.logs.length).toBeGreaterThan(0)
  })

  test('is not loaded twice by the same import, and the driver says so', async () => {
    const driver = await TestDriver.start(() => import('./executing-job.ts'), {
      topics: { numbers: 1, doubles: 1 },
      realWaitMs: 1_500,
    })
    await driver.crash()
    await expect(driver.restart()).rejects.toMatchObject({
      code: 'MILLRACE_TEST_DRIVER',
      message: expect.stringContaining('start 2 of the job declared nothing'),
    })
  })

  test('may execute one job only', async () => {
    const driver = await TestDriver.start(async (env) => {
      env.fromCollection([1]).sinkTo(collectSink())
      await env.execute('first')
      env.fromCollection([2]).sinkTo(collectSink())
      await env.execute('second')
    })
    await expect(driver.finished()).rejects.toThrow("'second' after 'first'")
  })
})
