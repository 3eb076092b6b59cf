/** A job without Kafka has one worker: it leads. */
import type { Leadership } from '../checkpoint/leadership.ts'

export class LocalLeadership implements Leadership {
  onLost: ((reason: string) => void) | undefined
  readonly workers = 1
  async lead(): Promise<void> {}
  async assertLeader(): Promise<void> {}
  async leave(): Promise<void> {}
}
