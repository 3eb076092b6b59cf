import type { RequestKind } from '../request.ts'

/** LeaveGroup v3 of one member. */
export const leaveGroupV3: RequestKind<
  { readonly groupId: string; readonly memberId: string },
  { readonly errorCode: number }
> = {
  api: 'LeaveGroup',
  apiKey: 13,
  version: 3,
  flexible: false,
  encode(out, { groupId, memberId }) {
    out.string(groupId).int32(1).string(memberId).nullableString(null)
  },
  decode(body) {
    body.int32()
    const errorCode = body.int16()
    const members = body.array(() => {
      body.string()
      body.nullableString()
      return body.int16()
    })
    return { errorCode: errorCode === 0 ? (members[0] ?? 0) : errorCode }
  },
}
