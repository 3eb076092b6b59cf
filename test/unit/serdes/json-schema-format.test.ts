import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { jsonSchema } from '../../../src/serdes/schema-registry.ts'
import { RegistryScene } from './opened-serde.ts'
import { wire } from './simulated-registry.ts'

let scene: RegistryScene
beforeEach(async () => {
  scene = await RegistryScene.start()
})
afterEach(() => scene.stop())

const ORDER = {
  type: 'object',
  properties: { user: { type: 'string' }, amount: { type: 'integer', minimum: 0 } },
  required: ['user'],
}
const add = (schema: object, subject?: string, references?: any) =>
  scene.add(
    { schema: JSON.stringify(schema), schemaType: 'JSON', ...(references && { references }) },
    subject,
  )

describe('jsonSchema', () => {
  test('values are JSON behind the id', async () => {
    add(ORDER)
    const serde = scene.open(jsonSchema())
    expect((await scene.write(serde, { user: 'ann', amount: 1 })).toString()).toBe(
      '{"user":"ann","amount":1}',
    )
    expect(await scene.there(serde, { user: 'grüße' })).toEqual({ user: 'grüße' })
  })

  test('what does not fit is refused with the place, both ways', async () => {
    const id = add(ORDER)
    const serde = scene.open(jsonSchema())
    await expect(scene.write(serde, { user: 'ann', amount: -1 })).rejects.toThrow('/amount must be >= 0')
    await expect(scene.read(serde, wire(id, '{"amount":1}'))).rejects.toThrow(
      "the value must have required property 'user'",
    )
  })

  test('damaged text is refused', async () => {
    const id = add(ORDER)
    await expect(scene.read(scene.open(jsonSchema()), wire(id, '{"user":'))).rejects.toThrow(`schema ${id}: `)
  })

  test.each([
    'http://json-schema.org/draft-04/schema#',
    'http://json-schema.org/draft-06/schema#',
    'http://json-schema.org/draft-07/schema#',
    'https://json-schema.org/draft/2019-09/schema',
    'https://json-schema.org/draft/2020-12/schema',
  ])('schemas of %s are taken', async ($schema) => {
    add({ $schema, ...ORDER })
    const serde = scene.open(jsonSchema())
    expect(await scene.there(serde, { user: 'ann' })).toEqual({ user: 'ann' })
    await expect(scene.write(serde, { user: 1 })).rejects.toThrow('/user must be string')
  })

  test('what a newer draft adds is checked', async () => {
    add({
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      prefixItems: [{ type: 'string' }],
      items: false,
    })
    await expect(scene.write(scene.open(jsonSchema()), ['a', 'b'])).rejects.toThrow(
      'must NOT have more than 1 items',
    )
  })

  test('formats and keywords of other tools are no reason to refuse a schema', async () => {
    add({
      type: 'object',
      javaType: 'com.acme.Order',
      properties: { at: { type: 'string', format: 'date-time' } },
    })
    expect(await scene.there(scene.open(jsonSchema()), { at: 'soon' })).toEqual({ at: 'soon' })
  })

  test('two versions with one $id are read side by side', async () => {
    const one = add({ $id: 'http://acme/order', type: 'object', required: ['a'] })
    const two = add({ $id: 'http://acme/order', type: 'object', required: ['b'] })
    const serde = scene.open(jsonSchema())
    expect(await scene.read(serde, wire(one, '{"a":1}'))).toEqual({ a: 1 })
    expect(await scene.read(serde, wire(two, '{"b":1}'))).toEqual({ b: 1 })
  })

  test('a schema may refer to another by its $id', async () => {
    add({ $id: 'http://acme/user', type: 'string', minLength: 2 }, 'user')
    add({ $id: 'http://acme/order2', properties: { user: { $ref: 'http://acme/user' } } }, 'out-value', [
      { name: 'http://acme/user', subject: 'user', version: 1 },
    ])
    const serde = scene.open(jsonSchema())
    expect(await scene.there(serde, { user: 'ann' })).toEqual({ user: 'ann' })
    await expect(scene.write(serde, { user: 'a' })).rejects.toThrow('/user must NOT have fewer than 2')
  })

  test('a schema is registered with its kind', async () => {
    const serde = scene.open(jsonSchema({ schema: ORDER, register: true }))
    expect(await scene.there(serde, { user: 'ann' })).toEqual({ user: 'ann' })
  })
})
