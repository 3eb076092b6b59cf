import type { RequestKind } from '../request.ts'

/** DeleteGroups v1 of one group. */
export const deleteGroupsV1: RequestKind<string, { readonly errorCode: number }> = {
  api: 'DeleteGroups',
  apiKey: 42,
  version: 1,
  flexible: false,
  encode(out, groupId) {
    out.int32(1).string(groupId)
  },
  decode(body) {
    body.int32()
    const groups = body.array(() => {
      body.string()
      return body.int16()
    })
    return { errorCode: groups[0] ?? -1 }
  },
}
