/** One value over a registry and back, for tests of the kinds of schemas. */
import type { Serde } from '../../../src/core/connector.ts'
import { StructuredValueReader } from '../../../src/state/structured-reader.ts'
import { StructuredValueWriter } from '../../../src/state/structured-value.ts'
import { type SchemaBody, SimulatedRegistry } from './simulated-registry.ts'

/** A registry with one schema under `out-value`, and what to do with it. */
export class RegistryScene {
  readonly registry: SimulatedRegistry

  private constructor(registry: SimulatedRegistry) {
    this.registry = registry
  }

  static async start(): Promise<RegistryScene> {
    return new RegistryScene(await SimulatedRegistry.start())
  }

  stop(): Promise<void> {
    return this.registry.stop()
  }

  add(body: SchemaBody, subject = 'out-value'): number {
    return this.registry.add(subject, body)
  }

  open<T>(serde: Serde<T>): Serde<T> {
    void serde.open?.({ schemaRegistryUrl: this.registry.url })
    return serde
  }

  /** Bytes behind the schema id. */
  async write<T>(serde: Serde<T>, value: T): Promise<Buffer> {
    await serde.prepareSerialize?.(value, 'out')
    return Buffer.from(serde.serialize(value, 'out') as Uint8Array).subarray(5)
  }

  async read<T>(serde: Serde<T>, bytes: Uint8Array): Promise<T> {
    await serde.prepareDeserialize?.(bytes)
    return serde.deserialize(bytes)
  }

  /** The value written with the schema and read again. */
  async there<T>(serde: Serde<T>, value: T): Promise<T> {
    await serde.prepareSerialize?.(value, 'out')
    return this.read(serde, serde.serialize(value, 'out') as Uint8Array)
  }
}

/** The value as it comes out of state. */
export function keptInState(value: unknown): unknown {
  const writer = new StructuredValueWriter()
  writer.write(value, 'orders')
  return new StructuredValueReader(writer.finish(), 'a test').read()
}
