/** Which registry a job asks. */
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { avro, bytes, kafkaSink } from 'millrace'
import { TestDriver } from 'millrace/testing'
import { SimulatedRegistry, wire } from '../serdes/simulated-registry.ts'

let registries: SimulatedRegistry[]
beforeEach(async () => {
  registries = [await SimulatedRegistry.start(), await SimulatedRegistry.start()]
})
afterEach(() => Promise.all(registries.map((registry) => registry.stop())))

test('schema.registry.url: values are written with the schema that this registry has', async () => {
  const [asked, other] = registries as [SimulatedRegistry, SimulatedRegistry]
  other.add('out-value', { schema: '"long"' })
  asked.add('unused-value', { schema: '"int"' })
  const id = asked.add('out-value', { schema: '"string"' })
  const driver = await TestDriver.start(
    (env) => {
      env.fromCollection(['one']).sinkTo(kafkaSink({ topic: 'out', value: avro<string>() }))
    },
    { topics: { out: 1 }, checkpointIntervalMs: 100, config: { 'schema.registry.url': asked.url } },
  )
  expect(await driver.finished()).toBe('FINISHED')
  const [written] = await driver.committed<Uint8Array>('out', bytes())
  expect(Buffer.from(written!).toString('hex')).toBe(Buffer.from(wire(id, '\x06one')).toString('hex'))
  expect(other.requests).toEqual([])
})
