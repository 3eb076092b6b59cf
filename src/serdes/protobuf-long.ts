/** 64-bit fields of Protocol Buffers: a number when it is exact, else a bigint; both are taken when writing. */
import type { ProtoLong, ProtoUtil } from './protobufjs.ts'

const SIGNED = new Set(['int64', 'sint64', 'sfixed64'])
const UNSIGNED = new Set(['uint64', 'fixed64'])

/** Converts 64-bit values. */
export class LongFields {
  readonly #util: ProtoUtil

  constructor(util: ProtoUtil) {
    this.#util = util
  }

  /** True for the types of 64 bits. */
  has(type: string | undefined): boolean {
    return type !== undefined && (SIGNED.has(type) || UNSIGNED.has(type))
  }

  /** A value as it was decoded. */
  read(value: unknown): number | bigint {
    if (typeof value === 'number') return value
    const { low, high, unsigned } = value as ProtoLong
    const bits = (BigInt(high) << 32n) | BigInt(low >>> 0)
    const whole = unsigned ? BigInt.asUintN(64, bits) : BigInt.asIntN(64, bits)
    const number = Number(whole)
    return Number.isSafeInteger(number) ? number : whole
  }

  /** A map's key as it was decoded, in decimal. */
  readKey(key: string, type: string): string {
    return String(this.read(this.#util.longFromHash(key, UNSIGNED.has(type))))
  }

  /** A value to encode; anything that is no whole number of 64 bits is refused. */
  write(value: unknown, type: string, path: string): ProtoLong {
    const unsigned = UNSIGNED.has(type)
    if (typeof value === 'number' && !Number.isSafeInteger(value))
      throw new TypeError(`${path}: ${value} is no exact whole number; write a bigint`)
    if (typeof value !== 'number' && typeof value !== 'bigint')
      throw new TypeError(
        `${path}: a number or bigint expected, not ${value === null ? 'null' : typeof value}`,
      )
    const whole = BigInt(value)
    if (whole !== (unsigned ? BigInt.asUintN(64, whole) : BigInt.asIntN(64, whole)))
      throw new RangeError(`${path}: ${whole} does not fit into ${type}`)
    return this.#util.Long.fromBits(
      Number(BigInt.asIntN(32, whole)),
      Number(BigInt.asIntN(32, whole >> 32n)),
      unsigned,
    )
  }
}
