import { expect, test } from '@jest/globals'
import { packImages, unpackImages } from '../../../src/checkpoint/checkpoint-storage.ts'

const image = (keyGroup: number, ...bytes: number[]) => ({ keyGroup, bytes: Uint8Array.from(bytes) })

test('images come back from the blob, all or only the asked ones', () => {
  const { bytes, keyGroups } = packImages([image(5, 1, 2), image(2, 3), image(9, 4, 5, 6)])
  expect(keyGroups).toEqual([
    [2, 0, 1],
    [5, 1, 2],
    [9, 3, 3],
  ])
  expect(unpackImages(bytes, keyGroups)).toEqual([image(2, 3), image(5, 1, 2), image(9, 4, 5, 6)])
  expect(unpackImages(bytes, keyGroups.slice(1, 2))).toEqual([image(5, 1, 2)])
})

test('an extent outside of the blob is lost state, with the key group named', () => {
  for (const extent of [
    [3, 0, 7],
    [3, -1, 2],
    [3, 5, Number.NaN],
  ] as const)
    expect(() => unpackImages(new Uint8Array(6), [extent])).toThrow(/Key group 3/)
})
