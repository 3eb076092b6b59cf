/**
 * Elements of channels as bytes: one block of structured values (structured-value.ts), format 1.
 *
 *   version 1, then for each element: edge, upstream subtask, kind (0 records, 1 watermark, 2 status), and
 *   records: values, timestamps · watermark: time · status: idle
 */
import type { InFlightCodec, InFlightElement, InFlightWriter, KeptElement } from '../checkpoint/in-flight.ts'
import { StateLostError } from '../errors.ts'
import { StructuredValueReader } from './structured-reader.ts'
import { StructuredValueWriter } from './structured-value.ts'

const VERSION = 1
const RECORDS = 0
const WATERMARK = 1
const STATUS = 2

class StructuredInFlightWriter implements InFlightWriter {
  readonly #out = new StructuredValueWriter()
  readonly #name: string
  #elements = 0

  constructor(operator: string) {
    this.#name = `records on their way to '${operator}'`
    this.#out.write(VERSION)
  }

  add({ edge, from, element }: InFlightElement): void {
    this.#elements++
    this.#out.write(edge)
    this.#out.write(from)
    switch (element.kind) {
      case 'records':
        this.#out.write(RECORDS)
        this.#out.write(element.values, this.#name)
        this.#out.write(element.timestamps)
        return
      case 'watermark':
        this.#out.write(WATERMARK)
        this.#out.write(element.timestamp)
        return
      case 'watermark-status':
        this.#out.write(STATUS)
        this.#out.write(element.idle)
        return
    }
  }

  finish(): Uint8Array | undefined {
    return this.#elements === 0 ? undefined : this.#out.finish()
  }
}

function read(bytes: Uint8Array, operator: string): InFlightElement[] {
  const where = `records on their way to '${operator}'`
  const input = new StructuredValueReader(bytes, where)
  const lost = (what: string): never => {
    throw new StateLostError('MILLRACE_STATE_LOST', `The stored ${where} are damaged: ${what}`)
  }
  if (input.read() !== VERSION) lost('they have a form that this version cannot read')
  const elements: InFlightElement[] = []
  while (!input.atEnd) {
    const edge = input.read()
    const from = input.read()
    if (typeof edge !== 'string' || typeof from !== 'number') lost('an element has no channel')
    elements.push({ edge: edge as string, from: from as number, element: readElement(input, lost) })
  }
  return elements
}

function readElement(input: StructuredValueReader, lost: (what: string) => never): KeptElement {
  const kind = input.read()
  const first = input.read()
  if (kind === RECORDS) {
    const timestamps = input.read()
    if (!Array.isArray(first) || !Array.isArray(timestamps) || first.length !== timestamps.length)
      lost('a vector has not as many timestamps as values')
    return { kind: 'records', values: first as unknown[], timestamps: timestamps as number[] }
  }
  if (kind === WATERMARK && typeof first === 'number') return { kind: 'watermark', timestamp: first }
  if (kind === STATUS && typeof first === 'boolean') return { kind: 'watermark-status', idle: first }
  return lost('an element is of no known kind')
}

/** The form of in-flight elements that all backends write. */
export const IN_FLIGHT_CODEC: InFlightCodec = {
  writer: (operator) => new StructuredInFlightWriter(operator),
  read,
}
