import type { RequestKind } from '../request.ts'

/** Heartbeat v3. */
export const heartbeatV3: RequestKind<
  { readonly groupId: string; readonly generation: number; readonly memberId: string },
  { readonly errorCode: number }
> = {
  api: 'Heartbeat',
  apiKey: 12,
  version: 3,
  flexible: false,
  encode(out, { groupId, generation, memberId }) {
    out.string(groupId).int32(generation).string(memberId).nullableString(null)
  },
  decode(body) {
    body.int32()
    return { errorCode: body.int16() }
  },
}
