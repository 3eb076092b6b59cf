import type { RequestKind } from '../request.ts'

export interface SyncGroupInput {
  readonly groupId: string
  readonly generation: number
  readonly memberId: string
  readonly assignments: readonly { readonly memberId: string; readonly assignment: Buffer }[]
}

/** SyncGroup v3: the leader hands in all assignments, every member gets its own. */
export const syncGroupV3: RequestKind<
  SyncGroupInput,
  { readonly errorCode: number; readonly assignment: Buffer }
> = {
  api: 'SyncGroup',
  apiKey: 14,
  version: 3,
  flexible: false,
  encode(out, { groupId, generation, memberId, assignments }) {
    out.string(groupId).int32(generation).string(memberId).nullableString(null)
    out.array(assignments, (member) => out.string(member.memberId).bytes(member.assignment))
  },
  decode(body) {
    body.int32()
    return { errorCode: body.int16(), assignment: body.bytes() }
  },
}
