import type { JoinedGroup, JoinGroupRequest } from '../../kafka-cluster.ts'
import type { RequestKind } from '../request.ts'

/** JoinGroup v5. A first join answers MEMBER_ID_REQUIRED and the id to join with. */
export const joinGroupV5: RequestKind<JoinGroupRequest, JoinedGroup & { readonly errorCode: number }> = {
  api: 'JoinGroup',
  apiKey: 11,
  version: 5,
  flexible: false,
  encode(out, { groupId, sessionTimeoutMs, rebalanceTimeoutMs, memberId, protocolType, protocols }) {
    out
      .string(groupId)
      .int32(sessionTimeoutMs)
      .int32(rebalanceTimeoutMs)
      .string(memberId)
      .nullableString(null)
      .string(protocolType)
    out.array(protocols, ({ name, metadata }) => out.string(name).bytes(metadata))
  },
  decode(body) {
    body.int32()
    const head = {
      errorCode: body.int16(),
      generation: body.int32(),
      protocol: body.string(),
      leaderId: body.string(),
      memberId: body.string(),
    }
    const members = body.array(() => {
      const memberId = body.string()
      body.nullableString()
      return { memberId, metadata: body.bytes() }
    })
    return { ...head, members }
  },
}
