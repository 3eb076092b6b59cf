/** A thread that hunts one mutant after another: what a mutant changes is changed in this thread only. */
import { parentPort } from 'node:worker_threads'
import { type Hunt, hunt } from './mutants.ts'

const port = parentPort
if (port === null) throw new Error('mutant-thread.ts runs as a thread of mutants.ts')
port.on('message', (order: Hunt) => {
  void hunt(order).then((kill) => port.postMessage(kill))
})
