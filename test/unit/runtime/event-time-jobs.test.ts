import { describe, expect, jest, test } from '@jest/globals'
import {
  type Collector,
  json,
  type KafkaRecord,
  KeyedCoProcessFunction,
  KeyedProcessFunction,
  kafkaSink,
  kafkaSource,
  type RuntimeContext,
  reinterpretAsKeyedStream,
  type StreamExecutionEnvironment,
  string,
  TumblingEventTimeWindows,
  type ValueState,
  ValueStateDescriptor,
  WatermarkStrategy,
} from 'millrace'
import { TestDriver } from 'millrace/testing'

jest.setTimeout(60_000)

interface Event {
  readonly k: string
  readonly id: number
  readonly ts: number
}

const strategy = () =>
  WatermarkStrategy.forMonotonousTimestamps<Event>().withTimestampAssigner((event) => event.ts)

function eventsOf(env: StreamExecutionEnvironment, topic: string, how = strategy()) {
  return env
    .fromSource(kafkaSource<Event>({ topics: [topic], groupId: `g-${topic}`, value: json() }), how, topic)
    .uid(topic)
}
const events = (of: readonly [k: string, id: number, ts: number][]) =>
  of.map(([k, id, ts]) => ({ key: k, value: { k, id, ts } }))

describe('joins of whole jobs', () => {
  test('a window join, an interval join and a coGroup are exact over a crash and a rescale', async () => {
    const job = (env: StreamExecutionEnvironment) => {
      const left = eventsOf(env, 'left')
      const right = eventsOf(env, 'right')
      const window = TumblingEventTimeWindows.of(100)
      const sinkOf = (kind: string) => kafkaSink<string>({ topic: kind, value: string() })
      left
        .join(right)
        .where((l) => l.k)
        .equalTo((r) => r.k)
        .window(window)
        .apply((l, r) => `${l.id}+${r.id}`)
        .uid('join')
        .sinkTo(sinkOf('joined'))
        .uid('joined')
      left
        .coGroup(right)
        .where((l) => l.k)
        .equalTo((r) => r.k)
        .window(window)
        .apply((ls, rs) => [`${ls.length}/${rs.length}`])
        .uid('group')
        .sinkTo(sinkOf('grouped'))
        .uid('grouped')
      left
        .keyBy((l) => l.k)
        .intervalJoin(right.keyBy((r) => r.k))
        .between(-10, 10)
        .process<string>((l, r, _context, out) => out.collect(`${l.id}~${r.id}`))
        .uid('interval')
        .sinkTo(sinkOf('near'))
        .uid('near')
    }
    const driver = await TestDriver.start(job, {
      topics: { left: 1, right: 1, joined: 1, grouped: 1, near: 1 },
      checkpointIntervalMs: 100,
      parallelism: 1,
    })
    await driver.produce(
      'left',
      events([
        ['a', 1, 10],
        ['b', 2, 20],
        ['a', 3, 60],
      ]),
    )
    await driver.produce(
      'right',
      events([
        ['a', 11, 15],
        ['c', 12, 70],
      ]),
    )
    await driver.catchUp()
    await driver.crash()
    await driver.restart({ parallelism: 4 })
    await driver.produce('left', events([['a', 4, 80]]))
    await driver.produce(
      'right',
      events([
        ['a', 13, 75],
        ['b', 14, 90],
      ]),
    )
    await driver.catchUp()
    await driver.crash()
    await driver.restart({ parallelism: 2 })
    await driver.produce('left', events([['x', 5, 500]]))
    await driver.produce('right', events([['x', 15, 500]]))
    await driver.advance(2_000)
    await driver.catchUp()
    const sorted = async (topic: string) => (await driver.committed<string>(topic, string())).sort()
    expect(await sorted('joined')).toEqual(['1+11', '3+11', '4+11', '1+13', '3+13', '4+13', '2+14'].sort())
    expect(await sorted('grouped')).toEqual(['0/1', '1/1', '3/2'])
    expect(await sorted('near')).toEqual(['1~11', '4~13', '5~15'])
  })

  test('a compacted topic as a table: the latest row of a key, and none after a tombstone', async () => {
    interface Row {
      readonly user: string
      readonly name: string | null
    }
    class Enrich extends KeyedCoProcessFunction<string, Event, Row, string> {
      private name!: ValueState<string>
      override open(context: RuntimeContext) {
        this.name = context.getState(new ValueStateDescriptor<string>('name'))
      }
      override processElement1(event: Event, _context: this['Context'], out: Collector<string>) {
        out.collect(`${event.id} ${this.name.value() ?? 'nobody'}`)
      }
      override processElement2(row: Row) {
        if (row.name === null) this.name.clear()
        else this.name.update(row.name)
      }
    }
    const driver = await TestDriver.start(
      (env) => {
        const users = env
          .fromSource(
            kafkaSource<Row>({
              topics: ['users'],
              groupId: 'g-users',
              deserializer: ({ key, value }: KafkaRecord) => ({
                user: string().deserialize(key!),
                name: value === null ? null : string().deserialize(value),
              }),
            }),
            WatermarkStrategy.noWatermarks<Row>(),
            'users',
          )
          .uid('users')
        eventsOf(env, 'events')
          .connect(users)
          .keyBy(
            (event) => event.k,
            (row) => row.user,
          )
          .process(new Enrich())
          .uid('enrich')
          .sinkTo(kafkaSink<string>({ topic: 'named', value: string() }))
          .uid('named')
      },
      { topics: { users: 1, events: 1, named: 1 }, checkpointIntervalMs: 100 },
    )
    const user = (value: string | null) => driver.produce('users', [{ key: 'a', value }], string() as never)
    await user('Ann')
    await driver.catchUp()
    await driver.produce('events', events([['a', 1, 1]]))
    await driver.catchUp()
    await user(null)
    await driver.catchUp()
    await driver.produce('events', events([['a', 2, 2]]))
    await driver.catchUp()
    expect(await driver.committed('named', string())).toEqual(['1 Ann', '2 nobody'])
  })
})

describe('a topic with records on one of its four partitions, read by six subtasks', () => {
  const windows = (idleMs: number | undefined) => (env: StreamExecutionEnvironment) => {
    eventsOf(env, 'in', idleMs === undefined ? strategy() : strategy().withIdleness(idleMs))
      .keyBy((event) => event.k)
      .window(TumblingEventTimeWindows.of(10_000))
      .process((_key, context, rows, out: Collector<string>) =>
        out.collect(`${context.window().start}: ${rows.length}`),
      )
      .uid('windows')
      .sinkTo(kafkaSink<string>({ topic: 'out', value: string() }))
      .uid('out')
  }
  const start = (idleMs: number | undefined) =>
    TestDriver.start(windows(idleMs), {
      topics: { in: 4, out: 1 },
      checkpointIntervalMs: 10_000,
      parallelism: 6,
    })
  const record = (ts: number, partition = 0) => ({ value: { k: 'a', id: 0, ts }, partition })

  test('fires no window without idleness, and says which partitions hold it back', async () => {
    const driver = await start(undefined)
    for (let ts = 0; ts <= 80_000; ts += 1_000) {
      await driver.produce('in', [record(ts)])
      await driver.advance(1_000)
    }
    await driver.triggerCheckpoint()
    expect(await driver.committed('out')).toEqual([])
    // Three splits, and their subtasks as channels of six windows.
    expect(driver.metric('holds_watermark_back')).toBeGreaterThanOrEqual(3)
    const warning = driver.logs
      .map(({ message }) => message)
      .find((text) => text.startsWith('Windows of operator'))
    expect(warning).toMatch(/in-1.*in-2.*in-3/)
    expect(warning).not.toMatch(/in-0/)
  })

  test('fires with idleness; an old record of an idle partition moves nothing back', async () => {
    const driver = await start(5_000)
    for (let ts = 0; ts <= 60_000; ts += 1_000) await driver.produce('in', [record(ts)])
    await driver.advance(7_000)
    await driver.produce('in', [record(60_001)])
    await driver.produce('in', [record(5_000, 1)])
    await driver.advance(2_000)
    await driver.triggerCheckpoint()
    expect((await driver.committed<string>('out', string())).sort()).toEqual(
      [0, 10_000, 20_000, 30_000, 40_000, 50_000].map((at) => `${at}: 10`).sort(),
    )
    expect(driver.metric('late_records_dropped')).toBe(1)
  })
})

describe('sources of one alignment group', () => {
  test('do not run ahead of the slowest by more than the max drift', async () => {
    const aligned = () => strategy().withWatermarkAlignment('together', 1_000, 100)
    const driver = await TestDriver.start(
      (env) => {
        eventsOf(env, 'fast', aligned())
          .union(eventsOf(env, 'slow', aligned()))
          .map((event) => event.id)
          .sinkTo(kafkaSink<number>({ topic: 'out', value: json() }))
          .uid('out')
      },
      { topics: { fast: 1, slow: 1, out: 1 }, checkpointIntervalMs: 100_000 },
    )
    await driver.produce('slow', events([['s', 0, 1_000]]))
    await driver.advance(1_000)
    await driver.produce(
      'fast',
      events([
        ['f', 1, 1_500],
        ['f', 2, 60_000],
      ]),
    )
    // Before the fast source had a watermark the slow one waited for it.
    await driver.until(() => driver.metric('alignment_drift_ms') > 50_000, 'the fast source waits')
    await driver.produce('fast', events([['f', 3, 60_001]]))
    await driver.advance(5_000)
    await driver.triggerCheckpoint()
    expect((await driver.committed<number>('out')).sort()).toEqual([0, 1, 2])
    await driver.advance(70_000)
    expect(driver.logs.map(({ message }) => message)).toContainEqual(
      expect.stringMatching(/source 'fast' \(subtask 1\) has waited for 60 s: .*held back by source 'slow'/),
    )
    await driver.produce('slow', events([['s', 4, 59_500]]))
    await driver.until(() => driver.metric('alignment_paused') === 0, 'the fast source goes on')
    await driver.catchUp()
    expect((await driver.committed<number>('out')).sort()).toEqual([0, 1, 2, 3, 4])
  })
})

class Count extends KeyedProcessFunction<string, Event, Event> {
  private count!: ValueState<number>
  override open(context: RuntimeContext) {
    this.count = context.getState(new ValueStateDescriptor<number>('count'))
  }
  override processElement(event: Event, _context: this['Context'], out: Collector<Event>) {
    const id = (this.count.value() ?? 0) + 1
    this.count.update(id)
    out.collect({ ...event, id })
  }
}

describe('reinterpretAsKeyedStream', () => {
  const keys = Array.from({ length: 20 }, (_, i) => `key-${i}`)

  test('takes what stands behind a keyBy, and its state moves at a rescale', async () => {
    const driver = await TestDriver.start(
      (env) => {
        const counted = eventsOf(env, 'in')
          .keyBy((event) => event.k)
          .process(new Count())
          .uid('first')
        reinterpretAsKeyedStream(counted, (event) => event.k)
          .process(new Count())
          .uid('second')
          .sinkTo(kafkaSink<Event>({ topic: 'out', value: json() }))
          .uid('out')
      },
      { topics: { in: 3, out: 1 }, checkpointIntervalMs: 100, parallelism: 2 },
    )
    for (const parallelism of [3, 1, undefined]) {
      await driver.produce('in', events(keys.map((key) => [key, 0, 0])))
      await driver.catchUp()
      if (parallelism === undefined) break
      await driver.crash()
      await driver.restart({ parallelism })
    }
    const counts = (await driver.committed<Event>('out')).map(({ k, id }) => `${k}:${id}`)
    expect(counts.sort()).toEqual(keys.flatMap((key) => [1, 2, 3].map((n) => `${key}:${n}`)).sort())
  })

  test('takes what comes out of an asyncMap behind a keyBy, also records that were in flight at a rescale', async () => {
    const driver = await TestDriver.start(
      (env) => {
        const looked = eventsOf(env, 'in')
          .keyBy((event) => event.k)
          .asyncMap(
            async (event, { attempt }) => {
              if (attempt === 1) throw new Error('busy')
              return event
            },
            { capacity: 50, retry: { maxAttempts: 2, backoffMs: 2_000 } },
          )
          .uid('lookup')
        reinterpretAsKeyedStream(looked, (event) => event.k)
          .process(new Count())
          .uid('count')
          .sinkTo(kafkaSink<Event>({ topic: 'out', value: json() }))
          .uid('out')
      },
      { topics: { in: 3, out: 1 }, checkpointIntervalMs: 100, parallelism: 2 },
    )
    for (const parallelism of [3, 1, 2]) {
      await driver.produce('in', events(keys.map((key) => [key, 0, 0])))
      await driver.advance(500)
      await driver.triggerCheckpoint()
      expect(driver.metric('async_in_flight')).toBe(keys.length)
      await driver.crash()
      await driver.restart({ parallelism })
      await driver.advance(3_000)
    }
    const counts = (await driver.committed<Event>('out')).map(({ k, id }) => `${k}:${id}`)
    expect(counts.sort()).toEqual(keys.flatMap((key) => [1, 2, 3].map((n) => `${key}:${n}`)).sort())
  })

  test('refuses a topic that Kafka has partitioned', async () => {
    const driver = await TestDriver.start(
      (env) => {
        reinterpretAsKeyedStream(eventsOf(env, 'in'), (event) => event.k)
          .process(new Count())
          .uid('count')
          .print()
      },
      { topics: { in: 4 }, checkpointIntervalMs: 100, parallelism: 4 },
    )
    await driver.produce('in', events(keys.map((key) => [key, 0, 0])))
    await expect(driver.advance(10_000)).rejects.toMatchObject({
      cause: { code: 'MILLRACE_KEY_NOT_OWNED' },
    })
  })
})

test('records that wait for an asyncMap are not late, however long it takes', async () => {
  const timed = WatermarkStrategy.forMonotonousTimestamps<Event>().withTimestampAssigner((event) => event.ts)
  const driver = await TestDriver.start(
    (env) => {
      const slow = eventsOf(env, 'slow', WatermarkStrategy.noWatermarks<Event>())
        .assignTimestampsAndWatermarks(timed.withIdleness(300))
        .asyncMap(
          async (event, { attempt }) => {
            if (attempt === 1) throw new Error('busy')
            return event
          },
          { capacity: 256, retry: { maxAttempts: 2, backoffMs: 900 } },
        )
      slow
        .union(eventsOf(env, 'fast', timed))
        .keyBy((event) => event.k)
        .window(TumblingEventTimeWindows.of(100))
        .aggregate({ createAccumulator: () => 0, add: (_event, n) => n + 1, getResult: (n) => n })
        .sinkTo(kafkaSink<number>({ topic: 'counts', value: json() }))
    },
    { topics: { slow: 1, fast: 1, counts: 1 }, checkpointIntervalMs: 100 },
  )
  await driver.produce('fast', events([['fast', 0, 1_000_000]]))
  await driver.produce('slow', events(Array.from({ length: 768 }, (_, i) => ['slow', i, i])))
  await driver.advance(10_000)
  await driver.produce('fast', events([['fast', 1, 1_000_100]]))
  await driver.advance(2_000)
  const counts = await driver.committed<number>('counts', json())
  expect(counts.reduce((sum, n) => sum + n, 0)).toBe(768 + 1)
})
