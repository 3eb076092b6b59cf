import type {
  CallOptions,
  DescribedGroup,
  JoinedGroup,
  JoinGroupRequest,
  TopicPartition,
} from '../kafka-cluster.ts'
import { KafkaCode } from '../kafka-cluster.ts'
import { isTransient } from './error-codes.ts'
import { deleteGroupsV1 } from './requests/delete-groups-v1.ts'
import { describeGroupsV4 } from './requests/describe-groups-v4.ts'
import { heartbeatV3 } from './requests/heartbeat-v3.ts'
import { joinGroupV5 } from './requests/join-group-v5.ts'
import { leaveGroupV3 } from './requests/leave-group-v3.ts'
import { offsetFetchV7 } from './requests/offset-fetch-v7.ts'
import { type SyncGroupInput, syncGroupV3 } from './requests/sync-group-v3.ts'
import type { Router } from './router.ts'

const GROUP_ID_NOT_FOUND = 69
/** Beyond the rebalance time-out a join is answered at the latest after this. */
const ANSWER_MARGIN_MS = 10_000

/** What group coordinators do: membership and committed offsets. */
export class Groups {
  readonly #router: Router

  constructor(router: Router) {
    this.#router = router
  }

  async fetchGroupOffsets(
    groupId: string,
    partitions: readonly TopicPartition[],
    options?: CallOptions,
  ): Promise<readonly (TopicPartition & { readonly offset: bigint })[]> {
    const answer = await this.#router.toCoordinator({
      type: 'group',
      key: groupId,
      request: offsetFetchV7,
      input: { groupId, partitions },
      refusal: (output) => {
        if (output.errorCode !== 0) return output.errorCode
        const refused = output.partitions.find(({ errorCode }) => errorCode !== 0)
        return refused === undefined
          ? 0
          : {
              code: refused.errorCode,
              resource: `group '${groupId}', topic '${refused.topic}', partition ${refused.partition}`,
            }
      },
      options,
    })
    const offsets = new Map(
      answer.partitions.map(({ topic, partition, offset }) => [`${partition} ${topic}`, offset]),
    )
    return partitions.map(({ topic, partition }) => ({
      topic,
      partition,
      offset: offsets.get(`${partition} ${topic}`) ?? -1n,
    }))
  }

  async joinGroup(request: JoinGroupRequest): Promise<JoinedGroup> {
    let { memberId } = request
    for (;;) {
      const { errorCode, ...joined } = await this.#router.toCoordinator({
        type: 'group',
        key: request.groupId,
        request: joinGroupV5,
        input: { ...request, memberId },
        refusal: (output) => (output.errorCode === KafkaCode.MEMBER_ID_REQUIRED ? 0 : output.errorCode),
        kind: 'waiting',
        waitMs: request.rebalanceTimeoutMs + ANSWER_MARGIN_MS,
      })
      if (errorCode !== KafkaCode.MEMBER_ID_REQUIRED) return joined
      memberId = joined.memberId
    }
  }

  async syncGroup(request: SyncGroupInput): Promise<Buffer> {
    const { assignment } = await this.#router.toCoordinator({
      type: 'group',
      key: request.groupId,
      request: syncGroupV3,
      input: request,
      refusal: ({ errorCode }) => errorCode,
      kind: 'waiting',
    })
    return assignment
  }

  async heartbeat(
    request: { readonly groupId: string; readonly generation: number; readonly memberId: string },
    options?: CallOptions,
  ): Promise<void> {
    await this.#router.toCoordinator({
      type: 'group',
      key: request.groupId,
      request: heartbeatV3,
      input: request,
      refusal: ({ errorCode }) => errorCode,
      options,
    })
  }

  async leaveGroup(
    request: { readonly groupId: string; readonly memberId: string },
    options?: CallOptions,
  ): Promise<void> {
    await this.#router.toCoordinator({
      type: 'group',
      key: request.groupId,
      request: leaveGroupV3,
      input: request,
      // A member that is not known any more when the request is repeated left with the first try.
      refusal: ({ errorCode }, tries) =>
        tries > 0 && errorCode === KafkaCode.UNKNOWN_MEMBER_ID ? 0 : errorCode,
      options,
    })
  }

  describeGroup(groupId: string, options?: CallOptions): Promise<DescribedGroup> {
    return this.#router.toCoordinator({
      type: 'group',
      key: groupId,
      request: describeGroupsV4,
      input: groupId,
      refusal: ({ errorCode }) =>
        isTransient(errorCode) || errorCode === KafkaCode.GROUP_AUTHORIZATION_FAILED ? errorCode : 0,
      options,
    })
  }

  async deleteGroup(groupId: string, options?: CallOptions): Promise<void> {
    await this.#router.toCoordinator({
      type: 'group',
      key: groupId,
      request: deleteGroupsV1,
      input: groupId,
      // A group that is not there any more when the request is repeated was deleted by the first try.
      refusal: ({ errorCode }, tries) => (tries > 0 && errorCode === GROUP_ID_NOT_FOUND ? 0 : errorCode),
      options,
    })
  }
}
