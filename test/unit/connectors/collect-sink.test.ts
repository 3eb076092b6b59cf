import { describe, expect, test } from '@jest/globals'
import {
  type CollectCommittable,
  type CollectSink,
  collectingSink,
  collectSink,
} from '../../../src/connectors/collect-sink.ts'
import type { CommitterContext } from '../../../src/core/connector.ts'
import { permit, sinkContext, vector } from './sink-context.ts'

const commit = (sink: CollectSink<any>, n: number, committables: readonly CollectCommittable[]) =>
  sink.createCommitter({} as CommitterContext).commit(permit(n), committables)

describe('with checkpointing', () => {
  test('values become visible when their checkpoint is committed, not before', async () => {
    const sink = collectSink<number>()
    const writer = sink.createWriter(sinkContext())
    writer.write(vector(1, 2))
    const prepared = await writer.prepareCommit(1)
    writer.write(vector(3))
    expect(sink.values()).toEqual([])
    await commit(sink, 1, prepared)
    expect(sink.values()).toEqual([1, 2])
  })

  test('a repeated commit adds nothing, and one of another process does nothing', async () => {
    const sink = collectSink<number>()
    const writer = sink.createWriter(sinkContext())
    writer.write(vector(1))
    const prepared = await writer.prepareCommit(1)
    await commit(sink, 1, prepared)
    await commit(sink, 1, JSON.parse(JSON.stringify(prepared)))
    await commit(sink, 1, [{ batch: 'of another process' }])
    expect(sink.values()).toEqual([1])
  })

  test('values of an aborted checkpoint are in the next one', async () => {
    const sink = collectSink<number>()
    const writer = sink.createWriter(sinkContext())
    writer.write(vector(1))
    await writer.prepareCommit(1)
    writer.notifyCheckpointAborted?.(1)
    writer.write(vector(2))
    const prepared = await writer.prepareCommit(2)
    expect(prepared).toHaveLength(2)
    await commit(sink, 2, prepared)
    await writer.notifyCheckpointComplete?.(2)
    expect(sink.values()).toEqual([1, 2])
    expect(await writer.prepareCommit(3)).toEqual([])
  })

  test('a checkpoint that is still in flight stays pending when an older one completes', async () => {
    const sink = collectSink<number>()
    const writer = sink.createWriter(sinkContext())
    writer.write(vector(1))
    await writer.prepareCommit(1)
    writer.write(vector(2))
    await writer.prepareCommit(2)
    await writer.notifyCheckpointComplete?.(1)
    expect(await writer.prepareCommit(3)).toHaveLength(1)
  })

  test('what an attempt left undecided never becomes visible: the next attempt produces it again', async () => {
    const sink = collectSink<number>()
    const first = sink.createWriter(sinkContext({ attempt: 1 }))
    first.write(vector(1))
    const lost = await first.prepareCommit(1)
    const second = sink.createWriter(sinkContext({ attempt: 2 }))
    second.write(vector(1))
    await commit(sink, 2, await second.prepareCommit(2))
    await commit(sink, 1, lost)
    expect(sink.values()).toEqual([1])
  })
})

describe('without checkpointing', () => {
  test('values are visible at once', () => {
    const sink = collectSink<number>()
    sink.createWriter(sinkContext({ checkpointingEnabled: false })).write(vector(1, 2))
    expect(sink.values()).toEqual([1, 2])
  })

  test('a restart begins anew, so values of earlier attempts are taken back', () => {
    const sink = collectSink<number>()
    const write = (attempt: number, uid: string, value: number) =>
      sink.createWriter(sinkContext({ checkpointingEnabled: false, attempt, uid })).write(vector(value))
    write(1, 'a', 1)
    write(2, 'a', 1)
    write(2, 'b', 5)
    expect(sink.values()).toEqual([1, 5])
  })
})

describe('taking values out', () => {
  test('wakes its reader, and writers that wait for room', async () => {
    const sink = collectingSink<number>({ room: 2 })
    const writer = sink.createWriter(sinkContext({ checkpointingEnabled: false }))
    const changed = sink.changed()
    expect(writer.write(vector(1))).toBeUndefined()
    await changed
    const waiting = writer.write(vector(2))
    expect(waiting).toBeInstanceOf(Promise)
    expect(sink.take()).toEqual([1, 2])
    await waiting
    expect(writer.write(vector(3))).toBeUndefined()
  })

  test('release lets writers go for good', async () => {
    const sink = collectingSink<number>({ room: 1 })
    const writer = sink.createWriter(sinkContext({ checkpointingEnabled: false }))
    const waiting = writer.write(vector(1))
    sink.release()
    await waiting
    expect(writer.write(vector(2))).toBeUndefined()
  })

  test('fails when values already taken would come again', async () => {
    const sink = collectingSink<number>({ room: 10 })
    const start = (attempt: number) =>
      sink.createWriter(sinkContext({ checkpointingEnabled: false, attempt }))
    start(1).write(vector(1))
    sink.take()
    const changed = sink.changed()
    start(2)
    await changed
    expect(() => sink.take()).toThrow(expect.objectContaining({ code: 'MILLRACE_CHECKPOINTING_REQUIRED' }))
  })
})
