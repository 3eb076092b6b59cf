/**
 * Options of Flink's whose feature Millrace does not have yet: whoever sets one is told so, instead of that it means nothing. They have no row in
 * the option table, since a setting without an effect would be a lie.
 */

/** A key, or what it begins with (ends with a dot) → what there is in its place. */
const ABSENT: readonly (readonly [string, string])[] = [
  ['rest.port', 'no web page is served; millrace info, events and list reach a job through Kafka'],
  ['rest.bind-port', 'no web page is served; millrace info, events and list reach a job through Kafka'],
  ['rest.address', 'no web page is served; millrace info, events and list reach a job through Kafka'],
  ['rest.bind-address', 'no web page is served; millrace info, events and list reach a job through Kafka'],
  ['metrics.', 'no reporter is built in; millrace info shows the load of each subtask'],
]

/** What there is instead of an option that is not in this version; undefined for any other key. */
export function absentOption(key: string): string | undefined {
  return ABSENT.find(([known]) => (known.endsWith('.') ? key.startsWith(known) : key === known))?.[1]
}
