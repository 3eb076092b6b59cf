import type { RequestKind } from '../request.ts'

export type CoordinatorType = 'group' | 'transaction'

/** FindCoordinator v2: which broker looks after a group or a transactional id. */
export const findCoordinatorV2: RequestKind<
  { readonly type: CoordinatorType; readonly key: string },
  {
    readonly errorCode: number
    readonly errorMessage: string | null
    readonly nodeId: number
    readonly host: string
    readonly port: number
  }
> = {
  api: 'FindCoordinator',
  apiKey: 10,
  version: 2,
  flexible: false,
  encode(out, { type, key }) {
    out.string(key).int8(type === 'group' ? 0 : 1)
  },
  decode(body) {
    body.int32()
    return {
      errorCode: body.int16(),
      errorMessage: body.nullableString(),
      nodeId: body.int32(),
      host: body.string(),
      port: body.int32(),
    }
  },
}
