/**
 * Joins checksums without reading the bytes again: from CRC(A), CRC(B) and B's length follows CRC(AB).
 * A batch's CRC covers its header and its records, the digest of a transaction only the records; so both cost one pass.
 *
 * A CRC is a polynomial over GF(2) modulo CRC-32C's own; appending n bytes multiplies what came before by x^(8n).
 * Polynomials are 32-bit numbers here, lowest power in the highest bit, as the CRC itself has them.
 */

/** CRC-32C's polynomial in that bit order. */
const POLYNOMIAL = 0x82f63b78
const ONE = 0x80000000

/** x^(8 · 2^k) for k = 0 … 31. */
const POWERS: number[] = []
for (let k = 0, power = 0x00800000; k < 32; k++) {
  POWERS.push(power)
  power = multiply(power, power)
}

/** CRC-32C of two runs of bytes together, from the CRC of each and the length of the second. */
export function crc32cAppend(first: number, second: number, secondLength: number): number {
  let shift = ONE
  for (let rest = secondLength, k = 0; rest > 0; rest >>>= 1, k++) {
    if (rest & 1) shift = multiply(shift, POWERS[k]!)
  }
  return (multiply(shift, first) ^ second) >>> 0
}

/** The product of two polynomials, modulo the CRC's. */
function multiply(a: number, b: number): number {
  let product = 0
  let shifted = b
  for (let bit = ONE; bit !== 0; bit >>>= 1) {
    if (a & bit) product ^= shifted
    shifted = shifted & 1 ? (shifted >>> 1) ^ POLYNOMIAL : shifted >>> 1
  }
  return product >>> 0
}
