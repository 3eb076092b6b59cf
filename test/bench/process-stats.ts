/** What Linux knows of a process. */
import { readFileSync } from 'node:fs'

const TICKS_PER_SECOND = 100

/** User and system CPU seconds of a process so far, 0 when it is gone. */
export function cpuSeconds(pid: number): number {
  const stat = read(`/proc/${pid}/stat`)
  if (stat === undefined) return 0
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

/** CPU seconds that the whole machine has worked since it started. */
export function machineCpuSeconds(): number {
  const fields = read('/proc/stat')!.split('\n')[0]!.trim().split(/\s+/).slice(1, 9).map(Number)
  // user nice system [idle iowait] irq softirq steal
  return fields.reduce((sum, ticks, i) => (i === 3 || i === 4 ? sum : sum + ticks), 0) / TICKS_PER_SECOND
}

/** The most memory that a process has held, in MB; 0 when it is gone. */
export function peakMegabytes(pid: number): number {
  const kilobytes = /^VmHWM:\s+(\d+)/m.exec(read(`/proc/${pid}/status`) ?? '')?.[1]
  return kilobytes === undefined ? 0 : Number(kilobytes) / 1024
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    // A process may end between two looks; Linux then says ENOENT or ESRCH.
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}
