import type { ConfigEntry } from '../../kafka-cluster.ts'
import type { RequestKind } from '../request.ts'

const RESOURCE_TYPE = { topic: 2, broker: 4 } as const

/** DescribeConfigs v2 of one resource. An empty list of names asks for all of its settings. */
export const describeConfigsV2: RequestKind<
  { readonly type: 'topic' | 'broker'; readonly name: string; readonly names: readonly string[] },
  {
    readonly errorCode: number
    readonly errorMessage: string | null
    readonly entries: readonly ConfigEntry[]
  }
> = {
  api: 'DescribeConfigs',
  apiKey: 32,
  version: 2,
  flexible: false,
  encode(out, { type, name, names }) {
    out.int32(1).int8(RESOURCE_TYPE[type]).string(name)
    if (names.length === 0) out.int32(-1)
    else out.array(names, (setting) => out.string(setting))
    out.bool(false)
  },
  decode(body) {
    body.int32()
    const results = body.array(() => {
      const errorCode = body.int16()
      const errorMessage = body.nullableString()
      body.int8()
      body.string()
      const entries = body.array(() => {
        const entry = { name: body.string(), value: body.nullableString() }
        body.bool()
        body.int8()
        body.bool()
        body.array(() => {
          body.string()
          body.nullableString()
          body.int8()
        })
        return entry
      })
      return { errorCode, errorMessage, entries }
    })
    return results[0] ?? { errorCode: -1, errorMessage: 'the answer is empty', entries: [] }
  },
}
