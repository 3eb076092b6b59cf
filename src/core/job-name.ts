/**
 * Job names in places with narrow rules: Kafka topics, transactional ids, folders.
 */
import { MillraceError } from '../errors.ts'
import { encodeKey } from './key-encoding.ts'
import { murmur3Hex128 } from './murmur3.ts'

const HASH_LENGTH = 32
/** Names that are kept as they are. '.' is never kept: it separates the parts of a topic name, and Kafka lets 'a.b' and 'a_b' clash. */
const PLAIN = /^[a-zA-Z0-9_-]+$/
/** What an encoded name looks like; a plain name of this form is encoded too, so that it cannot be taken for another's. */
const ENCODED = /-[0-9a-f]{32}$/

/**
 * The job's name in at most `maxBytes` characters of [a-zA-Z0-9_-], never with a dot. A short legal name stays as it is; any other
 * becomes its readable part, '-' and the 128-bit MurmurHash3 of the name. Different names give different results (up to a collision of
 * that hash, 1 in 2^64 names), the same name always gives the same one: stored topics and folders are found by it.
 */
export function encodeJobName(name: string, maxBytes: number): string {
  if (maxBytes <= HASH_LENGTH)
    throw new MillraceError(
      'MILLRACE_INTERNAL',
      `A job name needs at least ${HASH_LENGTH + 1} bytes, not ${maxBytes}`,
    )
  if (name.length <= maxBytes && PLAIN.test(name) && !ENCODED.test(name)) return name
  const readable = name
    .replace(/[^a-zA-Z0-9_-]+/g, '-')
    .slice(0, maxBytes - HASH_LENGTH - 1)
    .replace(/^-+|-+$/g, '')
  return `${readable || 'job'.slice(0, maxBytes - HASH_LENGTH - 1)}-${murmur3Hex128(encodeKey(name))}`
}
