import { expect, test } from '@jest/globals'
import { editDistance, nearestName } from '../../../src/config/nearest-name.ts'

test.each([
  ['', '', 0],
  ['abc', 'abc', 0],
  ['abc', '', 3],
  ['kitten', 'sitting', 3],
  ['ab', 'ba', 1],
  ['checkpoint', 'chekcpoint', 1],
])('from %j to %j it takes %d edits', (a, b, edits) => {
  expect(editDistance(a, b)).toBe(edits)
  expect(editDistance(b, a)).toBe(edits)
})

const KEYS = ['state.backend', 'state.checkpoints.dir', 'execution.checkpointing.interval', 'log.level']

test.each([
  ['state.bakend', 'state.backend'],
  ['STATE_BACKEND', 'state.backend'],
  ['state.checkpoint.dir', 'state.checkpoints.dir'],
  ['checkpointing.interval', 'execution.checkpointing.interval'],
  ['interval', 'execution.checkpointing.interval'],
])('%s is meant as %s', (written, meant) => {
  expect(nearestName(written, KEYS)).toBe(meant)
})

test.each(['rest.port', 'x', '', 'metrics.reporters'])(
  'nothing is near to %j, so nothing wrong is offered',
  (written) => {
    expect(nearestName(written, KEYS)).toBeUndefined()
  },
)
