import type { RequestKind } from '../request.ts'

/** DeleteTopics v3. */
export const deleteTopicsV3: RequestKind<
  { readonly topics: readonly string[]; readonly timeoutMs: number },
  readonly { readonly topic: string; readonly errorCode: number }[]
> = {
  api: 'DeleteTopics',
  apiKey: 20,
  version: 3,
  flexible: false,
  encode(out, { topics, timeoutMs }) {
    out.array(topics, (topic) => out.string(topic)).int32(timeoutMs)
  },
  decode(body) {
    body.int32()
    return body.array(() => ({ topic: body.string(), errorCode: body.int16() }))
  },
}
