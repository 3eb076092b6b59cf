/** A thread that runs the seeds it is told to: `run.ts` starts one for each core. Each seed is deterministic, whoever runs it. */
import { parentPort } from 'node:worker_threads'
import { type SeedRequest, simulateSeed } from './simulate-seed.ts'

const port = parentPort
if (port === null) throw new Error('seed-thread.ts runs as a thread of run.ts')
// The answer to a report is the next request, so nothing arrives while a simulation runs.
port.on('message', (request: SeedRequest) => {
  void simulateSeed(request).then((report) => port.postMessage(report))
})
