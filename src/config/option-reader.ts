/** Reads one value by the row of its option, says what was expected if it does not fit, and shows values without their secrets. */
import { fileURLToPath } from 'node:url'
import type { AnyOptionValue, OptionInput, OptionSpec } from './option-spec.ts'
import { formatDuration, formatSize, parseDuration, parseSize } from './values.ts'

/** What stands in the place of a secret. */
export const MASK = '******'

/** The value of `input`, or undefined if it does not fit the option. */
export function readOption(spec: OptionSpec, input: OptionInput): AnyOptionValue | undefined {
  if (spec.type === 'list') return readList(input, spec.item)
  if (typeof input === 'object') return undefined
  const text = String(input).trim()
  switch (spec.type) {
    case 'duration':
      return within(parseDuration(text), limit(spec.min, parseDuration), limit(spec.max, parseDuration))
    case 'size':
      return within(parseSize(text), limit(spec.min, parseSize), limit(spec.max, parseSize))
    case 'int':
      if (spec.word !== undefined && text.toLowerCase() === spec.word) return spec.word
      return /^[+-]?\d+$/.test(text) ? within(Number(text), spec.min, spec.max) : undefined
    case 'number':
      return /^[+-]?(\d+\.?\d*|\.\d+)$/.test(text) ? within(Number(text), spec.min, spec.max) : undefined
    case 'boolean':
      return readBoolean(text)
    case 'enum':
      return spec.values.find((value) => folded(value) === folded(text))
    case 'path':
      return readPath(text)
    case 'url':
      return /^https?:$/.test(URL.parse(text)?.protocol ?? '') ? text : undefined
    case 'string':
      // Blanks may be part of a password.
      return text === '' ? undefined : String(input)
  }
}

/** What a value of the option looks like, for messages. */
export function expectationOf(spec: OptionSpec): string {
  switch (spec.type) {
    case 'duration':
      return `a duration such as "500 ms" or "10 min"${limitsText(spec.min, spec.max)}`
    case 'size':
      return `a size such as "1kb" or "64 mb"${limitsText(spec.min, spec.max)}`
    case 'int':
    case 'number': {
      const word = spec.word === undefined ? '' : `"${spec.word}" or `
      return `${word}${spec.type === 'int' ? 'a whole number' : 'a number'} from ${spec.min} to ${spec.max}`
    }
    case 'boolean':
      return 'true or false'
    case 'enum':
      return `one of ${spec.values.join(', ')}`
    case 'list':
      return `a list such as "${spec.itemText},${spec.itemText}"`
    case 'path':
      return 'a path, or a file: URL'
    case 'url':
      return 'an http: or https: URL'
    case 'string':
      return 'a text that is not empty'
  }
}

/** A value as a person would write it, secrets masked. */
export function showValue(spec: OptionSpec, value: AnyOptionValue): string {
  if (spec.secret === 'value') return MASK
  if (spec.secret === 'url-password') return maskUrl(String(value))
  if (typeof value === 'number') {
    if (spec.type === 'duration') return formatDuration(value)
    if (spec.type === 'size') return formatSize(value)
  }
  return typeof value === 'object' ? value.join(',') : String(value)
}

/** What somebody wrote, for a message about it; secrets are masked even when the text makes no sense. */
export function showInput(spec: OptionSpec, input: OptionInput): string {
  if (spec.secret === 'value') return MASK
  const text = typeof input === 'object' ? input.join(',') : String(input)
  return `'${spec.secret === 'url-password' ? maskUrl(text) : text}'`
}

/** A URL with its password replaced; an `@` inside the password is covered too. */
function maskUrl(text: string): string {
  return text.replace(/([^\s/:@]*):(?!\/\/)\S*@/, `$1:${MASK}@`)
}

/** Enum values are accepted in any case and with any separator: Flink's own spelling varies between versions. */
const folded = (text: string): string => text.toLowerCase().replaceAll(/[-_ ]/g, '')

function limit(text: string | undefined, parse: (text: string) => number | undefined): number | undefined {
  return text === undefined ? undefined : parse(text)
}

function within(
  value: number | undefined,
  min: number | undefined,
  max: number | undefined,
): number | undefined {
  if (value === undefined || value < (min ?? value) || value > (max ?? value)) return undefined
  return value
}

function limitsText(min: string | undefined, max: string | undefined): string {
  return `${min === undefined ? '' : `, at least ${min}`}${max === undefined ? '' : `, at most ${max}`}`
}

function readBoolean(text: string): boolean | undefined {
  return text.toLowerCase() === 'true' ? true : text.toLowerCase() === 'false' ? false : undefined
}

function readList(input: OptionInput, item: RegExp): readonly string[] | undefined {
  const parts = typeof input === 'object' ? input : String(input).split(',')
  const items = parts.map((part) => part.trim()).filter((part) => part !== '')
  return items.length > 0 && items.every((part) => item.test(part)) ? items : undefined
}

/** A path, also from a `file:` URL. Other schemes (s3:, hdfs:) are no folders of this machine. */
function readPath(text: string): string | undefined {
  if (text === '') return undefined
  const scheme = /^([a-z][a-z0-9+.-]+):/i.exec(text)?.[1]
  if (scheme === undefined) return text
  if (scheme.toLowerCase() !== 'file') return undefined
  const url = URL.parse(text)
  return url === null || url.host !== '' ? undefined : fileURLToPath(url)
}
