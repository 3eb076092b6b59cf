import type { DescribedGroup } from '../../kafka-cluster.ts'
import { operationsOf } from '../acl-operations.ts'
import type { RequestKind } from '../request.ts'

/** DescribeGroups v4 of one group, with what this principal may do with it. A group that does not exist is 'Dead' without an error. */
export const describeGroupsV4: RequestKind<string, DescribedGroup> = {
  api: 'DescribeGroups',
  apiKey: 15,
  version: 4,
  flexible: false,
  encode(out, groupId) {
    out.int32(1).string(groupId).bool(true)
  },
  decode(body) {
    body.int32()
    const groups = body.array(() => {
      const head = {
        errorCode: body.int16(),
        groupId: body.string(),
        state: body.string(),
        protocolType: body.string(),
        protocol: body.string(),
      }
      const members = body.array(() => {
        const memberId = body.string()
        body.nullableString()
        const member = {
          memberId,
          clientId: body.string(),
          clientHost: body.string(),
          metadata: body.bytes(),
        }
        body.bytes()
        return member
      })
      return { ...head, members, operations: operationsOf(body.int32()) }
    })
    return groups[0] ?? { errorCode: -1, groupId: '', state: '', protocolType: '', protocol: '', members: [] }
  },
}
