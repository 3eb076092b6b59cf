import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from '@jest/globals'

const run = promisify(execFile)

/** A process in which the package is not installed. */
const WITHOUT_PACKAGE = `
  import { registerHooks } from 'node:module'
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier === '@kafkajs/confluent-schema-registry') throw new Error('not installed')
      return next(specifier, context)
    },
  })
  const { avro } = await import(${JSON.stringify(new URL('../../../src/serdes/schema-registry.ts', import.meta.url).href)})
  const serde = avro()
  try {
    serde.open({ schemaRegistryUrl: 'http://127.0.0.1:1' })
  } catch ({ code, message, remedy }) {
    console.log(JSON.stringify({ code, message, remedy }))
  }
`

test('a job without the optional package may declare a registry serde; opening it names the package to install', async () => {
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', WITHOUT_PACKAGE], {
    env: { ...process.env, NODE_OPTIONS: '' },
  })
  expect(JSON.parse(stdout)).toEqual({
    code: 'MILLRACE_MISSING_PACKAGE',
    message: expect.stringContaining("'@kafkajs/confluent-schema-registry' is needed for the serde avro"),
    remedy: 'Install it: npm install @kafkajs/confluent-schema-registry',
  })
}, 30_000)
