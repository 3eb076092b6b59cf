import { describe, expect, jest, test } from '@jest/globals'
import { json, kafkaSink, kafkaSource, type StreamExecutionEnvironment, WatermarkStrategy } from 'millrace'
import { TestDriver } from 'millrace/testing'

jest.setTimeout(60_000)

interface Question {
  readonly id: number
}
interface Answer {
  readonly id: number
  readonly answer: number
}

/** Each question is refused twice before it is answered: with the back-off it is in flight for a second of the test's clock. */
function lookups(ordered: boolean, capacity: number) {
  return (env: StreamExecutionEnvironment) => {
    env
      .fromSource(
        kafkaSource<Question>({ topics: ['questions'], groupId: 'lookup', value: json() }),
        WatermarkStrategy.noWatermarks<Question>(),
        'questions',
      )
      .uid('questions')
      .asyncMap(
        async ({ id }, { attempt }): Promise<Answer> => {
          if (attempt < 3) throw new Error('busy')
          return { id, answer: id * id }
        },
        { ordered, capacity, retry: { maxAttempts: 3, backoffMs: 500 } },
      )
      .uid('lookup')
      .sinkTo(kafkaSink<Answer>({ topic: 'answers', value: json() }))
      .uid('answers')
  }
}

const questions = (from: number, count: number) =>
  Array.from({ length: count }, (_, i) => ({
    key: `${(from + i) % 7}`,
    value: { id: from + i },
    partition: 0,
  }))
const answers = (count: number): Answer[] =>
  Array.from({ length: count }, (_, id) => ({ id, answer: id * id }))

describe('a job with an asyncMap', () => {
  test.each([true, false])(
    'gives each answer once over crashes with requests in flight (ordered: %s)',
    async (ordered) => {
      const driver = await TestDriver.start(lookups(ordered, 20), {
        topics: { questions: 1, answers: 1 },
        checkpointIntervalMs: 200,
      })
      let asked = 0
      for (let round = 0; round < 5; round++) {
        await driver.produce('questions', questions(asked, 40))
        asked += 40
        await driver.advance(300 + 370 * round)
        await driver.crash()
        await driver.restart()
      }
      await driver.catchUp()
      // Everything is read, but the last requests may still be in flight.
      await driver.advance(20_000)
      await driver.triggerCheckpoint()
      const committed = await driver.committed<Answer>('answers')
      expect(ordered ? committed : committed.toSorted((a, b) => a.id - b.id)).toEqual(answers(asked))
    },
  )

  test('takes checkpoints while requests are in flight and more records wait than there is capacity', async () => {
    const driver = await TestDriver.start(lookups(true, 5), {
      topics: { questions: 1, answers: 1 },
      checkpointIntervalMs: 100_000,
    })
    await driver.produce('questions', questions(0, 300))
    await driver.until(() => driver.metric('async_in_flight') === 5, 'requests are in flight')
    const before = driver.now()
    await driver.triggerCheckpoint()
    // 300 questions take 60 s at this capacity.
    expect(driver.now() - before).toBeLessThan(1_000)
    await driver.crash()
    await driver.restart()
    await driver.advance(80_000)
    await driver.triggerCheckpoint()
    expect(await driver.committed('answers')).toEqual(answers(300))
  })

  test('rescaled with records in flight, asks for each once', async () => {
    const driver = await TestDriver.start(lookups(false, 50), {
      topics: { questions: 2, answers: 1 },
      checkpointIntervalMs: 200,
      parallelism: 2,
    })
    for (const parallelism of [1, 3]) {
      await driver.produce(
        'questions',
        Array.from({ length: 60 }, (_, i) => ({
          value: { id: (parallelism === 1 ? 0 : 60) + i },
          partition: i % 2,
        })),
      )
      await driver.advance(700)
      await driver.triggerCheckpoint()
      await driver.crash()
      await driver.restart({ parallelism })
    }
    await driver.catchUp()
    await driver.advance(10_000)
    await driver.triggerCheckpoint()
    const committed = await driver.committed<Answer>('answers')
    expect(committed.toSorted((a, b) => a.id - b.id)).toEqual(answers(120))
  })

  test('fails with the record when no attempt is left', async () => {
    const driver = await TestDriver.start(
      (env) => {
        env
          .fromCollection([1, 2, 3])
          .asyncMap(
            async (value) => {
              if (value === 2) throw new Error('no such thing')
              return value
            },
            { retry: { maxAttempts: 2, backoffMs: 100 } },
          )
          .uid('lookup')
          .print()
      },
      { checkpointIntervalMs: 100 },
    )
    await expect(driver.advance(5_000)).rejects.toMatchObject({
      message: expect.stringMatching(/asyncMap of operator 'async-map'.*no such thing/),
    })
  })
})
